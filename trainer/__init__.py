"""How it learns: settings, actor loop, learner loop, checkpoints, metrics, evaluation."""

"""One update of the weights: batches, the learner, optimizers."""

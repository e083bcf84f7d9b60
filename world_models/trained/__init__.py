"""Uses of a trained world model: evaluated with its policy, exported, opened to be played."""

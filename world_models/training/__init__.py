"""The phases of ``--algorithm=simple``: real play, the model, the policy in it, and their loop."""

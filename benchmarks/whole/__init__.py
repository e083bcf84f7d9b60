"""The whole trainer: its rate, its memory, its growth with learners, its peers."""

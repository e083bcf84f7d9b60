"""The newest agent steps, and windows drawn from them."""

"""Hosts that are yours: keepers in tmux windows, reached by SSH."""

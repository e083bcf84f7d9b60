"""The trainer compared with alternatives, on the same work and in turn."""

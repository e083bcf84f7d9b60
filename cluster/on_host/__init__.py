"""What runs on the hosts themselves: Python's standard library only, sent there as text."""

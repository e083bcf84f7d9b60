"""Environments written in Python, stepped in this process or in worker processes."""

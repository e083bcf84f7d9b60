"""How it starts: a CSV of hosts → a plan → processes on those hosts; status, logs, stop.

Nothing in here imports TensorFlow.
"""

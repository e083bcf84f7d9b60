"""Launching on a cluster: CSV of hosts → plan → processes on those hosts; status, logs, stop.

Nothing in here imports TensorFlow.
"""

"""The trainer compared with alternatives: `python -m benchmarks peers`."""

"""The trainer beside what users would pick instead: `python -m benchmarks peers`."""

"""How fast it is: ``python -m benchmarks`` lists what can be measured, and runs one by its name."""

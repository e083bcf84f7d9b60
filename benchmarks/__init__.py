"""How fast it is: each module measures one part and prints a table, `python -m benchmarks.NAME`."""

"""Example CSVs of hosts, and the scripts behind docs/studies: `python -m sandbox.NAME`."""

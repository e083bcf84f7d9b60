"""Example CSVs of hosts, and the scripts behind docs/studies."""

"""Example CSVs, what makes a CSV from other lists of hosts, and the scripts behind docs/studies."""

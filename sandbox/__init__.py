"""Example CSVs, and what makes a CSV from lists of hosts that others keep."""

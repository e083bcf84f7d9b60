"""The settings of each algorithm. Imports nothing heavy."""

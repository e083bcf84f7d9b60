"""Learning algorithms, one file each, and the data that all of them learn from."""

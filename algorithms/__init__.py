"""What is learned, one file an algorithm, and the data that all of them learn from."""

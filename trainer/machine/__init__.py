"""This machine and this process: cores, threads, precision, standard output."""

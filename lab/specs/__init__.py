"""What an experiment is: specs in files, read, checked, translated and frozen."""

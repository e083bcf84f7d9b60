"""Lists of hosts: the CSV, and what makes one from other lists."""

"""Lists of hosts: the CSV, and conversion from other lists."""

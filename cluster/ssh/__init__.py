"""Ways to reach hosts: connections, keys, passwords, logins."""

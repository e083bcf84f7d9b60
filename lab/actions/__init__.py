"""What the commands of ``bin/lab`` do."""

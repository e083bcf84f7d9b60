"""Playing: environments and agents are built here, and actors fill unrolls."""

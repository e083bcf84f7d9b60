"""Playing: agents choose actions, and actors fill unrolls."""

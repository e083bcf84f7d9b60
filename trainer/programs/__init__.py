"""What a process does from start to end: train here, learn, act; and how it stops."""

"""What the frontend does: check, sync, start, watch, show logs, stop."""

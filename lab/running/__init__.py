"""The runner of an experiment: places for sessions, what is shown meanwhile."""

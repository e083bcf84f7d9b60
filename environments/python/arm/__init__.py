"""A small robot arm of three joints in MuJoCo, and the levels that are played with it."""

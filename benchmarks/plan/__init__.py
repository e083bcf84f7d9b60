"""Estimates the speed of a cluster from measured parts."""

"""Builds of Unity with ML-Agents, each agent a column of the batch; see docs/environments.md."""

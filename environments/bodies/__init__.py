"""Games of several bodies, each a column of the batch; see docs/bodies.md."""

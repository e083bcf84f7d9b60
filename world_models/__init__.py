"""World models: learn how a game goes on from what was played, then learn to play in the dream."""

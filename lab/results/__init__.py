"""What comes out of an experiment: curves, fitness, tables, graphs, the page."""

"""Figures of a run, and the places that show them: panel, lines, files, curve, summary."""

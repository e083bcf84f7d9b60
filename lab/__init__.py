"""Experiments: from a spec to trials with several seeds, to tables, graphs and a page."""

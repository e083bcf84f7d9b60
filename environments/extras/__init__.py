"""Worlds that an extra of bin/setup brings, each made by a module of its own."""

"""The guide as Markdown, and what writes the parts of it that follow from the code."""

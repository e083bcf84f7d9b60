"""One agent for bodies that differ in what they see and do: layers of their own around shared ones.

An observation is a vector, then zeros, then the number of the body's kind; or a picture whose first
byte is that number. `environments.kinds` makes such rows.
"""

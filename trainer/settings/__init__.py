"""The settings of a process, defined once each, and command lines made from them."""

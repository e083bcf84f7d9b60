"""Bodies of one agent that differ in what they see and do: rows that have room for all of them.

All such rows have the same shape, so that unrolls, transports, stores and algorithms need not know
of kinds. A vector is followed by zeros and, as the last number, the number of its kind. Pictures
have one size; there the kind's number replaces the first byte. An action is a body's own, followed
by zeros where others need more numbers.
"""

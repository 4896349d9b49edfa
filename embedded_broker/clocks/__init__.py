"""Clocks: what time it is, what is due next, and how a test waits and jumps."""

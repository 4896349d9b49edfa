"""Consumers and producers: who is connected, and what a group is allowed to do."""

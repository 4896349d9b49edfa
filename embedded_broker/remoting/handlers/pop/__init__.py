"""Handlers of requests of POP consumers, and of queue assignment by the broker."""

"""Requests that bring messages, end transactions and recall timers."""

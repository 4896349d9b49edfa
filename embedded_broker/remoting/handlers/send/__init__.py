"""Handlers of requests that bring messages, end transactions and recall timers."""

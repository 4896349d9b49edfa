"""Handlers of administration, heartbeats and statistics."""

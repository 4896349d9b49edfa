"""Handlers of requests that read messages."""

"""Requests that take messages out."""

"""Requests of clients and tools that configure, look and report."""

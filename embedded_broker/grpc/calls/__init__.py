"""Calls of gRPC clients, a module for each family: read outside the door, handled inside."""

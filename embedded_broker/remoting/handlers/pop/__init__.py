"""Requests of POP consumers, and of those that let the broker distribute queues."""

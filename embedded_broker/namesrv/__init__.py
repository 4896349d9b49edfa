"""The name server: which brokers are there, and which of them hold a topic."""

"""Public classes of a test: the broker, its views and its faults."""

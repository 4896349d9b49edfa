"""What a test holds: the broker, its views and its faults."""

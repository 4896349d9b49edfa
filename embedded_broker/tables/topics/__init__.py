"""Topics: which exist on one broker, with how many queues and which permissions."""

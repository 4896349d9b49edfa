"""What is configured and who is connected: topics, groups, clients, offsets, and their files."""

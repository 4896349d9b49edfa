"""Tables of what is configured and who is connected: topics, groups, clients, offsets."""

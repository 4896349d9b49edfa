"""The 18 delay levels: a queue for each, and when its next message is due."""

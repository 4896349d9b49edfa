"""What every client shares: the client instance with routes, heartbeats and background tasks.

Knows brokers and name servers, never how a message is sent or consumed. Start with
``instance.py``.
"""

"""How driver and tasks reach servers, wait for them, and tell about it.

Start with ``access.py``.
"""

"""What a user says: the options, checked before anything is connected.

Start with ``table.py``, which has all of them. Must not know Spark, Arrow or the network.
"""

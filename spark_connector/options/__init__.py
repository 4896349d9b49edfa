"""What a user says: the options, checked before anything is connected.

Start with ``options.py``. Must not know Spark, Arrow or the network.
"""

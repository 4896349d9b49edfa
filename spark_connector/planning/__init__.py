"""Which offsets of which queues are read: where it begins, and how far it may go now.

Start with ``start_places.py`` for a batch and ``tracker.py`` for a stream.
"""

"""Sending: the producer, its send paths, queue selection, fault avoidance and batches.

Start with ``producer.py`` for the face and ``send_kernel.py`` for the path of one message.
"""

"""Functions on DataFrames: send, recall, offsets, lag, copies of what was read.

Called by users, and by Spark in executors. Start with ``send_recall.py``.
"""

"""Writing: from record batches to requests, and from answers to what Spark is told.

``writers.py`` has what Spark calls, ``sending.py`` is a task.
"""

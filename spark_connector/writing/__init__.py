"""Writing: from record batches to requests, and from answers to what Spark is told.

``batch_writer.py`` and ``stream_writer.py`` are what Spark calls, ``sending.py`` is a task.
"""

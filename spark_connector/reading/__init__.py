"""Reading: from ranges of offsets to the record batches that Spark takes.

``batch_reader.py`` and ``stream_reader.py`` are what Spark calls, ``range_reader.py`` is a task.
"""

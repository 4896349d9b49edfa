"""The message store: RocketMQ's files, their readers and writers, and what recovers them.

Answers: where a message lies and how it is found again. Must not know: requests, connections,
timers. Read on: ``message_store.py`` for the face, ``fs.py`` for the seam below it.
"""

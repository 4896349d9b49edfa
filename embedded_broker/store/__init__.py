"""The message store: RocketMQ's files and their recovery (record format: rocketmq_py/protocol).

Answers: where a message lies and how it is found again. Must not know: requests, connections,
timers. Read on: ``message_store.py`` for the face, ``fs.py`` for the seam below it.
"""

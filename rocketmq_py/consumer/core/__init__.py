"""The consumer core: queues and messages on their way to and from whatever handles them.

Every kind of consumer is put together from these parts (``../assembly.py`` has the table). They
know no listener and no Java status: messages go to a `Dispatch`, an `Outcome` comes back.
"""

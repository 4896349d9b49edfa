"""How bytes travel: TCP with one I/O thread, or straight into a server of this process.

Knows frames and commands, never topics, routes or retries. Start with ``channel.py`` (the
interface) and ``calls.py`` (what is in flight), then ``tcp.py`` and ``inproc.py``.
"""

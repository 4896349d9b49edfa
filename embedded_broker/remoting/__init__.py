"""Remoting: bytes become calls of ``core``, results become bytes (codec: rocketmq_py/protocol)."""

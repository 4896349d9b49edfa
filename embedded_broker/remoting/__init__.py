"""RocketMQ's remoting protocol: bytes become calls of ``core``, and results become bytes."""

"""The RocketMQ remoting protocol as bytes and values, one copy for client and broker.

Nothing in this package waits, reads a clock or logs. Start reading at `frame` (bytes to frames),
`command` (frames to commands), `headers` and `bodies` (commands to typed values) and
`message_codec` (stored records). Importing the package loads none of them.
"""

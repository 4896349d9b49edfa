"""What RocketMQ's own filter says of expressions and properties."""

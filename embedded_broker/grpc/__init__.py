"""RocketMQ's gRPC protocol, for its official 5.x clients. Needs the extra ``grpc``."""

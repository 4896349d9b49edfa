"""Ask an embedded broker for a route by gRPC, without any client of RocketMQ."""

import grpc

from embedded_broker import EmbeddedBroker
from embedded_broker.grpc.descriptors import load_messages

with EmbeddedBroker(grpc=True, topics=["T"]) as broker:
    v2 = load_messages()
    request = v2.QueryRouteRequest()
    request.topic.name = "T"
    with grpc.insecure_channel(broker.endpoints) as channel:
        ask = channel.unary_unary("/apache.rocketmq.v2.MessagingService/QueryRoute")
        raw = ask(
            request.SerializeToString(), timeout=10, metadata=[("x-mq-client-id", "packaging")]
        )
    answer = v2.QueryRouteResponse.FromString(raw)
print("works" if len(answer.message_queues) == 4 else answer)

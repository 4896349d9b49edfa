"""``broker.grpc_clients()``: who is connected by gRPC.

Answers: what each client said of itself, and what it waits for. Must not know: protobuf; nothing of
the extra ``grpc`` is loaded here. Read on: ``embedded_broker/grpc/clients.py``.
"""

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING

from attrs import frozen

from embedded_broker.lifecycle.grpc_serving import GrpcFace
from embedded_broker.tables.peer import Peer
from rocketmq_py.protocol.bodies.heartbeat import CONSUME_PASSIVELY

if TYPE_CHECKING:
    from embedded_broker.grpc.clients import GrpcClient


class GrpcClientKind(StrEnum):
    """What a client is; names as in ``ClientType`` of the protocol."""

    PRODUCER = "PRODUCER"
    PUSH_CONSUMER = "PUSH_CONSUMER"
    SIMPLE_CONSUMER = "SIMPLE_CONSUMER"


@frozen(kw_only=True)
class GrpcClientInfo:
    """One connected gRPC client; ``language`` and ``version`` are the texts that it sends.

    ``address`` is where its last call came from. ``group`` is that of a consumer, "" of a producer;
    ``topics`` are those that it subscribes to, or said that it sends to. ``has_stream``: the broker
    can reach it, as it must to ask about a transaction. ``waiting`` receives found nothing yet;
    ``held`` messages are hidden for longer until it is done with them.
    """

    client_id: str
    address: str
    language: str
    version: str
    kind: GrpcClientKind
    group: str
    topics: tuple[str, ...]
    has_stream: bool
    waiting: int
    held: int


def grpc_clients_of(face: GrpcFace) -> tuple[GrpcClientInfo, ...]:
    """Give the known clients of an endpoint, in the order of arrival."""
    with face.endpoint.door.quiet:
        brokers = face.endpoint.brokers.values()
        held = sum((services.pop.renewals.counts() for services in brokers), Counter[Peer]())
        waiters = [services.pop.service.waiters for services in brokers]
        return tuple(
            _told(one, sum(waiting.count_of(one) for waiting in waiters), held[one])
            for one in face.endpoint.clients.all()
        )


def _told(client: "GrpcClient", waiting: int, held: int) -> GrpcClientInfo:
    entered = client.entered
    kind = GrpcClientKind.PRODUCER
    group, topics = "", tuple(one.group_name for one in entered.producer_data_set)
    for one in entered.consumer_data_set:
        pushes = one.consume_type == CONSUME_PASSIVELY
        kind = GrpcClientKind.PUSH_CONSUMER if pushes else GrpcClientKind.SIMPLE_CONSUMER
        group = one.group_name
        topics = tuple(sub.topic for sub in one.subscription_data_set)
    return GrpcClientInfo(
        client_id=client.client_id,
        address="{}:{}".format(*client.remote),
        language=client.language,
        version=client.version,
        kind=kind,
        group=group,
        topics=topics,
        has_stream=client.stream is not None,
        waiting=waiting,
        held=held,
    )

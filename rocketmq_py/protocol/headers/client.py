"""What the life of clients and groups says in its headers: requests 35, 38 and 40."""

from __future__ import annotations

from rocketmq_py.protocol.headers import Header, Text, optional, required


class UnregisterClientRequestHeader(Header):
    """35: one group of a client goes away."""

    client_id: Text = required("clientID")
    producer_group: Text | None = optional("producerGroup")
    consumer_group: Text | None = optional("consumerGroup")
    broker_name: Text | None = optional("bname")


class GetConsumerListByGroupRequestHeader(Header):
    """38: the client ids of a consumer group."""

    consumer_group: Text = required("consumerGroup")
    broker_name: Text | None = optional("bname")


class NotifyConsumerIdsChangedRequestHeader(Header):
    """40, broker to client: the members or subscriptions of the group changed."""

    consumer_group: Text = required("consumerGroup")

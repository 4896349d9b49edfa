"""What clients tell and ask about themselves, groups and routes: headers of 35, 38, 40 and 105.

Requests 106 and 206 to a name server have no header.
"""

from __future__ import annotations

from rocketmq_py.protocol.headers import Flag, Header, Text, optional, required


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


class GetRouteInfoRequestHeader(Header):
    """105: where a topic's queues are. The flag asks for quoted keys in the answer."""

    topic: Text = required("topic")
    accept_standard_json_only: Flag | None = optional("acceptStandardJsonOnly")

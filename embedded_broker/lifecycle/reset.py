"""Reset: a broker begins anew behind the connections of the old one.

Answers: what a reset keeps (connections, which clients are members of which group, since that was
said by living clients, and the topics that these read, now empty), who is still there, and what
each waiting request hears: a parked pull is asked again of the new state, so that its client
learns that its offset is gone. Must not know: files, threads. Read on:
``embedded_broker/lifecycle/running_brokers.py`` (``reset``), which calls this under the door.
"""

from attrs import frozen

from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.tables.broker_tables import Tables
from rocketmq_py.protocol.names import is_retry_topic, retry_topic


@frozen(kw_only=True)
class Connected:
    """The clients that stay connected over a reset: client ids, by group."""

    consumers: dict[str, tuple[str, ...]]
    producers: dict[str, tuple[str, ...]]


def succeed(old: BrokerParts, new: BrokerParts) -> None:
    """Let ``new`` go on with the clients of ``old``. Under the door, both endpoints are one."""
    known, tables = old.tables, new.tables
    tables.consumers.take_over(known.consumers)
    tables.producers.take_over(known.producers)
    tables.consumer_filters.take_over(known.consumer_filters)
    for name in tables.consumers.groups():
        _keep_topics(name, known, tables)
        group = tables.groups.find(name)
        if group is not None:
            tables.topics.ensure(retry_topic(name), group.retry_queue_nums)
        _begin_anew(name, known, tables)
    old.durability.give_up_waiting()
    old.calls.forget_all()
    old.pop.service.heir, old.pop.peeks.heir = new.pop.service, new.pop.peeks
    old.consume.hand_over(new.consume)


def _keep_topics(group: str, old: Tables, new: Tables) -> None:
    """Create what a group's clients read again: without it they would wait before they ask anew."""
    live = new.consumers.get(group)
    for topic in () if live is None else live.wanted_topics():
        config = old.topics.get(topic)
        if config is not None and topic not in new.topics and not is_retry_topic(topic):
            new.topics.put(config)


def still_connected(parts: BrokerParts) -> Connected:
    """Say which clients are there. Under the door."""
    return Connected(
        consumers={
            name: tuple(live.client_ids())
            for name in parts.tables.consumers.groups()
            if (live := parts.tables.consumers.get(name)) is not None
        },
        producers={
            name: tuple(member.client_id for member in parts.tables.producers.members(name))
            for name in parts.tables.producers.groups()
        },
    )


def _begin_anew(group: str, old: Tables, new: Tables) -> None:
    """Let a group's clients hear that the queues which they were reading begin at 0 again.

    Else one that counts further messages from before would skip as many of the new ones.
    """
    for topic in old.deliveries.topics_of(group):
        config = old.topics.get(topic)
        for queue_id in range(0 if config is None else config.read_queue_nums):
            if old.deliveries.next_offset(group, topic, queue_id):
                new.offsets.begin_anew(group, topic, queue_id)

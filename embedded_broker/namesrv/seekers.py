"""Seekers: consumers that asked for the route of a topic that did not exist.

Answers: what a consumer still waits for that no broker knows of yet: without a route it has nobody
to send its heartbeat to. A client over TCP cannot be asked, but it asked: for the route of its
group's retry topic, which tells that it consumes, and for the topics that it subscribes to. Must
not know: brokers, groups' members. Every call is made under the door. Read on:
``embedded_broker/lifecycle/idleness.py``, which judges whether the consumer has come meanwhile.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from attrs import define, field

from embedded_broker.tables.peer import Peer
from rocketmq_py.clock import monotonic
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC, RETRY_PREFIX, is_retry_topic

JOINS_WITHIN_S: Final = 2.0
"""A client that has got the route and does not join in this time wanted it for something else."""
TOPICS_MAX: Final = 1_000
"""Topics that are remembered for one connection; the oldest ones are forgotten first."""


class Seeker(NamedTuple):
    """A consumer of these groups that was told that there is no such topic."""

    peer: Peer
    groups: frozenset[str]
    topic: str


@define(slots=True, eq=False)
class _Asked:
    """What one connection asked: its groups; its topics, with the time at which it was routed."""

    groups: set[str] = field(factory=set)
    topics: dict[str, float | None] = field(factory=dict)


class Seekers:
    """The connections that asked for routes in vain. Clients of this process tell themselves."""

    def __init__(self) -> None:
        self._asked: WeakKeyDictionary[Peer, _Asked] = WeakKeyDictionary()

    def told(self, peer: Peer, topic: str, *, exists: bool) -> None:
        """Note what a connection asked for, and whether it got a route."""
        if peer.mailbox is not None:
            return
        asked = self._asked.setdefault(peer, _Asked())
        if topic == AUTO_CREATE_TOPIC:
            # A producer asks for this right after the topic that its first send will create.
            asked.topics = dict(list(asked.topics.items())[:-1])
        elif is_retry_topic(topic):
            asked.groups.add(topic.removeprefix(RETRY_PREFIX))
        elif not exists:
            asked.topics[topic] = None
            if len(asked.topics) > TOPICS_MAX:
                del asked.topics[next(iter(asked.topics))]
        elif topic in asked.topics:
            asked.topics[topic] = asked.topics[topic] or monotonic()

    def waiting(self) -> Iterator[Seeker]:
        """Give the consumers that have asked in vain, or joined only a moment ago perhaps."""
        now = monotonic()
        for peer, asked in list(self._asked.items()):
            if peer.closed or not asked.groups:
                continue
            for topic, routed_at in list(asked.topics.items()):
                if routed_at is not None and now - routed_at > JOINS_WITHIN_S:
                    del asked.topics[topic]
                else:
                    yield Seeker(peer, frozenset(asked.groups), topic)

    def forget(self, seeker: Seeker) -> None:
        """Note that a consumer has found what it asked for."""
        asked = self._asked.get(seeker.peer)
        if asked is not None:
            asked.topics.pop(seeker.topic, None)

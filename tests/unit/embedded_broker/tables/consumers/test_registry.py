"""Live consumers, their subscriptions, live producers and queue locks by themselves."""

from __future__ import annotations

from embedded_broker.remoting.requests import Connection
from embedded_broker.tables.consumers.registry import (
    LOCK_LEASE_MS,
    ConsumerRegistry,
    Member,
    ProducerRegistry,
    QueueLocks,
)
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.heartbeat import ConsumerData, SubscriptionData

Q0, Q1 = (MessageQueueKey("T", "b", number) for number in range(2))


class Peer(Connection):
    """A connection without a wire."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 1), ("127.0.0.1", 2))

    def deliver(self, frames: list[bytes]) -> None:
        raise AssertionError("nothing is sent in these tests")

    def close(self) -> None:
        self.closed = True


def member(connection: Connection, client_id: str = "c", seen_ms: int = 0) -> Member:
    return Member(connection, client_id, 0, 479, seen_ms)


def data(*topics: str, version: int = 1, expression: str = "*") -> ConsumerData:
    return ConsumerData(
        "g",
        subscription_data_set=[
            SubscriptionData.parse(topic, expression, version) for topic in topics
        ],
    )


def test_a_new_socket_is_a_change_and_a_repeated_heartbeat_is_none() -> None:
    registry, peer = ConsumerRegistry(), Peer()
    assert registry.register(data("T"), member(peer))
    assert not registry.register(data("T"), member(peer, seen_ms=5))
    (kept,) = registry.all_members()
    assert kept.last_seen_ms == 5


def test_two_sockets_with_one_client_id_are_two_members() -> None:
    registry = ConsumerRegistry()
    for _ in range(2):
        registry.register(data("T"), member(Peer()))
    group = registry.get("g")
    assert group is not None
    assert group.client_ids() == ["c", "c"]


def test_a_socket_that_changes_its_client_id_is_renamed_without_a_change() -> None:
    registry, peer = ConsumerRegistry(), Peer()
    registry.register(data("T"), member(peer, "old"))
    assert not registry.register(data("T"), member(peer, "new"))
    group = registry.get("g")
    assert group is not None
    assert group.client_ids() == ["new"]


def test_topics_that_come_or_go_are_a_change_and_newer_versions_are_not() -> None:
    registry, peer = ConsumerRegistry(), Peer()
    registry.register(data("T"), member(peer))
    assert registry.register(data("T", "U"), member(peer))
    assert registry.register(data("T"), member(peer))
    assert not registry.register(data("T", version=2, expression="a"), member(peer))
    assert not registry.register(data("T", version=1, expression="b"), member(peer))
    group = registry.get("g")
    assert group is not None
    assert group.subscriptions["T"].sub_string == "a"


def test_a_group_is_gone_with_its_last_member() -> None:
    registry, peers = ConsumerRegistry(), [Peer(), Peer()]
    for peer in peers:
        registry.register(data("T"), member(peer))
    assert registry.unregister("g", Peer()) is None
    assert registry.unregister("unknown", peers[0]) is None
    assert [group.name for group in registry.drop(peers[0])] == ["g"]
    assert registry.groups() == ["g"]
    registry.drop(peers[1])
    assert registry.groups() == []
    assert registry.get("g") is None


def test_a_member_says_where_it_is_and_in_which_language_it_is_written() -> None:
    assert member(Peer()).address == "127.0.0.1:1"
    assert [Member(Peer(), "c", number, 479, 0).language_name for number in (0, 9, 99)] == [
        "JAVA",
        "GO",
        "OTHER",
    ]


def test_producers_come_and_go_by_group_and_by_connection() -> None:
    registry, peer, other = ProducerRegistry(), Peer(), Peer()
    for group in ("g", "h"):
        registry.register(group, Member(peer, "p", 0, 479, 1))
    registry.register("g", Member(other, "q", 0, 479, 1))
    registry.register("g", Member(peer, "p", 0, 479, 2))
    assert [one.client_id for one in registry.members("g")] == ["p", "q"]
    assert sorted(one.last_seen_ms for one in registry.all_members()) == [1, 1, 2]
    registry.unregister("g", other)
    registry.unregister("unknown", other)
    assert registry.groups() == ["g", "h"]
    registry.drop(peer)
    assert registry.groups() == []


def test_a_lease_is_renewed_by_its_owner_and_free_when_it_ends() -> None:
    locks = QueueLocks()
    assert locks.lock("g", [Q0], "x", now_ms=0) == [Q0]
    assert locks.lock("g", [Q0], "x", now_ms=LOCK_LEASE_MS - 1) == [Q0]
    assert locks.lock("g", [Q0, Q1], "y", now_ms=LOCK_LEASE_MS) == [Q1]
    assert locks.lock("g", [Q0], "y", now_ms=2 * LOCK_LEASE_MS - 1) == [Q0]


def test_groups_do_not_see_each_other() -> None:
    locks = QueueLocks()
    locks.lock("g", [Q0], "x", now_ms=0)
    assert locks.lock("h", [Q0], "y", now_ms=0) == [Q0]


def test_a_group_with_an_unexpired_lock_is_known() -> None:
    locks = QueueLocks()
    assert not locks.any_held("g", now_ms=0)
    locks.lock("g", [Q0], "x", now_ms=0)
    assert locks.any_held("g", now_ms=LOCK_LEASE_MS - 1)
    assert not locks.any_held("g", now_ms=LOCK_LEASE_MS)
    locks.unlock("g", [Q0], "y")
    assert locks.any_held("g", now_ms=0)
    locks.unlock("g", [Q0], "x")
    assert not locks.any_held("g", now_ms=0)


def test_members_that_subscribe_to_different_things_are_told_apart() -> None:
    registry = ConsumerRegistry()
    first, second = Peer(), Peer()
    registry.register(data("T"), member(first, "one"))
    live = registry.get("g")
    assert live is not None
    assert live.disagreement() is None

    registry.register(data("U", expression="a"), member(second, "two"))
    assert live.disagreement() == "one to T (*); two to U (a)"
    assert live.wanted_topics() == ["U", "T"]

    registry.register(data("T"), member(second, "two"))
    assert live.disagreement() is None
    registry.register(data("U"), member(second, "two"))
    registry.unregister("g", second)
    assert live.disagreement() is None
    assert list(live.said) == [first]

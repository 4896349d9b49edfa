"""Live producers by themselves."""

from __future__ import annotations

from embedded_broker.tables.consumers.producers import ProducerRegistry
from embedded_broker.tables.consumers.registry import Member
from tests.unit.embedded_broker.tables.consumers.test_registry import Peer


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

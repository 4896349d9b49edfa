"""Consumer groups over HTTP."""

from __future__ import annotations

from embedded_broker import EmbeddedBroker
from tests.unit.embedded_broker.control.http_peer import HttpPeer
from tests.unit.embedded_broker.wire_peer import Connect, consumer

GROUP = "G"


def test_a_group_is_told_moved_and_waited_for(
    broker: EmbeddedBroker, control: HttpPeer, connect: Connect
) -> None:
    broker.send("T", b"x", queue=1)
    peer = connect(broker.addr)
    peer.heartbeat("C", consumer(GROUP, {"T": "*"}))
    told = control.post(f"/groups/{GROUP}/wait", count=1)
    assert len(told["members"]) == 1
    assert control.get("/groups") == [GROUP]
    places = control.post(f"/groups/{GROUP}/reset", topic="T", to="earliest")
    assert [one["committed"] for one in places] == [0, 0, 0, 0]
    assert control.get(f"/groups/{GROUP}", topic="T")["lag"] == 1
    moved = control.post(f"/groups/{GROUP}/reset", topic="T", offset=1, queue=1)
    assert [(one["queue_id"], one["committed"]) for one in moved] == [(1, 1)]
    assert control.get(f"/groups/{GROUP}", topic="T")["lag"] == 0
    control.post(f"/groups/{GROUP}/reset", topic="T", at=broker.clock.now_ms)
    assert control.get(f"/groups/{GROUP}", topic="T")["lag"] == 1
    assert control.get(f"/groups/{GROUP}/retries") == []
    assert control.get(f"/groups/{GROUP}/dead_letters") == []


def test_what_is_unknown_is_told(control: HttpPeer) -> None:
    assert "no group 'H'" in control.refused(404, "GET", "/groups/H")["detail"]
    told = control.refused(504, "POST", "/groups/H/wait", timeout=0)
    assert "1 members in group 'H'" in told["detail"]


def test_a_reset_has_one_target(
    broker: EmbeddedBroker, control: HttpPeer, connect: Connect
) -> None:
    connect(broker.addr).heartbeat("C", consumer(GROUP, {"T": "*"}))
    for target in ({}, {"to": "latest", "offset": 0}):
        told = control.refused(400, "POST", f"/groups/{GROUP}/reset", topic="T", **target)
        assert "one of to, offset and at" in told["limit"]

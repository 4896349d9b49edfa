"""The journal over HTTP."""

from __future__ import annotations

from embedded_broker import EmbeddedBroker
from tests.unit.embedded_broker.control.http_peer import HttpPeer


def test_requests_are_told_by_what_they_are_about(
    broker: EmbeddedBroker, control: HttpPeer
) -> None:
    for topic in ("T", "T", "U"):
        broker.send(topic, b"secret body")
    told = control.get("/journal", code="SEND_MESSAGE_V2", topic="T", last=1)
    assert (told["count"], len(told["requests"])) == (2, 1)
    (one,) = told["requests"]
    assert (one["code"], one["response_code"], one["body_size"]) == (310, 0, 11)
    assert one["fields"]["b"] == "T"
    assert control.delete("/journal") == {"count": 3}
    assert control.get("/journal")["requests"] == []


def test_a_wait_ends_with_the_request_or_with_its_time(
    broker: EmbeddedBroker, control: HttpPeer
) -> None:
    broker.send("T", b"x")
    assert control.get("/journal", code=310, count=1)["count"] == 1
    told = control.refused(504, "GET", "/journal?code=310&topic=T&count=2&timeout=0")
    assert "2 requests in the journal, code 310, topic T" in told["detail"]
    assert "did you mean" in control.refused(400, "GET", "/journal?code=SEND_MESAGE")["limit"]

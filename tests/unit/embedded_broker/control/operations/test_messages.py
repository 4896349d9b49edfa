"""Messages over HTTP: look, trace, send."""

from __future__ import annotations

from embedded_broker import EmbeddedBroker
from tests.unit.embedded_broker.control.http_peer import HttpPeer


def test_a_message_is_sent_listed_found_and_traced(control: HttpPeer) -> None:
    sent = control.post(
        "/messages", topic="T", body="grüße", tags="A", keys="K1 K2", properties={"p": "v"}
    )
    (one,) = control.get("/messages", topic="T")["messages"]
    assert (one["body"], one["tags"], one["keys"]) == ("grüße", "A", ["K1", "K2"])
    assert one["properties"]["p"] == "v"
    assert control.get(f"/messages/{sent['msg_id']}") == one
    assert control.get(f"/messages/{sent['offset_msg_id']}") == one
    assert control.get("/messages", topic="T", key="K2")["messages"] == [one]
    trace = control.get(f"/messages/{sent['msg_id']}/trace")
    assert (trace["state"], trace["topic"], trace["groups"]) == ("ready", "T", {})


def test_bytes_come_and_go_in_base64(broker: EmbeddedBroker, control: HttpPeer) -> None:
    control.post("/messages", topic="T", body_base64="/wD+")
    assert [one.body for one in broker.messages.in_topic("T")] == [b"\xff\x00\xfe"]
    (one,) = control.get("/messages", topic="T")["messages"]
    assert (one["body"], one["body_base64"]) == (None, "/wD+")


def test_messages_come_in_pages(broker: EmbeddedBroker, control: HttpPeer) -> None:
    for number in range(5):
        broker.send("T", b"%d" % number)
    page = control.get("/messages", topic="T", skip=3, limit=10)
    assert (page["count"], [one["body"] for one in page["messages"]]) == (5, ["3", "4"])


def test_each_kind_of_delay_waits(broker: EmbeddedBroker, control: HttpPeer) -> None:
    due = broker.clock.now_ms + 4000
    control.post("/messages", topic="T", body="s", delay=2.5)
    control.post("/messages", topic="T", body="l", delay_level=2)
    control.post("/messages", topic="T", body="a", deliver_at=due)
    kinds = [timer.kind.name for timer in broker.timers.pending()]
    assert sorted(kinds) == ["DELIVER_AT", "LEVEL", "MS"]


def test_a_message_comes_again_with_its_id(broker: EmbeddedBroker, control: HttpPeer) -> None:
    sent = broker.send("T", b"x")
    control.post(f"/messages/{sent.msg_id}/redeliver")
    assert [one.msg_id for one in broker.messages.in_topic("T")] == [sent.msg_id] * 2


def test_what_is_not_possible_is_told_with_its_limit(control: HttpPeer) -> None:
    both = control.refused(400, "POST", "/messages", topic="T", body="x", body_base64="eA==")
    assert both["setting"] == "body"
    far = control.refused(422, "POST", "/messages", topic="T", body="x", delay=1e7)
    assert far["code"] == 13
    assert "timerMaxDelaySec" in far["detail"] or "delay" in far["remark"]
    assert control.refused(404, "GET", "/messages/0A0A")["title"] == "MessageNotFound"
    assert control.refused(404, "GET", "/messages?topic=t")["detail"] == "no topic 't'"
    bad = control.refused(400, "POST", "/messages", topic="T", body_base64="?")
    assert (bad["setting"], bad["limit"]) == ("body_base64", "bytes in base64")

"""Messages over HTTP: look, trace, send."""

from __future__ import annotations

import zlib

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.clocks.instants import EARLIEST_MS, instant
from embedded_broker.control import operation
from embedded_broker.control.answers import to_json
from rocketmq_py.clock import LATEST_MS
from rocketmq_py.protocol.codes import RequestCode
from tests.unit.embedded_broker.control.http_peer import HttpPeer
from tests.unit.embedded_broker.wire_peer import Connect, send_fields


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


@pytest.mark.parametrize("born_ms", [10**15, 2**63 - 1, -(10**15), -(2**63)])
def test_a_time_of_birth_that_no_calendar_has_is_shown_as_the_first_or_the_last_one(
    broker: EmbeddedBroker, control: HttpPeer, connect: Connect, born_ms: int
) -> None:
    peer = connect(broker.addr)
    shown = instant(LATEST_MS if born_ms > 0 else EARLIEST_MS)
    delayed = {"TIMER_DELIVER_MS": str(broker.clock.now_ms + 1000)}
    for properties in ({}, delayed, {"DELAY": "1"}):
        fields = send_fields("T", {"KEYS": "K", **properties}, g=str(born_ms))
        assert peer.ask(RequestCode.SEND_MESSAGE_V2, fields, b"x").code == 0
    assert broker.timers.count() == 2
    broker.clock.advance(5)
    messages = broker.messages.in_topic("T")
    assert [one.born_at for one in messages] == [shown] * 3
    for page in (control.get("/messages", topic="T"), control.get("/messages", topic="T", key="K")):
        assert [one["born_at"] for one in page["messages"]] == [to_json(shown)] * 3
    for one in messages:
        assert control.get(f"/messages/{one.msg_id}/trace")["state"] == "ready"


def test_an_answer_whose_compressed_bodies_become_too_much_is_refused_before_it_is_made(
    broker: EmbeddedBroker,
    control: HttpPeer,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operation, "BODIES_MAX", 1 << 20)
    peer, body = connect(broker.addr), zlib.compress(b"x" * 400_000)
    for _ in range(3):
        for properties in ({}, {"TIMER_DELIVER_MS": str(broker.clock.now_ms + 60_000)}):
            fields = send_fields("T", {"KEYS": "K", **properties}, f="1")
            assert peer.ask(RequestCode.SEND_MESSAGE_V2, fields, body).code == 0
    for path in ("/messages?topic=T", "/messages?topic=T&key=K", "/timers?topic=T"):
        problem = control.refused(422, "GET", path)
        assert problem["title"] == "BodyTooLargeError"
        assert (
            "1048576 bytes of one answer (ask for fewer, for example with limit)"
            in (problem["detail"])
        )
        page = control.ask("GET", f"{path}&limit=2").json
        assert page["count"] == 3
        (one, other) = page.get("messages") or page["timers"]
        assert one["body"] == other["body"] == "x" * 400_000
    monkeypatch.setattr(operation, "BODIES_MAX", 399_999)
    (one,) = broker.messages.page("T", limit=1).messages
    assert control.refused(422, "GET", f"/messages/{one.msg_id}")["title"] == "BodyTooLargeError"


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

"""What waits, over HTTP."""

from __future__ import annotations

from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker, TimerNotPending
from tests.unit.embedded_broker.control.http_peer import HttpPeer


def test_timers_are_listed_in_pages_by_due_time(broker: EmbeddedBroker, control: HttpPeer) -> None:
    for number in range(7, 0, -1):
        broker.send("T", b"%d" % number, delay=number, keys=f"K{number}")
    seen: list[str] = []
    after: dict[str, object] = {}
    while True:
        page = control.get("/timers", topic="T", limit=3, **after)
        assert page["count"] == 7
        seen += [one["body"] for one in page["timers"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert seen == ["1", "2", "3", "4", "5", "6", "7"]


def test_timers_are_chosen_by_time_and_kind(broker: EmbeddedBroker, control: HttpPeer) -> None:
    broker.send("T", b"level", delay_level=1)
    broker.send("T", b"soon", delay=5)
    broker.send("T", b"late", delay=50)
    border = broker.clock.now_ms + 10_000
    assert [one["body"] for one in control.get("/timers", before=border)["timers"]] == [
        "level",
        "soon",
    ]
    (level,) = control.get("/timers", kind="level")["timers"]
    assert (level["body"], level["kind"], level["topic"]) == ("level", "level", "T")
    told = control.refused(400, "GET", "/timers?kind=odd")
    assert (told["setting"], told["value"]) == ("kind", "odd")
    assert "milliseconds" in told["limit"]


def test_a_page_may_begin_at_a_time_and_leave_bodies_out(
    broker: EmbeddedBroker, control: HttpPeer
) -> None:
    start = broker.clock.now_ms
    sent = [broker.send("T", b"x", delay=number, tags="red") for number in (1, 2, 3)]
    page = control.get("/timers", since=start + 2_000, bodies="false", limit=1)
    (one,) = page["timers"]
    assert (one["msg_id"], one["tags"]) == (sent[1].msg_id, "red")
    assert one["recall_handle"] == sent[1].recall_handle is not None
    assert (one["body"], one["properties"]) == ("", {})
    (last,) = control.get("/timers", since=start, after=page["next"])["timers"]
    assert (last["msg_id"], last["body"]) == (sent[2].msg_id, "x")
    assert last["properties"]["TAGS"] == "red"


def test_a_timer_is_taken_back_once(broker: EmbeddedBroker, control: HttpPeer) -> None:
    sent = broker.send("T", b"x", delay=10)
    assert control.post(f"/timers/{sent.msg_id}/recall") == {"outcome": "recalled"}
    assert control.post(f"/timers/{sent.msg_id}/recall") == {"outcome": "unknown"}
    broker.clock.advance(20)
    assert broker.topics["T"].count() == 0


def test_a_timer_leaves_now_or_at_another_time(broker: EmbeddedBroker, control: HttpPeer) -> None:
    now, later = broker.send("T", b"now", delay=10), broker.send("T", b"later", delay=10)
    control.post(f"/timers/{now.msg_id}/fire")
    assert [one.body for one in broker.messages.in_topic("T")] == [b"now"]
    due = broker.clock.now() + timedelta(seconds=60)
    control.post(f"/timers/{later.msg_id}/reschedule", deliver_at=due.isoformat())
    assert broker.timers.next_due() == due
    assert control.refused(409, "POST", f"/timers/{now.msg_id}/fire")["title"] == "TimerNotPending"
    with pytest.raises(TimerNotPending):
        broker.timers.fire_now(now.msg_id)


def test_a_page_begins_only_where_one_ended(control: HttpPeer) -> None:
    told = control.refused(400, "GET", "/timers?after=somewhere")
    assert (told["setting"], told["value"]) == ("after", "somewhere")

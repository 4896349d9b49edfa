"""What is said about a waiting message."""

from __future__ import annotations

import pytest

from embedded_broker.timer.listing import TimerKind, Wanted, kind_of
from tests.unit.embedded_broker.timer.timer_rig import Rig


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({"DELAY": "3"}, TimerKind.LEVEL),
        ({"DELAY": "0", "TIMER_DELAY_SEC": "5"}, TimerKind.SEC),
        ({"TIMER_DELAY_SEC": "5", "TIMER_DELAY_MS": "1"}, TimerKind.SEC),
        ({"TIMER_DELAY_MS": "1", "TIMER_DELIVER_MS": "7"}, TimerKind.MS),
        ({"TIMER_DELIVER_MS": "7"}, TimerKind.DELIVER_AT),
        ({"__STARTDELIVERTIME": "7"}, TimerKind.START_DELIVER),
        ({"__STARTDELIVERTIME": "7", "TIMER_DELIVER_MS": "7"}, TimerKind.START_DELIVER),
        ({"__STARTDELIVERTIME": "7", "TIMER_DELIVER_MS": "8"}, TimerKind.DELIVER_AT),
        ({}, TimerKind.DELIVER_AT),
    ],
)
def test_the_kind_is_the_request_that_won(properties: dict[str, str], kind: TimerKind) -> None:
    assert kind_of(properties, "T") is kind


def test_whatever_goes_to_a_retry_topic_is_a_retry() -> None:
    assert kind_of({"DELAY": "3"}, "%RETRY%G") is TimerKind.RETRY
    assert kind_of({"TIMER_DELAY_MS": "3"}, "%RETRY%G") is TimerKind.RETRY


def test_a_pending_timer_tells_where_it_goes_and_how_it_was_sent() -> None:
    rig = Rig()
    rig.send({"TIMER_DELAY_SEC": "30", "KEYS": "a b"}, topic="Orders", queue_id=3)

    (one,) = rig.listed()

    assert (one.msg_id, one.topic, one.queue_id, one.keys) == ("K1", "Orders", 3, ("a", "b"))
    assert one.due_ms == rig.clock.now_ms + 30_000
    assert one.accepted_ms == rig.clock.now_ms
    assert (one.rolls, one.size, one.kind) == (0, 1, TimerKind.SEC)
    record = one.read()
    assert record is not None
    assert record.body == b"1"


def test_only_the_topics_and_kinds_that_are_asked_for_fit() -> None:
    rig = Rig()
    rig.timer(1000, topic="A")
    rig.send({"TIMER_DELAY_SEC": "2"}, topic="A")
    rig.timer(3000, topic="B")

    assert [one.msg_id for one in rig.listed(topic="A")] == ["K1", "K2"]
    assert [one.msg_id for one in rig.listed(kinds=frozenset({TimerKind.MS}))] == ["K1", "K3"]
    assert [one.msg_id for one in rig.listed(topic="B", kinds=frozenset({TimerKind.SEC}))] == []
    assert Wanted().limit == 100

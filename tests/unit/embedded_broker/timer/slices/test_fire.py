"""Out of memory into the real topics, and puts that fail."""

from __future__ import annotations

import pytest

from embedded_broker.store.put_values import PutStatus
from rocketmq_py.protocol.properties import Prop
from tests.unit.embedded_broker.timer.slices.slice_rig import START_MS, FailingPuts, SliceRig


def test_the_released_copy_says_where_it_came_from_and_keeps_the_rest() -> None:
    rig = SliceRig()
    sent = rig.send({"TIMER_DELAY_MS": "1500", "TAGS": "a", "own": "x"}, queue_id=3)
    rig.advance(2000)
    (copy,) = rig.messages()
    assert copy.queue_id == 3
    properties = copy.properties
    assert properties["TAGS"] == "a"
    assert properties["own"] == "x"
    assert properties[Prop.TIMER_SRC_OFFSET] == str(sent.commit_log_offset)
    assert properties[Prop.TIMER_OUT_MS] == str(START_MS + 1000)
    assert properties[Prop.TIMER_ENQUEUE_MS] == str(START_MS)
    assert properties[Prop.TIMER_DEQUEUE_MS] == str(START_MS + 2000)


def test_timers_of_one_second_leave_in_the_order_in_which_they_came() -> None:
    rig = SliceRig()
    for number in range(1000):
        rig.timer(5000 - number % 900)
    rig.advance(5000)
    assert rig.bodies() == [b"%d" % number for number in range(1, 1001)]


def test_a_put_that_fails_is_tried_again_and_the_order_stays() -> None:
    rig = SliceRig()
    hook = FailingPuts(PutStatus.SERVICE_NOT_AVAILABLE, 5)
    rig.timer(1000)
    rig.timer(1000)
    rig.store.hooks.listed.append(hook)
    rig.advance(10_000)
    assert hook.attempts == 7
    assert rig.bodies() == [b"1", b"2"]
    assert rig.timers.count() == 0


def test_without_retry_until_success_the_third_failure_drops_the_message() -> None:
    rig = SliceRig(config={"timerEnableRetryUntilSuccess": False})
    rig.timer(1000)
    rig.timer(1000)
    rig.store.hooks.listed.append(FailingPuts(PutStatus.SERVICE_NOT_AVAILABLE, 3))
    rig.advance(10_000)
    assert rig.bodies() == [b"2"]
    assert rig.timers.lost == {"gave up": 1}
    assert rig.timers.dropped == 1
    assert rig.timers.count() == 0


@pytest.mark.parametrize(
    ("status", "skip", "reason"),
    [
        (PutStatus.MESSAGE_ILLEGAL, False, "refused"),
        (PutStatus.UNKNOWN_ERROR, True, "unknown error"),
    ],
)
def test_what_will_never_be_stored_is_dropped_at_once(
    status: PutStatus, skip: bool, reason: str
) -> None:
    rig = SliceRig(config={"timerSkipUnknownError": skip})
    rig.timer(1000)
    hook = FailingPuts(status, 10)
    rig.store.hooks.listed.append(hook)
    rig.advance(5000)
    assert rig.timers.lost == {reason: 1}
    assert hook.attempts == 1


def test_a_wait_for_the_session_clock_holds_everything() -> None:
    rig = SliceRig()
    waits = []
    rig.timers.retry.session_timer = lambda delay_ms, call: waits.append((delay_ms, call))
    rig.timer(1000)
    rig.store.hooks.listed.append(FailingPuts(PutStatus.UNKNOWN_ERROR, 1))
    rig.advance(5000)
    assert rig.bodies() == []
    assert rig.timers.next_deadline() is None
    assert [delay for delay, _ in waits] == [50]
    waits[0][1]()
    rig.advance(1)
    assert rig.bodies() == [b"1"]

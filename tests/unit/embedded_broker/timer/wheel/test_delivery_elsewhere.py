"""Puts that another broker answers: at once, later, or never."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedded_broker.store.put_values import InnerMessage, PutResult, PutStatus
from embedded_broker.timer.delivery import LatePut
from tests.unit.embedded_broker.timer.timer_rig import Rig

OK = PutResult(PutStatus.PUT_OK)


class Elsewhere:
    """Another broker: answers when told to."""

    def __init__(self, rig: Rig, *, is_promised: bool = False) -> None:
        self.asked: list[tuple[str, LatePut]] = []
        self._is_promised = is_promised
        rig.timers.escape = self

    def __call__(self, message: InnerMessage) -> LatePut:
        put = LatePut(is_promised=self._is_promised)
        self.asked.append((message.properties["UNIQ_KEY"], put))
        return self.asked[-1][1]

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.asked]


def test_an_answer_is_given_once_and_told_to_the_one_who_waits() -> None:
    put, told = LatePut(), []
    put.when_done(lambda: told.append(put.result))
    put.finish(OK)
    put.finish(PutResult(PutStatus.UNKNOWN_ERROR))
    assert (put.result, told) == (OK, [OK])


def test_a_bridge_gets_what_would_have_been_put_here() -> None:
    rig = Rig()
    taken: list[InnerMessage] = []

    def bridge(message: InnerMessage) -> PutResult:
        taken.append(message)
        return OK

    rig.timers.escape = bridge
    assert rig.timers.escape is bridge
    rig.timer(1000, topic="Far", queue_id=2)
    rig.advance(1000)
    assert [(one.topic, one.queue_id, one.body) for one in taken] == [("Far", 2, b"1")]
    assert rig.messages("Far") == []
    assert rig.timers.count() == 0
    assert rig.timers.stages["TimerDequeuePutMessageService"].counters["released"] == 1


def test_a_late_answer_keeps_the_order_and_lets_the_next_one_go_at_once() -> None:
    rig = Rig()
    elsewhere = Elsewhere(rig)
    rig.timer(1000)
    rig.timer(1000)
    rig.advance(1500)
    assert elsewhere.keys == ["K1"]
    elsewhere.asked[0][1].finish(OK)
    rig.fire()
    assert elsewhere.keys == ["K1", "K2"]
    elsewhere.asked[1][1].finish(PutResult(PutStatus.SERVICE_NOT_AVAILABLE))
    rig.fire()
    rig.advance(500)
    assert elsewhere.keys == ["K1", "K2", "K2"]
    elsewhere.asked[2][1].finish(OK)
    rig.fire()
    assert rig.timers.count() == 0
    assert rig.timers.lost == {}


@pytest.mark.case("P34")
def test_the_fourth_deadline_ends_the_wait_for_a_lane_that_never_completes() -> None:
    rig = Rig()
    elsewhere = Elsewhere(rig)
    waits: list[tuple[int, Callable[[], None]]] = []
    rig.timers.retry.session_timer = lambda wait_ms, call: waits.append((wait_ms, call))
    rig.timer(1000)
    rig.timer(1000)
    rig.advance(60_000)
    for number in range(1, 5):
        assert elsewhere.keys == ["K1"]
        assert rig.timers.next_deadline() is None
        assert [wait_ms for wait_ms, _ in waits] == [1000] * number
        waits[-1][1]()
        rig.fire()
    assert elsewhere.keys == ["K1", "K2"]
    assert rig.timers.lost == {"never answered": 1}
    assert rig.timers.count() == 1
    elsewhere.asked[0][1].finish(OK)  # too late: nothing waits for it
    elsewhere.asked[1][1].finish(OK)
    rig.fire()
    assert rig.timers.count() == 0
    assert rig.timers.lost == {"never answered": 1}


def test_an_answer_that_is_promised_is_waited_for_however_long_it_takes() -> None:
    rig = Rig()
    elsewhere = Elsewhere(rig, is_promised=True)
    waits: list[Callable[[], None]] = []
    rig.timers.retry.session_timer = lambda _, call: waits.append(call)
    rig.timer(1000)
    rig.timer(1000)
    rig.advance(60_000)
    for _ in range(10):
        waits[-1]()
        rig.fire()
    assert elsewhere.keys == ["K1"]
    elsewhere.asked[0][1].finish(OK)
    rig.fire()
    assert elsewhere.keys == ["K1", "K2"]
    assert rig.timers.lost == {}


@pytest.mark.case("P34")
def test_without_a_session_timer_the_deadlines_are_seconds_of_message_time() -> None:
    rig = Rig()
    elsewhere = Elsewhere(rig)
    rig.timer(1000)
    rig.timer(1001)
    rig.advance(1000 + 3999)
    assert elsewhere.keys == ["K1"]
    rig.advance(1)
    assert elsewhere.keys == ["K1", "K2"]


def test_a_wait_that_an_answer_ended_does_not_shorten_the_next_one() -> None:
    rig = Rig()
    elsewhere = Elsewhere(rig)
    calls: list[Callable[[], None]] = []
    rig.timers.retry.session_timer = lambda _wait_ms, call: calls.append(call)
    rig.timer(1000)
    rig.timer(1000)
    rig.advance(1000)
    elsewhere.asked[0][1].finish(OK)
    rig.fire()
    calls[0]()
    assert rig.timers.next_deadline() is None
    calls[1]()
    assert rig.timers.next_deadline() is not None


def test_a_recall_during_the_flight_comes_too_late() -> None:
    rig = Rig()
    elsewhere = Elsewhere(rig)
    rig.timer(1000)
    rig.advance(1000)
    rig.timers.recall("K1")
    elsewhere.asked[0][1].finish(OK)
    rig.fire()
    assert rig.timers.stages["TimerDequeuePutMessageService"].counters["released"] == 1

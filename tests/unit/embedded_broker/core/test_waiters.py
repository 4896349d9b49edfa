"""The bookkeeping of waiting pulls, seen from inside."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.clocks.session import Session
from embedded_broker.core import waiters
from embedded_broker.core.waiters import WOKEN_AT_ONCE, Waiter, Waiters
from embedded_broker.tables.peer import Peer
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, bodies, pull_fields


@pytest.fixture
def broker(start_broker: StartBroker) -> EmbeddedBroker:
    return start_broker(topics=["T"])


def park(peer: WirePeer, **fields: str) -> int:
    opaque = peer.post(RequestCode.PULL_MESSAGE, pull_fields("T", 0, **({"sysFlag": "6"} | fields)))
    peer.barrier()
    return opaque


def test_every_pull_that_waits_for_a_queue_is_woken(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    peers = [connect(broker.addr) for _ in range(3)]
    opaques = [park(peer) for peer in peers]
    parts = broker._parts()
    assert len(parts.consume.waiters) == 3
    peers[0].send("T", b"new")
    answers = [peer.answer(opaque) for peer, opaque in zip(peers, opaques, strict=True)]
    assert [bodies(answer) for answer in answers] == [[b"new"]] * 3
    assert (len(parts.consume.waiters), parts.consume.waiters._waiting) == (0, {})


def test_an_answered_pull_leaves_no_timer_behind(broker: EmbeddedBroker, connect: Connect) -> None:
    peer = connect(broker.addr)
    parts = broker._parts()
    opaque = park(peer)
    peer.send("T")
    peer.answer(opaque)
    with parts.door:
        waiting = [entry[2] for entry in parts.session._heap if entry[2].call is not None]
    assert "long poll" not in {timer.what for timer in waiting}


def test_a_message_of_another_queue_wakes_nobody(broker: EmbeddedBroker, connect: Connect) -> None:
    peer = connect(broker.addr)
    opaque = park(peer)
    peer.send("T", e="1")
    assert not peer.has_answer(opaque)


def test_the_pulls_of_one_group_can_be_woken_without_a_message(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    mine, other = connect(broker.addr), connect(broker.addr)
    woken, waiting = park(mine), park(other, consumerGroup="others")
    parts = broker._parts()
    with parts.door:
        parts.consume.waiters.wake("consumers", "T", 1)
        parts.consume.waiters.wake("consumers", "T", 0)
    assert mine.answer(woken).code == ResponseCode.PULL_NOT_FOUND
    assert not other.has_answer(waiting)
    assert len(parts.consume.waiters) == 1


def test_a_pull_that_finds_no_room_to_wait_is_answered_at_once(
    broker: EmbeddedBroker, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiters, "PARKED_MAX", 1)
    peer = connect(broker.addr)
    waiting = park(peer)
    answer = peer.ask(RequestCode.PULL_MESSAGE, pull_fields("T", 0, sysFlag="6"))
    assert answer.code == ResponseCode.PULL_NOT_FOUND
    assert not peer.has_answer(waiting)


def test_a_pull_that_fails_when_it_runs_again_is_answered_1_and_hurts_nobody_else(
    broker: EmbeddedBroker,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer, other = connect(broker.addr), connect(broker.addr)
    opaque = park(peer)

    def broken(*_args: object, **_options: object) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(broker._parts().store, "get", broken)
    assert other.send("T").code == 0
    answer = peer.answer(opaque)
    assert (answer.code, answer.remark) == (1, "RuntimeError: out of luck")
    assert "a parked pull of T failed" in caplog.text


def test_a_topic_that_may_no_longer_be_read_ends_the_wait_with_16(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    peer, admin = connect(broker.addr), connect(broker.addr)
    opaque = park(peer)
    admin.create_topic("T", queues=4, perm=2)
    admin.send("T")
    assert peer.answer(opaque).code == ResponseCode.NO_PERMISSION


class Somebody(Peer):
    """A peer of no wire."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 1), ("127.0.0.1", 2))

    def close(self) -> None:
        self.closed = True


def waiter(answer: Callable[[bool], bool], *queues: int) -> Waiter:
    return Waiter(Somebody(), "G", {("T", number): 5 for number in queues}, None, answer)


def test_who_waits_for_several_queues_leaves_all_of_them_at_once() -> None:
    asked: list[bool] = []

    def answer(is_over: bool) -> bool:
        asked.append(is_over)
        return True

    own = Waiters(Session(VirtualClock()))
    assert own.add(waiter(answer, 0, 1), 1000)
    assert own.is_waiting("G", "T", 0)
    assert own.is_waiting("G", "T", 1)
    own.wake("G", "T", 1)
    assert (len(own), own.is_waiting("G", "T", 0)) == (0, False)
    own.run_woken()
    assert asked == [True]


def test_who_goes_on_waiting_keeps_its_queues_and_its_deadline() -> None:
    clock = VirtualClock()
    session = Session(clock)
    own = Waiters(session)
    with EmbeddedBroker(tcp=False, session_clock=clock, topics=["T"]) as broker:
        parts = broker._parts()
        parts.store.on_arrival.append(own.on_arrival)
        one = waiter(lambda is_over: is_over, 0)
        one.queues = {("T", 0): 0}
        own.add(one, 1000)
        due_ms = one.due_ms
        broker.send("T", b"x", queue=0)
        own.run_woken()
    assert (len(own), one.due_ms) == (1, due_ms)
    deadline = session.next_deadline()
    assert deadline is not None
    assert deadline.due_ms == due_ms


def test_who_comes_back_when_the_time_is_up_is_answered() -> None:
    clock, asked = VirtualClock(), list[bool]()

    def answer(is_over: bool) -> bool:
        asked.append(is_over)
        return True

    own, one = Waiters(Session(clock)), waiter(answer, 0)
    own.add(one, 1000)
    for after_s, heard in ((0.999, []), (0.001, [True])):
        own.drain()
        clock.advance(after_s)
        own.resume(one)
        assert asked == heard
    assert len(own) == 0


def test_only_who_waits_for_that_answer_is_taken_out() -> None:
    own, peer = Waiters(Session(VirtualClock())), waiter(lambda _: True, 0).peer
    for asked in ("first", "second"):
        one = waiter(lambda _: True, 0)
        one.peer, one.asked = peer, asked
        own.add(one, 1000)
    own.cancel(peer, "first")
    assert [one.asked for one in own.drain()] == ["second"]


def test_who_is_gone_is_neither_asked_nor_kept() -> None:
    own = Waiters(Session(VirtualClock()))
    asked: list[bool] = []

    def answer(is_over: bool) -> bool:
        asked.append(is_over)
        return True

    first, second = waiter(answer, 0), waiter(answer, 0)
    for one in (first, second):
        own.add(one, 1000)
    own.forget(first.peer)
    own.wake("G", "T", 0)
    second.peer.closed = True
    own.run_woken()
    assert (len(own), asked) == (0, [])


def test_many_are_asked_in_turns_and_in_their_order() -> None:
    own, asked = Waiters(Session(VirtualClock())), list[int]()

    def answer(number: int, _: bool) -> bool:
        asked.append(number)
        return True

    for number in range(2 * WOKEN_AT_ONCE + 1):
        own.add(waiter(partial(answer, number), 0), 1000)
    steps: list[Callable[[], bool]] = []
    own.in_turns = steps.append
    own.wake("G", "T", 0)

    own.run_woken()
    assert asked == list(range(WOKEN_AT_ONCE))
    own.run_woken()  # another entry meanwhile
    assert len(asked) == 2 * WOKEN_AT_ONCE
    assert own.is_waking
    assert len(steps) == 1
    assert not steps[0]()
    assert asked == list(range(2 * WOKEN_AT_ONCE + 1))

    own.add(waiter(partial(answer, 1000), 0), 1000)
    own.wake("G", "T", 0)
    own.run_woken()
    assert asked[-1] == 1000
    assert len(steps) == 1


def test_no_entry_of_the_door_wakes_all_of_many(
    broker: EmbeddedBroker, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiters, "WOKEN_AT_ONCE", 4)
    peers = [connect(broker.addr) for _ in range(40)]
    opaques = [park(peer) for peer in peers]
    door = broker._parts().door
    before = door.entries
    peers[0].send("T", b"new")
    answers = [peer.answer(opaque) for peer, opaque in zip(peers, opaques, strict=True)]
    assert [bodies(answer) for answer in answers] == [[b"new"]] * 40
    assert door.entries - before >= 5
    assert not door.delivering


def test_waiters_of_a_place_are_counted_and_may_be_asked_without_an_end() -> None:
    line = Waiters(Session(VirtualClock()))
    peer, asked = Somebody(), list[bool]()

    def answer(is_over: bool) -> bool:
        asked.append(is_over)
        return is_over

    for queue_id in (0, 1):
        waiter = Waiter(peer, "G", {("T", queue_id): 0}, None, answer)
        waiter.place = "here"
        assert line.add(waiter, 1000)
    assert (line.count_at("here"), line.count_at("there")) == (2, 0)
    line.wake("G", "T", 0, is_over=False)
    assert line.count_at("here") == 1
    line.run_woken()
    assert (asked, line.count_at("here")) == ([False], 2)
    line.wake("G", "T", 0)
    line.run_woken()
    assert (asked, line.count_at("here")) == ([False, True], 1)
    line.forget(peer)
    assert line.count_at("here") == 0

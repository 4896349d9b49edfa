"""Calls to clients and their ends: answered, timed out, gone, and answers that belong to none."""

from __future__ import annotations

import logging

import pytest
from attrs import define, field

from embedded_broker import VirtualClock
from embedded_broker.clocks.session import Session
from embedded_broker.clocks.timeline import Budget
from embedded_broker.core import client_calls as calls_module
from embedded_broker.core.client_calls import Answer, Call, ClientCalls, End, GroupChanged
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.tables.peer import Peer as AnyPeer
from tests.unit.embedded_broker.peers import Peer

CALL = GroupChanged("g")
YES = Answer(True, None, b"done")


@define
class OneWire:
    """Numbers what it sends, and reaches peers that it knows."""

    knows: list[AnyPeer]
    sent: list[tuple[AnyPeer, Call]] = field(factory=list)

    def call(self, peer: AnyPeer, call: Call) -> int | None:
        if peer not in self.knows:
            return None
        self.sent.append((peer, call))
        return len(self.sent)


@define
class Table:
    """Calls to two peers on one wire; `ends` is what the caller heard."""

    clock: VirtualClock = field(factory=VirtualClock)
    peer: Peer = field(factory=Peer)
    other: Peer = field(factory=Peer)
    ends: list[tuple[End, Answer | None]] = field(factory=list)
    session: Session = field(init=False)
    calls: ClientCalls = field(init=False)
    wire: OneWire = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.session = Session(self.clock)
        self.calls = ClientCalls(self.session)
        self.wire = OneWire([self.peer, self.other])
        self.calls.wires.append(self.wire)

    def heard(self, end: End, answer: Answer | None) -> None:
        self.ends.append((end, answer))

    def ask(self, wait_ms: int = 1000) -> None:
        self.calls.ask(self.peer, CALL, on_end=self.heard, wait_ms=wait_ms)

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms / 1000)
        now_ms = self.clock.now_ms
        self.session.fire(now_ms, horizon_ms=now_ms, budget=Budget())


@pytest.fixture
def table() -> Table:
    return Table()


def test_an_answer_ends_the_call_that_has_its_number(table: Table) -> None:
    table.ask()
    table.ask()
    table.calls.answered(table.peer, 2, YES)
    assert table.ends == [(End.ANSWERED, YES)]
    assert len(table.calls) == 1
    table.calls.answered(table.peer, 1, Answer(False, "no", b""))
    assert table.ends[1:] == [(End.ANSWERED, Answer(False, "no", b""))]
    assert len(table.calls) == table.calls.unmatched == 0
    assert table.session.next_deadline() is None


def test_a_call_without_an_answer_ends_at_its_deadline_on_the_session_clock(table: Table) -> None:
    table.ask(wait_ms=1000)
    table.pass_time(999)
    assert table.ends == []
    table.pass_time(1)
    assert table.ends == [(End.TIMED_OUT, None)]
    table.calls.answered(table.peer, 1, YES)
    assert (len(table.ends), table.calls.unmatched) == (1, 1)


def test_a_client_that_leaves_ends_its_calls_and_no_others(table: Table) -> None:
    table.ask()
    table.calls.ask(table.other, CALL)
    table.calls.forget(table.peer)
    table.calls.forget(table.peer)
    assert table.ends == [(End.GONE, None)]
    assert len(table.calls) == 1
    table.calls.forget_all()
    assert len(table.calls) == 0
    assert table.calls.counts == {End.GONE: 2}


def test_a_client_that_no_wire_reaches_is_gone_at_once(table: Table) -> None:
    table.wire.knows.remove(table.peer)
    table.ask()
    table.calls.tell(table.peer, CALL)
    assert table.ends == [(End.GONE, None)]
    assert table.wire.sent == []


def test_unknown_second_and_foreign_answers_are_counted_and_dropped(table: Table) -> None:
    table.ask()
    table.calls.answered(table.peer, 77, YES)
    table.calls.answered(table.other, 1, YES)
    assert (table.ends, len(table.calls)) == ([], 1)
    table.calls.answered(table.peer, 1, YES)
    table.calls.answered(table.peer, 1, YES)
    assert len(table.ends) == 1
    assert table.calls.unmatched == 3


def test_the_number_of_calls_that_wait_has_a_bound(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls_module, "PENDING_MAX", 4)
    for _ in range(5):
        table.calls.ask(table.peer, CALL)
    assert len(table.calls) == 2
    table.ask()
    table.ask()
    with pytest.raises(Refused) as refused:
        table.ask()
    assert refused.value.reason is Reason.BUSY
    assert len(table.wire.sent) == 7


def test_what_is_told_waits_for_nothing(table: Table) -> None:
    table.calls.tell(table.peer, CALL)
    assert table.wire.sent == [(table.peer, CALL)]
    assert len(table.calls) == 0


def test_a_caller_that_fails_on_the_answer_harms_nobody(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(end: End, answer: Answer | None) -> None:
        raise RuntimeError(str((end, answer)))

    table.calls.ask(table.peer, CALL, on_end=fail)
    with caplog.at_level(logging.ERROR):
        table.calls.answered(table.peer, 1, YES)
    assert "was not handled" in caplog.text

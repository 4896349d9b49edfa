"""Renewals without any wire: a consumer that holds a message, and one that leaves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.core.pop import renewals
from embedded_broker.core.pop.acks import Acks, Hidden
from embedded_broker.core.pop.pop_values import Pop, Popped
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.lifecycle.parts import BrokerParts
from rocketmq_py.protocol.pop_handles import PopHandle
from tests.unit.embedded_broker.peers import Peer

INVISIBLE_MS = 60_000


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), topics={"T": 1}, tcp=False) as one:
        one.send("T", b"x")
        yield one


def pop(parts: BrokerParts, peer: Peer) -> Hidden:
    """Pop the message, and hold it."""
    with parts.door:
        popped = parts.pop.service.pop(Pop(peer, "G", "T", -1, 1, INVISIBLE_MS), lambda _: None)
        assert isinstance(popped, Popped)
        (portion,) = popped.portions
        handle = PopHandle(
            portion.start_offset,
            popped.pop_time_ms,
            popped.invisible_ms,
            popped.revive_queue,
            "0",
            parts.broker_name,
            0,
            0,
        )
        hidden = Hidden(peer, "G", "T", 0, 0, handle)
        parts.pop.renewals.hold(hidden, 0)
        return hidden


def test_a_message_in_hand_is_hidden_for_longer_and_counts_as_in_hand(
    broker: EmbeddedBroker,
) -> None:
    parts = broker._parts()
    hidden = pop(parts, Peer())
    broker.clock.advance(49.999)
    assert parts.pop.renewals.current(hidden) == hidden
    broker.clock.advance(0.001)
    renewed = parts.pop.renewals.current(hidden)
    assert renewed.handle.pop_time_ms == hidden.handle.pop_time_ms + 50_000
    assert (renewed.handle.invisible_ms, renewed.handle.start_offset) == (60_000, 0)
    assert list(parts.pop.revive.in_hand("G")) == [("T", 0, 0)]
    assert (parts.pop.acks.is_open(hidden), parts.pop.acks.is_open(renewed)) == (False, True)
    with parts.door:
        parts.pop.acks.ack(renewed)
        parts.pop.renewals.end(hidden)
    broker.clock.advance(hours=4)
    assert broker.groups["G"].unread() == 0
    assert len(parts.pop.renewals) == 0


def test_a_message_comes_back_by_the_policy_of_its_group_after_three_hours(
    broker: EmbeddedBroker,
) -> None:
    parts = broker._parts()
    pop(parts, Peer())
    broker.clock.advance(hours=3, seconds=9.999)
    assert broker.groups["G"].unread() == 0
    broker.clock.advance(0.001)
    assert broker.groups["G"].unread() == 1
    assert len(parts.pop.renewals) == 0


def test_what_one_had_in_hand_whose_connection_ended_comes_back_instead_of_a_renewal(
    broker: EmbeddedBroker,
) -> None:
    peer = Peer()
    pop(broker._parts(), peer)
    peer.closed = True
    broker.clock.advance(50.999)
    assert broker.groups["G"].unread() == 0
    broker.clock.advance(0.001)
    assert broker.groups["G"].unread() == 1


def test_what_one_had_in_hand_who_left_comes_back_in_a_second(broker: EmbeddedBroker) -> None:
    parts = broker._parts()
    peer = Peer()
    pop(parts, peer)
    with parts.door:
        parts.pop.renewals.let_go(Peer())
        assert len(parts.pop.renewals) == 1
        parts.pop.renewals.let_go(peer)
    broker.clock.advance(0.999)
    assert broker.groups["G"].unread() == 0
    broker.clock.advance(0.001)
    assert broker.groups["G"].unread() == 1


def test_no_more_messages_are_renewed_than_there_is_room_for(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewals, "HELD_MAX", 1)
    parts = broker._parts()
    hidden = pop(parts, Peer())
    with parts.door:
        parts.pop.renewals.hold(hidden._replace(offset=1), 0)
    assert len(parts.pop.renewals) == 1
    broker.clock.advance(50)
    assert parts.pop.renewals.current(hidden) != hidden


def test_a_renewal_that_is_refused_is_tried_again_until_the_message_is_seen(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = broker._parts()
    asked_ms: list[int] = []
    hide_longer = Acks.hide_longer

    def refuse(*_: object, **__: object) -> None:
        asked_ms.append(broker.clock.now_ms)
        raise Refused(Reason.FAILED, "a test asked for this")

    hidden = pop(parts, Peer())
    popped_ms = hidden.handle.pop_time_ms
    with monkeypatch.context() as patch:
        patch.setattr(Acks, "hide_longer", refuse)
        broker.clock.advance(54.999)
        assert [one - popped_ms for one in asked_ms] == [50_000]
        patch.setattr(Acks, "hide_longer", hide_longer)
        broker.clock.advance(0.001)
    assert parts.pop.renewals.current(hidden).handle.pop_time_ms == popped_ms + 55_000

    monkeypatch.setattr(Acks, "hide_longer", refuse)
    broker.clock.advance(60)
    assert [one - popped_ms for one in asked_ms] == [50_000, 105_000, 110_000]
    assert (len(parts.pop.renewals), broker.groups["G"].unread()) == (0, 1)

"""Ordered pops: one block of a queue at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.core.refusals import Reason, Refused
from rocketmq_py.protocol.pop_handles import OrderCount, order_counts_text
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.core.pop.popper import Got, Popper, fill, save


@pytest.fixture
def broker(start_broker: StartBroker) -> EmbeddedBroker:
    broker = start_broker()
    broker.topics.create("T", queues=1)
    fill(broker, 5)
    return broker


@pytest.fixture
def popper(broker: EmbeddedBroker) -> Popper:
    return Popper(broker)


def pop(popper: Popper, attempt: str = "a", **changed: object) -> list[Got]:
    asked = {"is_ordered": True, "max_count": 2, "invisible_ms": 10_000, "attempt_id": attempt}
    return popper.pop(**asked | changed)


@pytest.mark.case("W102")
def test_the_next_block_comes_when_the_first_is_acked(popper: Popper) -> None:
    first = pop(popper, "a")
    assert [one.body for one in first] == [b"m0", b"m1"]
    assert pop(popper, "b") == []
    popper.ack(first[1])
    assert (pop(popper, "b"), popper.committed()) == ([], 0)
    popper.ack(first[0])
    assert popper.committed() == 2
    assert [one.body for one in pop(popper, "b")] == [b"m2", b"m3"]


def test_the_same_attempt_gets_the_same_block_and_counts_no_further(popper: Popper) -> None:
    assert [one.body for one in pop(popper, "a")] == [b"m0", b"m1"]
    popped = popper.ask(is_ordered=True, max_count=2, invisible_ms=10_000, attempt_id="a")
    assert popped is not None
    assert [one.body for one in popper.messages(popped)] == [b"m0", b"m1"]
    assert order_counts_text(popped.order_counts) == "0 0 0"


def test_a_block_that_is_not_acked_in_time_comes_again_from_its_own_queue(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    first = pop(popper, "a")
    broker.clock.advance(9.999)
    assert pop(popper, "b") == []
    broker.clock.advance(0.001)
    popped = popper.ask(is_ordered=True, max_count=3, invisible_ms=10_000, attempt_id="b")
    assert popped is not None
    assert [one.body for one in popper.messages(popped)] == [b"m0", b"m1", b"m2"]
    assert popped.order_counts == [
        OrderCount("T", 0, 0, 1),
        OrderCount("T", 0, 1, 1),
        OrderCount("T", 0, None, 0),
    ]
    popper.ack(*first)  # of a pop that is over
    assert popper.committed() == 0
    assert "%RETRY%G_T" not in broker.topics


def test_who_waits_gets_the_queue_when_its_time_or_its_acks_free_it(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    first = pop(popper, "a")
    other = Popper(broker)
    waiting = {"is_ordered": True, "max_count": 1, "invisible_ms": 5_000, "wait_ms": 60_000}
    assert other.ask(attempt_id="b", **waiting) is None
    popper.ack(*first)
    (message,) = other.messages(other.heard[0])
    assert message.body == b"m2"
    third = Popper(broker)
    assert third.ask(attempt_id="c", **waiting) is None
    broker.clock.advance(4.999)
    assert third.heard == []
    broker.clock.advance(0.001)
    assert [one.body for one in third.messages(third.heard[0])] == [b"m2"]


def test_a_single_message_can_be_hidden_longer(broker: EmbeddedBroker, popper: Popper) -> None:
    first = pop(popper, "a")
    until = popper.hide_longer(first[0], 30_000)
    assert until is not None
    assert until.pop_time_ms == first[0].hidden.handle.pop_time_ms
    assert (until.invisible_ms, until.revive_queue) == (30_000, 999)
    broker.clock.advance(29.999)
    assert pop(popper, "b") == []
    broker.clock.advance(0.001)
    assert len(pop(popper, "b")) == 2


def test_the_next_deadline_is_the_present_end_of_a_block(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    (first,) = pop(popper, "a", max_count=1)
    popper.hide_longer(first, 30_000)
    deadline = broker._parts().pop.acks._ordered.next_deadline()
    assert deadline is not None
    assert deadline.due_ms == broker.clock.now_ms + 30_000


def test_what_is_not_of_the_block_is_refused_and_what_is_passed_is_ignored(
    popper: Popper,
) -> None:
    first = pop(popper, "a")
    beyond = first[0]._replace(hidden=first[0].hidden._replace(offset=4))
    with pytest.raises(Refused, match="offset is illegal, key:T@G@0, old:0, commit:4") as refused:
        popper.ack(beyond)
    assert refused.value.reason is Reason.MESSAGE_ILLEGAL
    popper.ack(*first)
    popper.ack(first[0])
    assert (popper.committed(), popper.hide_longer(first[0], 1_000)) == (2, None)


@pytest.mark.parametrize("crash", [False, True])
def test_a_block_is_kept_over_a_restart(
    start_broker: StartBroker, tmp_path: Path, crash: bool
) -> None:
    broker = start_broker(store=tmp_path)
    broker.topics.create("T", queues=1)
    fill(broker, 3)
    popper = Popper(broker)
    first = pop(popper, "a")
    save(broker)
    broker.restart(crash=crash)
    assert pop(popper, "b") == []
    other = Popper(broker)
    assert other.ask(is_ordered=True, wait_ms=60_000, attempt_id="c", invisible_ms=1_000) is None
    broker.clock.advance(10)
    assert [one.body for one in other.messages(other.heard[0])] == [b"m0", b"m1", b"m2"]
    del first


def test_a_reset_frees_the_queue(broker: EmbeddedBroker, popper: Popper) -> None:
    pop(popper, "a")
    parts = broker._parts()
    with parts.door:
        parts.tables.offsets.reset("G", "T", 0, 3, tell=True)
    assert [one.body for one in pop(popper, "b")] == [b"m3", b"m4"]

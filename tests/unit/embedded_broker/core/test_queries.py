"""How ids and keys become stored records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedded_broker import EmbeddedBroker, MessageState, VirtualClock
from embedded_broker.core.queries import in_turns
from rocketmq_py.protocol.message_codec import decode_record


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def broker(clock: VirtualClock, request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    config = {"messageIndexEnable": getattr(request, "param", True)}
    with EmbeddedBroker(clock=clock, tcp=False, topics=["T"], seed=1, config=config) as broker:
        yield broker


BOTH = pytest.mark.parametrize("broker", [True, False], ids=["index", "no index"], indirect=True)


@BOTH
def test_every_record_of_an_id_is_found_in_every_topic(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    parts = broker._parts()
    sent = broker.send("T", b"x", delay=5)
    broker.send("T", b"y")
    clock.advance(5)

    found = parts.queries.with_id(sent.msg_id)

    assert [record.topic for record in found.records] == ["rmq_sys_wheel_timer", "T"]
    assert found.gone_from == []
    assert parts.queries.with_id("nobody").records == []


@BOTH
def test_records_with_a_key_are_those_that_have_it_as_a_whole_word(
    broker: EmbeddedBroker,
) -> None:
    parts = broker._parts()
    for keys in ("a", "b a", "ab", None):
        broker.send("T", b"x", keys=keys)

    found = parts.queries.with_key("T", "a")

    assert [record.properties["KEYS"] for record in found] == ["a", "b a"]
    assert parts.queries.with_key("rmq_sys_wheel_timer", "a") == []


@BOTH
def test_many_messages_are_read_in_turns_and_none_is_left_out(broker: EmbeddedBroker) -> None:
    for _ in range(1500):
        broker.send("T", bytes(100), keys="same")

    assert len(broker._parts().queries.with_key("T", "same")) == 1500


@pytest.mark.parametrize("broker", [False], indirect=True)
def test_a_trace_works_without_an_index(broker: EmbeddedBroker, clock: VirtualClock) -> None:
    sent = broker.send("T", b"x", delay=5)
    assert broker.messages.trace(sent).state is MessageState.SCHEDULED
    clock.advance(5)
    assert broker.messages.trace(sent).state is MessageState.READY


def test_an_offset_id_names_the_record_that_has_it(broker: EmbeddedBroker) -> None:
    parts = broker._parts()
    sent = broker.send("T", b"x")
    record = parts.queries.named(sent.offset_msg_id)
    assert record is not None
    assert record.msg_id == sent.msg_id
    assert parts.queries.named(sent.msg_id) is None
    elsewhere = "0A000001" + sent.offset_msg_id[8:]  # the same place in another broker's log
    assert parts.queries.named(elsewhere) is None
    assert parts.queries.named("no id at all") is None


def test_a_record_that_only_shares_the_hash_of_a_key_is_no_hit(broker: EmbeddedBroker) -> None:
    parts = broker._parts()
    for key in ("Aa", "BB"):
        broker.send("T", key.encode(), keys=key)
    with parts.door:
        places = parts.queries.places("T", "Aa", 32, 0, 1 << 62, unique=False)
        hits = parts.queries.hits("T", "Aa", places)
    assert len(places) == 2
    assert [decode_record(one).body for one in hits.records] == [b"Aa"]


def test_the_door_is_given_back_between_turns(broker: EmbeddedBroker) -> None:
    parts = broker._parts()
    inside: list[bool] = []

    def items() -> Iterator[int]:
        yield from range(3)

    def look(item: int) -> int | None:
        inside.append(parts.door.held)
        return item if item != 1 else None

    assert in_turns(parts.door, items(), look) == [0, 2]
    assert inside == [True] * 3
    assert not parts.door.held

"""Filters that read much: how many bytes in one hold of the door, and who is served in between."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from threading import Event
from typing import ClassVar

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.core.consume import Consume, Pull, Pulled
from embedded_broker.core.filters import LONG, Filter
from embedded_broker.core.filters.sql import sql_filter
from embedded_broker.core.pop.pop_values import Pop, Popped
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.store.consume_queue import Entry
from embedded_broker.store.filter_budget import JUDGED_MAX, PROPERTY_COST, STEP_COST
from embedded_broker.store.pull import GetStatus
from embedded_broker.store.put_values import InnerMessage
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.hostile.extreme_requests import FORMS
from tests.unit.embedded_broker.core.test_consume import Someone
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, consumer, pull_fields

KIND = "COSTLY"
GUARD_S = 20.0
BIG = "x" * 10_000
"""One look at it costs a fiftieth of the room of one hold."""
LIGHT, HEAVY = 10, 60
"""Looks at it: some fit in one hold, the others do not fit at all."""


class Costly:
    """A filter with many conditions. Counts what is read, by hold of the door; 0 is outside."""

    codes: ClassVar[None] = None
    reads_properties: ClassVar[bool] = True
    steps: ClassVar[int] = 0

    def __init__(self, broker: EmbeddedBroker, looks: int, accepted: str) -> None:
        self.door = broker._parts().door
        self.looks = looks
        self.accepted = accepted
        self.read: Counter[int] = Counter()
        self.while_outside: Callable[[], object] = lambda: None

    def accepts(self, _entry: Entry, properties: Mapping[str, str] | None) -> bool:
        assert properties is not None
        if not self.door.held:
            self.while_outside()
        for _ in range(self.looks):
            value = properties.get("a") or ""
            self.read[self.door.entries + 1 if self.door.held else 0] += len(value)
        return properties.get("is") == self.accepted

    def most_in_one_hold(self) -> int:
        return max(size for number, size in self.read.items() if number)


@pytest.fixture
def session() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def broker(session: VirtualClock) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(session_clock=session, topics=["T", "Other"]) as broker:
        yield broker


def use(broker: EmbeddedBroker, looks: int, accepted: str = "yes") -> Costly:
    """Let subscriptions of the test's own kind be this filter."""
    costly = Costly(broker, looks, accepted)
    broker._parts().consume.filters.makers[KIND] = lambda _expression, _codes: costly
    return costly


def store(broker: EmbeddedBroker, *what: str) -> None:
    """Store messages in one hold of the door."""
    parts = broker._parts()
    with parts.door:
        for one in what:
            parts.store.put(InnerMessage("T", 0, one.encode(), {"is": one, "a": BIG}))


def until(broker: EmbeddedBroker, holds: Callable[[], bool]) -> None:
    """Look again each time that somebody has left the door."""
    door, left = broker._parts().door, Event()
    door.watch(left)
    try:
        while not holds():
            assert left.wait(GUARD_S)
            left.clear()
    finally:
        door.unwatch(left)


class Asker:
    """Asks by values, and waits for what is said later."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.broker = broker
        self.heard: list[Pulled | Popped | Refused] = []

    @property
    def consume(self) -> Consume:
        return self.broker._parts().consume

    def later(self) -> Pulled | Popped | Refused:
        until(self.broker, lambda: bool(self.heard))
        return self.heard.pop()

    def pull(self, offset: int, wait_ms: int | None = None) -> Pulled:
        pull = Pull(Someone(), "G", "T", 0, offset, 32, "?", KIND, wait_ms=wait_ms)
        with self.broker._parts().door:
            pulled = self.consume.pull(pull, self.heard.append)
        found = self.later() if pulled is None else pulled
        assert isinstance(found, Pulled), found
        return found

    def pull_all(self, end: int) -> int:
        """Pull to the end of the queue; gives how many messages came."""
        offset = count = 0
        while offset < end:
            found = self.pull(offset).found
            assert found.next_begin_offset > offset
            offset, count = found.next_begin_offset, count + found.count
        return count

    def park(self, offset: int) -> None:
        pull = Pull(Someone(), "G", "T", 0, offset, 32, "?", KIND, wait_ms=15_000)
        with self.broker._parts().door:
            assert self.consume.pull(pull, self.heard.append) is None

    def pop(self, wait_ms: int = 0) -> Popped:
        pop = Pop(Someone(), "G", "T", 0, 32, 60_000, wait_ms, expression="?", expression_type=KIND)
        with self.broker._parts().door:
            popped = self.broker._parts().pop.service.pop(pop, self.heard.append)
        found = self.later() if popped is None else popped
        assert isinstance(found, Popped), found
        return found


def test_a_pull_ends_where_a_filter_has_read_enough_and_the_next_one_goes_on_there(
    broker: EmbeddedBroker,
) -> None:
    store(broker, *["no"] * 30, "yes", *["no"] * 29)
    costly = use(broker, LIGHT)
    first = Asker(broker).pull(0).found
    assert first.status is GetStatus.NO_MATCHED_MESSAGE
    assert 1 <= first.next_begin_offset < 30
    assert Asker(broker).pull_all(60) == 1
    assert costly.most_in_one_hold() <= JUDGED_MAX


def test_a_message_that_no_hold_has_room_for_is_judged_while_others_are_served(
    broker: EmbeddedBroker,
) -> None:
    store(broker, "no", "yes", "no")
    costly, served = use(broker, HEAVY), []
    costly.while_outside = lambda: served.append(broker.send("Other", b"served").queue_offset)
    assert Asker(broker).pull_all(3) == 1
    assert len(served) == 3
    assert costly.read[0] == 3 * HEAVY * len(BIG)
    assert costly.most_in_one_hold() <= JUDGED_MAX + len(BIG)


@pytest.mark.parametrize("looks", [LIGHT, HEAVY])
def test_many_who_wait_are_asked_in_many_holds(broker: EmbeddedBroker, looks: int) -> None:
    costly, asker = use(broker, looks), Asker(broker)
    for _ in range(20):
        asker.park(0)
    store(broker, "yes", "no")
    until(broker, lambda: len(asker.heard) == 20)
    assert {one.found.count for one in asker.heard if isinstance(one, Pulled)} == {1}
    assert bool(costly.read[0]) is (looks == HEAVY)
    assert costly.most_in_one_hold() <= JUDGED_MAX + len(BIG)


def test_who_waited_waits_on_when_a_message_that_was_judged_outside_is_not_wanted(
    broker: EmbeddedBroker, session: VirtualClock
) -> None:
    use(broker, HEAVY)
    asker = Asker(broker)
    asker.park(0)
    store(broker, "no")
    until(broker, lambda: len(asker.consume.waiters) == 1)
    assert asker.heard == []
    session.advance(15)
    (over,) = asker.heard
    assert isinstance(over, Pulled)
    assert over.found.next_begin_offset == 1


def test_a_wait_that_ends_while_a_message_is_judged_outside_is_answered(
    broker: EmbeddedBroker, session: VirtualClock
) -> None:
    costly, asker = use(broker, HEAVY), Asker(broker)
    costly.while_outside = lambda: session.advance(15)
    asker.park(0)
    store(broker, "no")
    found = asker.later()
    assert isinstance(found, Pulled)
    assert found.found.next_begin_offset == 1
    assert len(asker.consume.waiters) == 0


@pytest.mark.parametrize("looks", [LIGHT, HEAVY])
@pytest.mark.parametrize("wait_ms", [0, 15_000])
def test_a_pop_passes_over_what_is_not_wanted_in_many_holds(
    broker: EmbeddedBroker, looks: int, wait_ms: int
) -> None:
    store(broker, *["no"] * 20, "yes")
    costly, asker, count = use(broker, looks), Asker(broker), 0
    with broker._parts().door:
        broker._parts().tables.offsets.commit("G", "T", 0, 0)
    for _ in range(21):
        count += asker.pop(wait_ms).count
        if count:
            break
    assert count == 1
    assert costly.most_in_one_hold() <= JUDGED_MAX + len(BIG)


@pytest.mark.parametrize("resets", [0, 1, 2])
def test_pulls_that_come_together_are_not_all_judged_in_one_hold(
    broker: EmbeddedBroker, connect: Connect, resets: int
) -> None:
    for _ in range(resets):
        broker.reset()
    store(broker, *["no"] * 40)
    costly = use(broker, LIGHT)
    peer: WirePeer = connect(broker.addr)
    fields = pull_fields("T", 0, subscription="?", expressionType=KIND)
    answers = [peer.post(RequestCode.PULL_MESSAGE, fields) for _ in range(20)]
    assert [int(peer.answer(one).ext_fields["nextBeginOffset"]) > 0 for one in answers] == [
        True
    ] * 20
    assert costly.most_in_one_hold() <= JUDGED_MAX
    assert not costly.read[0]


def test_a_pull_hears_that_too_many_messages_are_judged_already(broker: EmbeddedBroker) -> None:
    def refuse(_work: Callable[[], None]) -> None:
        raise Refused(Reason.BUSY, "too many")

    store(broker, "yes")
    use(broker, HEAVY)
    asker = Asker(broker)
    asker.consume._background_filters._do = refuse
    with pytest.raises(Refused, match="too many"):
        asker.pull(0)
    asker.park(1)
    store(broker, "yes")
    (told,) = asker.heard
    assert isinstance(told, Refused)
    assert told.reason is Reason.BUSY


def test_a_filter_that_fails_outside_passes_the_message_over(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RuntimeError("out of luck")

    store(broker, "yes")
    use(broker, HEAVY).while_outside = fail
    assert Asker(broker).pull(0).found.status is GetStatus.NO_MATCHED_MESSAGE
    assert "out of luck" in caplog.text


LONG_SQL = " OR ".join(["a IS NULL"] * 200)


def watch_making(broker: EmbeddedBroker) -> list[bool]:
    """Note of each long SQL92 expression that is read whether somebody is inside the door."""
    filters, door = broker._parts().consume.filters, broker._parts().door
    make, inside = filters.makers["SQL92"], list[bool]()

    def note(expression: str, codes: frozenset[int]) -> Filter | None:
        if len(expression) > LONG:
            inside.append(door.held)
        return make(expression, codes)

    filters.makers["SQL92"] = note
    return inside


@pytest.mark.parametrize("expression", [LONG_SQL, LONG_SQL + " OR )"])
def test_a_long_expression_is_read_outside_the_door_and_once(
    broker: EmbeddedBroker, connect: Connect, expression: str
) -> None:
    store(broker, "yes")
    inside, peer = watch_making(broker), connect(broker.addr)
    is_right = expression == LONG_SQL
    fields = pull_fields("T", 0, subscription=expression, expressionType="SQL92")
    for _ in range(2):
        answer = peer.ask(RequestCode.PULL_MESSAGE, fields)
        wanted = ResponseCode.PULL_RETRY_IMMEDIATELY if is_right else 23
        assert answer.code == wanted, answer.remark
    popping = {**FORMS[RequestCode.POP_MESSAGE].fields, "topic": "T", "pollTime": "0"}
    popping |= {"exp": expression, "expType": "SQL92"}
    answer = peer.ask(RequestCode.POP_MESSAGE, popping)
    assert answer.code == (ResponseCode.POLLING_TIMEOUT if is_right else 23), answer.remark
    assert inside == [False]


def test_a_long_expression_of_a_heartbeat_is_read_outside_the_door(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    inside, peer = watch_making(broker), connect(broker.addr)
    peer.heartbeat("c", consumer("G", {"T": LONG_SQL}, expression_type="SQL92"))
    assert inside == [False]
    check = {
        "subscriptionData": {"topic": "T", "subString": LONG_SQL + " ", "expressionType": "SQL92"}
    }
    answer = peer.ask(
        RequestCode.CHECK_CLIENT_CONFIG, {}, json.dumps(check | {"group": "G"}).encode()
    )
    assert answer.code == ResponseCode.SUCCESS
    assert inside == [False, False]


def test_a_pull_by_a_heartbeats_long_expression_that_is_no_longer_kept_reads_it_outside(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    inside, peer = watch_making(broker), connect(broker.addr)
    peer.heartbeat("c", consumer("G", {"T": LONG_SQL}, expression_type="SQL92"))
    store(broker, "yes")
    parts = broker._parts()
    with parts.door:
        parts.consume.filters._made.clear()
    assert broker.groups["G"].unread() == 0
    with parts.door:
        parts.consume.filters._made.clear()
    fields = pull_fields("T", 0, sysFlag="0", consumerGroup="G")
    del fields["subscription"]
    answer = peer.ask(RequestCode.PULL_MESSAGE, fields)
    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY, answer.remark
    assert inside == [False, True, False]  # a view of the test itself reads it where it is


def test_conditions_of_sql_count_by_the_bytes_that_they_look_at(broker: EmbeddedBroker) -> None:
    store(broker, *["no"] * 20)
    many = " OR ".join(["a CONTAINS 'needle'"] * LIGHT)
    for expression, is_all in (("a CONTAINS 'needle'", True), (many, False)):
        pull = Pull(Someone(), "G", "T", 0, 0, 32, expression, "SQL92")
        with broker._parts().door:
            consume = broker._parts().consume
            pulled = consume.pull(pull, lambda _: None)
        assert pulled is not None
        assert (pulled.found.next_begin_offset == 20) is is_all


def ends_read(broker: EmbeddedBroker, expression: str) -> list[int]:
    """Where one pull and one pop for SQL92 have come to in one hold; 0: not even one message."""
    parts = broker._parts()
    parts.consume.filters.made("SQL92", expression)
    pull = Pull(Someone(), "G", "T", 0, 0, 32, expression, "SQL92")
    pop = Pop(Someone(), "G", "T", 0, 32, 60_000, expression=expression, expression_type="SQL92")
    with parts.door:
        pulled = parts.consume.pull(pull, lambda _: None)
    with parts.door:
        parts.tables.offsets.commit("G", "T", 0, 0)
        assert parts.pop.service.pop(pop, lambda _: None) is not None
        popped = parts.tables.offsets.query("G", "T", 0)
    return [0 if pulled is None else pulled.found.next_begin_offset, popped]


@pytest.mark.parametrize(
    "condition", ["1 < 2", "TRUE", "NOT FALSE", "(z CONTAINS '') IS NOT NULL", "'a' = 'a'"]
)
def test_conditions_of_sql_that_look_at_no_property_count_by_their_steps(
    broker: EmbeddedBroker, condition: str
) -> None:
    parts = broker._parts()
    with parts.door:
        for _ in range(30):
            parts.store.put(InnerMessage("T", 0, b"", {"a": "y"}))
    assert ends_read(broker, f"{condition} AND a = 'x'") == [30, 30]
    many = " AND ".join([condition] * 2000) + " AND a = 'x'"
    steps = sql_filter(many, frozenset()).steps
    most = JUDGED_MAX // (steps * STEP_COST)
    assert most < 15
    assert all(1 <= end <= most for end in ends_read(broker, many))


def test_a_message_with_many_small_properties_counts_by_their_number(
    broker: EmbeddedBroker,
) -> None:
    names = ["".join(three) for three in product("abcdefghijklmnopqr", repeat=3)][:5000]
    many = dict.fromkeys(names, "1")
    parts = broker._parts()
    with parts.door:
        for _ in range(30):
            parts.store.put(InnerMessage("T", 0, b"", many))
    most = JUDGED_MAX // (5000 * PROPERTY_COST)
    assert most < 15
    assert all(1 <= end <= most for end in ends_read(broker, "zz = 'x'"))

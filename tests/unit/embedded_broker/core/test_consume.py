"""Pulls as values, with a filter that looks at records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import pytest
from attrs import evolve, frozen

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.core.consume import Consume, Forbidden, Pull, Pulled, Who
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.store.consume_queue import Entry
from embedded_broker.store.pull import GetStatus
from embedded_broker.store.put_values import InnerMessage
from embedded_broker.tables.peer import Peer
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.message_codec import decode_records
from tests.unit.embedded_broker.wire_peer import Connect, bodies, consumer, pull_fields

KIND = "COLOUR"


@frozen
class ColourFilter:
    """Messages whose property `colour` has one value: a test's own type of filter."""

    colour: str
    codes: ClassVar[None] = None
    reads_properties: ClassVar[bool] = True
    steps: ClassVar[int] = 0

    def accepts(self, _entry: Entry, properties: Mapping[str, str] | None) -> bool:
        return properties is not None and properties.get("colour") == self.colour


def colour_filter(expression: str, _codes: frozenset[int]) -> ColourFilter:
    return ColourFilter(expression)


class Someone(Peer):
    """A peer of no wire at all."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 1), ("127.0.0.1", 2))

    def close(self) -> None:
        self.closed = True


RED = "red"
ALL = "*"


@pytest.fixture
def session() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def broker(session: VirtualClock) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(session_clock=session, topics=["T"]) as broker:
        broker._parts().consume.filters.makers[KIND] = colour_filter
        yield broker


def pull(
    offset: int = 0,
    expression: str | None = RED,
    *,
    wait_ms: int | None = None,
    commit: int | None = None,
) -> Pull:
    kind = KIND if expression == RED else None
    who = Someone()
    return Pull(
        who, "G", "T", 0, offset, 32, expression, kind, wait_ms=wait_ms, commit_offset=commit
    )


def send(broker: EmbeddedBroker, *colours: str) -> None:
    for colour in colours:
        broker.send("T", colour.encode(), properties={"colour": colour}, queue=0)


class Caller:
    """Asks a broker by values and keeps what it hears later."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._broker = broker
        self.heard: list[Pulled | Refused] = []

    @property
    def consume(self) -> Consume:
        return self._broker._parts().consume

    def ask(self, pull: Pull) -> Pulled | None:
        with self._broker._parts().door:
            return self.consume.pull(pull, self.heard.append)


def told(pulled: Pulled | Refused | None) -> tuple[str, list[bytes], int]:
    """Status, bodies and where to go on."""
    assert isinstance(pulled, Pulled)
    found = pulled.found
    records = decode_records(b"".join(found.buffers))
    return found.status.value, [record.body for record in records], found.next_begin_offset


def test_a_filter_that_looks_at_a_property_chooses_what_a_pull_gets(
    broker: EmbeddedBroker,
) -> None:
    send(broker, "red", "blue", "blue", "red")
    caller = Caller(broker)
    assert told(caller.ask(pull())) == ("FOUND", [b"red", b"red"], 4)
    assert told(caller.ask(pull(offset=1))) == ("FOUND", [b"red"], 4)
    send(broker, "blue")
    assert told(caller.ask(pull(offset=4))) == ("NO_MATCHED_MESSAGE", [], 5)
    assert caller.heard == []


def test_who_waits_hears_of_nothing_but_a_message_that_the_filter_accepts(
    broker: EmbeddedBroker,
) -> None:
    caller = Caller(broker)
    assert caller.ask(pull(wait_ms=15_000)) is None
    send(broker, "blue", "blue")
    assert caller.heard == []
    assert len(caller.consume.waiters) == 1
    send(broker, "red")
    assert [told(one) for one in caller.heard] == [("FOUND", [b"red"], 3)]
    assert len(caller.consume.waiters) == 0


def test_a_wait_ends_at_its_time_though_messages_were_passed_over(
    broker: EmbeddedBroker, session: VirtualClock
) -> None:
    caller = Caller(broker)
    caller.ask(pull(wait_ms=1000))
    session.advance(0.5)
    send(broker, "blue")
    session.advance(0.499)
    assert caller.heard == []
    session.advance(0.001)
    assert [told(one) for one in caller.heard] == [("OFFSET_OVERFLOW_ONE", [], 1)]


def test_more_messages_than_one_look_sees_send_a_waiter_on(broker: EmbeddedBroker) -> None:
    caller = Caller(broker)
    caller.ask(pull(wait_ms=15_000))
    parts = broker._parts()
    with parts.door:
        for _ in range(900):
            parts.store.put(InnerMessage("T", 0, b"blue", {"colour": "blue"}))
    assert [told(one) for one in caller.heard] == [("NO_MATCHED_MESSAGE", [], 800)]


def test_a_group_waits_with_the_filter_that_its_heartbeat_named(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    peer = connect(broker.addr)
    peer.heartbeat("c", consumer("G", {"T": "red"}, expression_type=KIND))
    send(broker, "blue")
    caller = Caller(broker)
    caller.ask(pull(1, None, wait_ms=15_000))
    send(broker, "blue", "red")
    assert [told(one) for one in caller.heard] == [("FOUND", [b"red"], 3)]
    send(broker, "blue", "red", "blue")
    assert broker.groups["G"].unread() == 1


def test_the_wire_pulls_and_waits_with_a_filter_of_a_property(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    peer = connect(broker.addr)
    send(broker, "blue", "red")
    wanted = {"subscription": "red", "expressionType": KIND}
    assert bodies(peer.pull("T", 0, **wanted)) == [b"red"]
    waiting = peer.post(RequestCode.PULL_MESSAGE, pull_fields("T", 2, sysFlag="6", **wanted))
    peer.barrier()
    send(broker, "blue")
    assert not peer.has_answer(waiting)
    send(broker, "red")
    answer = peer.answer(waiting)
    assert bodies(answer) == [b"red"]
    assert answer.ext_fields["nextBeginOffset"] == "4"


def test_who_waits_over_a_reset_is_asked_of_the_new_state_and_commits_nothing(
    broker: EmbeddedBroker,
) -> None:
    send(broker, "red", "red")
    caller = Caller(broker)
    assert caller.ask(pull(2, ALL, wait_ms=15_000, commit=2)) is None
    assert caller.ask(pull(0, RED, wait_ms=15_000)) is not None
    broker.reset()
    assert [told(one) for one in caller.heard] == [("NO_MESSAGE_IN_QUEUE", [], 0)]
    assert broker._parts().tables.offsets.query("G", "T", 0) == -1


@pytest.mark.parametrize(
    ("settings", "lite", "who"),
    [
        ({"brokerPermission": 2}, False, Who.BROKER),
        ({"litePullMessageEnable": False}, True, Who.BROKER),
    ],
)
def test_settings_of_the_broker_forbid_pulls(
    settings: dict[str, int], lite: bool, who: Who
) -> None:
    with EmbeddedBroker(tcp=False, topics=["T"], config=settings) as broker:
        wanted = pull(0, ALL)
        wanted.is_lite = lite
        with pytest.raises(Forbidden) as caught:
            Caller(broker).ask(wanted)
        assert caught.value.who is who
        assert caught.value.reason is Reason.NO_PERMISSION


def test_an_empty_queue_has_its_end_at_its_beginning(broker: EmbeddedBroker) -> None:
    caller = Caller(broker)
    found = [caller.ask(pull(offset, ALL)) for offset in (0, 7)]
    assert [one.is_at_end for one in found if one is not None] == [True, False]
    assert {one.found.status for one in found if one is not None} == {GetStatus.NO_MESSAGE_IN_QUEUE}


def test_the_answer_of_a_wait_can_go_wrong_after_a_reset_too(
    broker: EmbeddedBroker, connect: Connect, session: VirtualClock
) -> None:
    peer = connect(broker.addr)
    broker.reset()
    broker.faults.on(RequestCode.PULL_MESSAGE).drop_response()
    waiting = peer.post(RequestCode.PULL_MESSAGE, pull_fields("T", 0, sysFlag="6"))
    peer.barrier()
    session.advance(15)
    assert not peer.has_answer(waiting)
    broker.faults.assert_all_used()


@pytest.mark.parametrize("queue_id", [-1, 2])
def test_a_queue_that_the_topic_has_not_is_refused(broker: EmbeddedBroker, queue_id: int) -> None:
    broker.topics.create("Two", queues=2)
    asked = evolve(pull(expression=ALL), topic="Two")
    assert told(Caller(broker).ask(evolve(asked, queue_id=1))) == ("NO_MESSAGE_IN_QUEUE", [], 0)
    with pytest.raises(Refused, match=rf"queueId\[{queue_id}\] is illegal") as refused:
        Caller(broker).ask(evolve(asked, queue_id=queue_id))
    assert refused.value.reason is Reason.INVALID_PARAMETER


def test_a_group_that_may_not_broadcast_gets_nothing_while_it_does(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    peer = connect(broker.addr)
    settings = b'{"groupName":"G","consumeBroadcastEnable":false}'
    assert peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=settings).code == 0
    peer.heartbeat("c", consumer("G", {"T": ALL}, message_model="BROADCASTING"))
    with pytest.raises(Forbidden, match="can not consume by broadcast way") as refused:
        Caller(broker).ask(pull(expression=None))
    assert refused.value.who is Who.BROADCASTING
    peer.heartbeat("c", consumer("G", {"T": ALL}, sub_version=2))
    assert told(Caller(broker).ask(pull(expression=None))) == ("NO_MESSAGE_IN_QUEUE", [], 0)

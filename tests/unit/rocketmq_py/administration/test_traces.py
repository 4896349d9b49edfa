"""The way of a message is put in order, whichever clients have noted it, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    DefaultMQProducer,
    Message,
    MQClientException,
    NoRouteError,
    RemotingCommandException,
)
from rocketmq_py.admin import AdminClient
from rocketmq_py.trace import Pub, SubAfter, SubBefore, TraceRecord

TRACES = "RMQ_SYS_TRACE_TOPIC"
ID = "7F0000010A2B18B4AAC2345678900000"
OTHER = "7F0000010A2B18B4AAC2345678900001"
CALL, AGAIN = "7F0000010A2C18B4AAC2345678910000", "7F0000010A2C18B4AAC2345678910001"
HEAD = ["DefaultRegion", "billing"]
"""As a Java consumer writes: region and group, behind the time."""


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=["Orders", TRACES, "MyTraces"]) as started:
        yield started


@pytest.fixture
def admin(broker: EmbeddedBroker) -> Iterator[AdminClient]:
    with AdminClient(namesrv_addr=broker.namesrv_addr) as started:
        yield started


def pub(at: int, msg_id: str = ID) -> list[str]:
    """What Java's TraceDataEncoder makes of a send."""
    sent = ["Orders", msg_id, "TagA", "42", "127.0.0.1:10911", "9", "3", "0", f"{msg_id}0000"]
    return ["Pub", str(at), "DefaultRegion", "shop", *sent, "true", "10.0.0.7"]


def before(at: int, call: str, retries: int = 0, msg_id: str = ID) -> list[str]:
    return ["SubBefore", str(at), *HEAD, call, msg_id, str(retries), "42"]


def after(at: int | None, call: str, success: str = "true", msg_id: str = ID) -> list[str]:
    """A vendor's cloud is not told the time; 4.x ends behind the keys."""
    told = [] if at is None else ["0" if success == "true" else "4", str(at), "billing"]
    return ["SubAfter", call, msg_id, "3", success, "42", *told]


def note(broker: EmbeddedBroker, *records: list[str], topic: str = TRACES) -> None:
    """Store a message of traces, as any client does: the ids in it are its keys."""
    body = "".join("\x01".join(record) + "\x02" for record in records)
    ids = sorted({ID, OTHER} & {field for record in records for field in record})
    broker.send(topic, body.encode(), keys=" ".join(ids))


def times(records: tuple[TraceRecord, ...]) -> list[tuple[str, int | None]]:
    return [(type(one).__name__, one.timestamp) for one in records]


@pytest.mark.parametrize(("wrong", "kind"), [(None, TypeError), (5, TypeError), (" ", ValueError)])
def test_what_is_no_id_is_refused(admin: AdminClient, wrong: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"^msg_id is "):
        admin.trace(wrong)


def test_the_way_of_a_message_is_told_in_order_however_its_notes_have_come(
    broker: EmbeddedBroker, admin: AdminClient
) -> None:
    assert admin.trace(ID) == ()
    note(broker, after(60, AGAIN), before(50, AGAIN, retries=1))
    note(broker, before(20, CALL), before(20, CALL, msg_id=OTHER), after(30, CALL, "false"))
    note(broker, pub(10), pub(11, OTHER))
    way = admin.trace(ID)
    assert times(way) == [
        ("Pub", 10),
        ("SubBefore", 20),
        ("SubAfter", 30),
        ("SubBefore", 50),
        ("SubAfter", 60),
    ]
    assert {one.msg_id for one in way} == {ID}
    assert times(admin.trace(OTHER)) == [("Pub", 11), ("SubBefore", 20)]
    sent, taken, failed, *_ = way
    assert isinstance(sent, Pub)
    assert isinstance(taken, SubBefore)
    assert isinstance(failed, SubAfter)
    assert (sent.store_host, sent.tags, taken.group, failed.success) == (
        "127.0.0.1:10911",
        "TagA",
        "billing",
        False,
    )


def test_a_note_that_was_sent_twice_counts_once(broker: EmbeddedBroker, admin: AdminClient) -> None:
    for _ in range(2):
        note(broker, pub(10), before(20, CALL))
    assert times(admin.trace(ID)) == [("Pub", 10), ("SubBefore", 20)]


def test_an_end_whose_time_is_not_told_or_wrong_stands_behind_its_beginning(
    broker: EmbeddedBroker, admin: AdminClient
) -> None:
    note(broker, after(None, CALL, "false"), after(5, AGAIN))
    note(broker, before(50, AGAIN, retries=1), before(20, CALL), pub(10))
    calls = [getattr(one, "request_id", None) for one in admin.trace(ID)]
    assert calls == [None, CALL, CALL, AGAIN, AGAIN]
    assert times(admin.trace(ID))[2:] == [("SubAfter", None), ("SubBefore", 50), ("SubAfter", 5)]


def test_another_topic_of_traces_is_asked_and_notes_are_bounded_by_number_and_time(
    broker: EmbeddedBroker, admin: AdminClient
) -> None:
    note(broker, pub(10), topic="MyTraces")
    note(broker, before(20, CALL), topic="MyTraces")
    assert admin.trace(ID) == ()
    assert len(admin.trace(ID, trace_topic="MyTraces")) == 2
    assert len(admin.trace(ID, trace_topic="MyTraces", max_messages=1)) == 1
    early, late = datetime(2020, 1, 1, tzinfo=UTC), datetime(2090, 1, 1, tzinfo=UTC)
    assert admin.trace(ID, trace_topic="MyTraces", end=early) == ()
    assert admin.trace(ID, trace_topic="MyTraces", begin=late) == ()
    with pytest.raises(NoRouteError, match="Nowhere"):
        admin.trace(ID, trace_topic="Nowhere")


def test_with_its_topic_a_message_is_named_by_its_offset_id_too(
    broker: EmbeddedBroker, admin: AdminClient
) -> None:
    with DefaultMQProducer("shop", namesrv_addr=broker.namesrv_addr) as producer:
        sent = producer.send(Message("Orders", b"paid", unique_key=ID))
    note(broker, pub(10))
    assert admin.trace(sent.offset_msg_id) == ()
    for name in (sent.offset_msg_id, ID):
        assert times(admin.trace(name, topic="Orders")) == [("Pub", 10)]
    with pytest.raises(MQClientException, match="has the id"):
        admin.trace(OTHER, topic="Orders")


def test_a_note_that_cannot_be_read_is_named(broker: EmbeddedBroker, admin: AdminClient) -> None:
    note(broker, [*pub(10)[:5], ID])
    with pytest.raises(RemotingCommandException, match="Pub has 5 fields"):
        admin.trace(ID)

"""The timer topic of running brokers gives the rows that control port and files give."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, LessThan

from embedded_broker import EmbeddedBroker, EmbeddedCluster, PlainAccount, PlainAcl, VirtualClock
from rocketmq_py import DefaultMQProducer, MQBrokerException, PermissionDeniedError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from spark_connector.decoding.timer_columns import TIMER_COLUMNS
from spark_connector.errors import OptionError
from spark_connector.options.timer_options import TIMER_TOPIC
from spark_connector.reading import pulling
from tests.unit.spark_connector.reading.timer_reads import read

TOKEN = "sixteen characters or more"
ROLLS = {"timerRollWindowSlot": 20, "timerMaxDelaySec": 100_000}
Rows = list[dict[str, Any]]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker with timers near and far, some taken back, one given another time."""
    with EmbeddedBroker(
        store=tmp_path / "store",
        clock=VirtualClock(),
        control=True,
        control_token=TOKEN,
        topics=["T", "U"],
        config=ROLLS,
    ) as started:
        for number in range(9):
            started.send("T", b"b%d" % number, delay=9 - number, keys=f"k{number} x", tags="red")
        far = [started.send("U", b"far" * 500, delay=500 + n / 8).msg_id for n in range(5)]
        with DefaultMQProducer("P", namesrv_addr=started.namesrv_addr) as producer:
            sent = started.send("U", b"by its handle", delay=400)
            assert sent.recall_handle is not None
            producer.recall_message("U", sent.recall_handle)
        started.timers.recall(far.pop())
        started.clock.advance(1)
        started.timers.reschedule(
            far.pop(), deliver_at=started.clock.now() + timedelta(seconds=300)
        )
        yield started


def options_of(broker: EmbeddedBroker) -> dict[str, Any]:
    address = broker.control_url.removeprefix("http://")
    return {"controlAddress": address, "controlToken": TOKEN}


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (row.get("due_at", 0), row.get("message_id", "")))


def at(moment_ms: int) -> datetime:
    return datetime.fromtimestamp(moment_ms / 1000, UTC)


def by_topic(broker: EmbeddedBroker, *columns: str, **options: Any) -> Rows:
    return in_order(read(*columns or TIMER_COLUMNS, nameServer=broker.namesrv_addr, **options))


@pytest.mark.parametrize("seconds", [0, 3.35, 30, 299, 499])
def test_the_three_ways_give_every_column_alike(
    broker: EmbeddedBroker, tmp_path: Path, seconds: float
) -> None:
    broker.clock.advance(seconds)
    now = broker.clock.now_ms
    rows = by_topic(broker, asOf=now)
    assert in_order(read(*TIMER_COLUMNS, **options_of(broker), asOf=now)) == rows
    files: dict[str, Any] = {
        "storeDirectory": broker.snapshot(tmp_path / "copy"),
        "brokerName": broker.broker_name,
    }
    assert in_order(read(*TIMER_COLUMNS, **files, asOf=now)) == rows
    assert len(rows) == {0: 12, 3.35: 9, 30: 4, 299: 4, 499: 2}[seconds]
    assert all(row["hops"] for row in rows if seconds >= 30)


def test_a_timer_on_a_broker_that_releases_nothing_is_late(broker: EmbeddedBroker) -> None:
    for stage in broker.timers.stages.values():
        stage.pause()
    broker.clock.advance(4)
    rows = by_topic(broker, "due_at", "message_id", "lateness_ms")
    left, *waiting = rows  # how far it is a broker tells to a second, and what left then is told
    assert left["lateness_ms"] == 4_000
    assert waiting == in_order(read("due_at", "message_id", "lateness_ms", **options_of(broker)))
    assert [row["lateness_ms"] for row in waiting][:4] == [3_000, 2_000, 1_000, 0]


def test_topic_and_due_times_are_asked_for(broker: EmbeddedBroker) -> None:
    now = broker.clock.now_ms
    assert {row["topic"] for row in by_topic(broker, "topic", topic="U")} == {"U"}
    filters = [
        EqualTo(("topic",), "T"),
        GreaterThanOrEqual(("due_at",), at(now + 2_000)),
        LessThan(("due_at",), at(now + 4_000)),
    ]
    kept = by_topic(broker, "due_at", "message_id", filters=filters, pushFilters=True)
    assert [row["due_at"] - now for row in kept] == [2_000, 3_000]
    assert by_topic(broker, "topic", topic="Nowhere") == []


def test_what_is_deleted_while_it_is_read_is_passed_over(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = pulling.RangePuller.pieces

    def once(puller: pulling.RangePuller) -> Iterator[pulling.Piece]:
        yield from pieces(puller)
        monkeypatch.setattr(pulling.RangePuller, "pieces", lambda _: iter(()))

    monkeypatch.setattr(pulling.RangePuller, "pieces", once)
    assert by_topic(broker, "topic") == []


def test_every_broker_is_read_by_its_own_clock() -> None:
    with EmbeddedCluster(brokers=2, clock=VirtualClock(), topics=["T"]) as cluster:
        for number, broker in enumerate(cluster.brokers, 1):
            broker.send("T", b"x", delay=10 * number)
        there = {"nameServer": cluster.namesrv_addr}
        names = [one.broker_name for one in cluster.brokers]
        assert sorted(one["broker_name"] for one in read("broker_name", **there)) == names
        (only,) = read("age_ms", "broker_name", **there, brokerName=names[1])
        assert only == {"age_ms": 0, "broker_name": names[1]}
        with pytest.raises(OptionError, match=f"is at {names[0]}, {names[1]}"):
            read("topic", **there, brokerName="other")


def test_a_broker_without_timers_is_refused_by_name() -> None:
    with (
        EmbeddedBroker(profile="rocketmq-4.9") as old,
        pytest.raises(OptionError, match=r"before 5\.0"),
    ):
        read("topic", nameServer=old.namesrv_addr)
    with (
        EmbeddedBroker(config={"timerEngine": "sliced"}) as sliced,
        pytest.raises(MQBrokerException, match="sliced engine has none"),
    ):
        read("topic", nameServer=sliced.namesrv_addr)
    with EmbeddedBroker() as unused:
        assert read("topic", nameServer=unused.namesrv_addr) == []


def test_under_access_control_the_topic_needs_a_right() -> None:
    keys = {"accessKey": "reader-of-timers", "secretKey": "hush-hush"}
    for is_admin in (True, False):
        account = PlainAccount(
            access_key=keys["accessKey"],
            secret_key=keys["secretKey"],
            admin=is_admin,
            default_topic_perm="SUB",
            default_group_perm="SUB",
        )
        acl = PlainAcl(accounts=[account])
        with EmbeddedBroker(clock=VirtualClock(), topics=["T"], acl=acl) as broker:
            broker.send("T", b"x", delay=10)
            if is_admin:
                assert by_topic(broker, "topic", **keys) == [{"topic": "T"}]
            else:
                with pytest.raises(PermissionDeniedError, match=TIMER_TOPIC):
                    by_topic(broker, "topic", **keys)


def test_a_pull_that_is_refused_is_told_with_the_topic(broker: EmbeddedBroker) -> None:
    broker.faults.on(RequestCode.PULL_MESSAGE).respond(ResponseCode.NO_PERMISSION)
    with pytest.raises(PermissionDeniedError, match=f"reading topic {TIMER_TOPIC}, broker"):
        by_topic(broker, "topic")


def test_what_a_broker_may_not_tell_is_taken_from_the_clock_here(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.faults.on(RequestCode.GET_BROKER_CONFIG).respond(ResponseCode.NO_PERMISSION)
    broker.faults.on(RequestCode.GET_TIMER_CHECK_POINT).respond(ResponseCode.NO_PERMISSION)
    assert len(by_topic(broker, "topic")) == 12 + 1  # the second in progress counts whole
    assert "taken from the clock here" in caplog.text


def test_a_worker_without_the_inspector_is_told(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "embedded_broker.inspector.topic", None)
    with pytest.raises(OptionError, match="needs rocketmq-py whole on this worker"):
        by_topic(broker, "topic")

"""Ranges are fetched in order, whole, and a loss is a loss: asked of a broker in this process."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from datetime import timedelta
from typing import cast

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra spark)")

import pyarrow as pa

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import MessageQueue, QueueAccess, RawPull
from rocketmq_py.protocol.codes import RequestCode
from spark_connector.errors import OptionError, RocketMQDataLossError
from spark_connector.options import ReadOptions, read_options
from spark_connector.partitions import QueueRange
from spark_connector.reading import read_range
from spark_connector.starting import bounds_of, first_at, resolve
from tests.unit.spark_connector.conftest import record

SCHEMA = pa.schema([("offset", pa.int64()), ("body", pa.binary())])


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock()) as started:
        started.topics.create("T", queues=1)
        yield started


@pytest.fixture
def access(broker: EmbeddedBroker) -> Iterator[QueueAccess]:
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as started:
        started.read_queues("T")
        yield started


def options(**given: object) -> ReadOptions:
    texts = {name: str(value) for name, value in given.items()}
    return read_options(
        {"nameServer": "h:1", "subscribe": "T", "pullDeadlineMs": "1"} | texts, streaming=False
    )


def offsets(access: QueueAccess, start: int, until: int, **given: object) -> list[list[int]]:
    wanted = QueueRange("T", "broker-a", 0, start, until)
    return [
        batch.column("offset").to_pylist()
        for batch in read_range(access, options(**given), wanted, SCHEMA)
    ]


def fill(broker: EmbeddedBroker, count: int) -> None:
    for number in range(count):
        broker.send("T", b"%d" % number, tags="AB"[number % 2])


@pytest.mark.case("SP2")
def test_a_range_is_read_in_order_and_joined_into_large_batches(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    fill(broker, 300)
    batches = offsets(access, 5, 290, arrowBatchRows=100)
    assert [one for batch in batches for one in batch] == list(range(5, 290))
    assert len(batches[0]) == 32  # the first pull is handed on at once
    assert all(len(batch) >= 100 for batch in batches[1:-1])


def test_batches_keep_their_rows_when_the_memory_of_joined_pulls_is_used_again(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    fill(broker, 500)
    wanted = QueueRange("T", "broker-a", 0, 0, 500)
    batches = list(read_range(access, options(arrowBatchRows=100), wanted, SCHEMA))
    assert len(batches) > 3
    found = [row for batch in batches for row in batch.to_pylist()]
    assert found == [{"offset": number, "body": b"%d" % number} for number in range(500)]


@pytest.mark.case("SP16")
def test_a_reader_that_stops_early_has_asked_for_little(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    fill(broker, 500)
    wanted = QueueRange("T", "broker-a", 0, 0, 500)
    batches = read_range(access, options(prefetch=4), wanted, SCHEMA)
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert len(broker.journal.requests(code=RequestCode.PULL_MESSAGE)) <= 6


@pytest.mark.case("SP9")
def test_what_a_filter_leaves_out_is_no_loss(broker: EmbeddedBroker, access: QueueAccess) -> None:
    fill(broker, 100)
    found = offsets(access, 0, 100, subExpression="A")
    assert [one for batch in found for one in batch] == list(range(0, 100, 2))
    assert offsets(access, 0, 100, subExpression="C") == []


def test_an_end_that_does_not_come_is_a_loss_with_its_ranges(
    broker: EmbeddedBroker, access: QueueAccess, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker, 10)
    with pytest.raises(RocketMQDataLossError, match=r"offsets 10 to 12 were wanted.*0 to 10"):
        offsets(access, 8, 12)
    assert offsets(access, 8, 12, failOnDataLoss="false") == [[8, 9]]
    assert "2 offsets skipped" in caplog.text


def test_a_server_that_is_gone_is_named(broker: EmbeddedBroker, access: QueueAccess) -> None:
    fill(broker, 3)
    broker.close()
    with pytest.raises(Exception, match="queue 0, offsets 0 to 3 cannot be read"):
        offsets(access, 0, 3, pullTimeoutMs=200)


@pytest.mark.case("SP5", "SP6")
@pytest.mark.parametrize("profile", ["rocketmq-5.x", "rocketmq-4.9"])
def test_a_moment_is_the_first_message_at_or_after_it(profile: str) -> None:
    clock = VirtualClock()
    with EmbeddedBroker(clock=clock, profile=profile) as broker:
        broker.topics.create("T", queues=1)
        begin = clock.now_ms
        for _ in range(3):
            broker.send("T", b"x")
            clock.advance(timedelta(hours=1))
        queue = MessageQueue("T", "broker-a", 0)
        with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
            one = access.bounds("T")[queue]
            hour = 3_600_000
            moments = [begin - 1, begin, begin + 1, begin + hour, begin + 2 * hour + 1]
            found = [first_at(access, options(), queue, one, moment) for moment in moments]
            assert found == [0, 0, 1, 1, 3]
            late = str(begin + 9 * hour)
            strict = options(startingTimestamp=late)
            bounds = bounds_of(access, strict)
            with pytest.raises(OptionError, match="no message is that new"):
                resolve(access, strict, strict.start, bounds, is_end=False)
            mild = options(startingTimestamp=late, startingOffsetsByTimestampStrategy="latest")
            assert resolve(access, mild, mild.start, bounds, is_end=False) == {queue: 3}


@pytest.mark.case("SP3", "SP19")
def test_places_are_checked_against_what_there_is(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    fill(broker, 5)
    queue = MessageQueue("T", "broker-a", 0)

    def start(text: str) -> dict[MessageQueue, int]:
        chosen = options(startingOffsets=text)
        return resolve(access, chosen, chosen.start, bounds_of(access, chosen), is_end=False)

    assert start('{"T":{"broker-a":{"0":3}}}') == start('{"T":{"0":3}}') == {queue: 3}
    assert start('{"T":{"0":-2}}') == {queue: 0}
    with pytest.raises(OptionError, match=r"7 of topic T.*past its end, 5"):
        start('{"T":{"0":7}}')
    with pytest.raises(OptionError, match="queue 3 of topic T"):
        start('{"T":{"3":0}}')


def test_a_group_says_where_to_begin(broker: EmbeddedBroker, access: QueueAccess) -> None:
    fill(broker, 5)
    queue = access.read_queues("T")[0]
    access.pull(queue, 0, group="G").result(5)
    access.store_group_offset("G", queue, 2)
    chosen = options(startingOffsets="group", groupId="G")
    bounds = bounds_of(access, chosen)
    assert resolve(access, chosen, chosen.start, bounds, is_end=False) == {queue: 2}


class GenerousBroker:
    """Answers a pull with matching messages beyond the part that was asked for, as brokers do."""

    def pull(
        self, _queue: MessageQueue, offset: int, count: int, **_given: object
    ) -> Future[RawPull]:
        first = offset + offset % 2
        found = list(range(first, min(first + 2 * count, 400), 2))
        raw = b"".join(record(one, b"x", {"TAGS": "A"}) for one in found)
        answer: Future[RawPull] = Future()
        answer.set_result(RawPull(0 if found else 20, min(first + 2 * count, 400), 0, 400, 0, raw))
        return answer


@pytest.mark.case("SP9")
def test_a_filter_that_skips_messages_gives_none_twice() -> None:
    wanted = QueueRange("T", "broker-a", 0, 0, 301)
    given = options(subExpression="A", pullBatchSize=32, arrowBatchRows=10)
    access = cast("QueueAccess", GenerousBroker())
    batches = read_range(access, given, wanted, SCHEMA)
    found = [one for batch in batches for one in batch.column("offset").to_pylist()]
    assert found == list(range(0, 301, 2))


@pytest.mark.case("SP18", "SP53")
def test_messages_that_grew_too_old_are_a_loss_or_are_skipped_with_a_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    every_hour = ";".join(f"{hour:02}" for hour in range(24))
    small = {"mappedFileSizeCommitLog": 4096, "deleteWhen": every_hour}
    with EmbeddedBroker(clock=clock, config=small) as broker:
        broker.topics.create("T", queues=1)
        fill(broker, 60)
        clock.advance(days=4)
        fill(broker, 20)
        clock.advance(hours=1, age=True)
        queue = MessageQueue("T", "broker-a", 0)
        with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
            low = access.bounds("T")[queue].min_offset
            assert 0 < low < 70
            with pytest.raises(RocketMQDataLossError, match=rf"0 to {low} were wanted"):
                offsets(access, 0, 80)
            found = offsets(access, 0, 80, failOnDataLoss="false")
            assert [one for batch in found for one in batch] == list(range(low, 80))
    assert f"{low} offsets skipped" in caplog.text


@pytest.mark.case("SP7", "SP8")
def test_lists_patterns_and_assigned_queues_choose_what_is_read(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    broker.topics.create("T2", queues=2)
    fill(broker, 1)

    def queues(**given: str) -> set[tuple[str, int]]:
        chosen = read_options({"nameServer": "h:1"} | given, streaming=False)
        return {(queue.topic, queue.queue_id) for queue in bounds_of(access, chosen)}

    both = {("T", 0), ("T2", 0), ("T2", 1)}
    assert queues(subscribe="T,T2") == queues(subscribePattern="T.?") == both
    assert queues(assign='{"T2":{"broker-a":[1]}}') == {("T2", 1)}
    with pytest.raises(OptionError, match="has no queue 5 of T2"):
        queues(assign='{"T2":{"broker-a":[5]}}')

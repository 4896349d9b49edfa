"""Ranges are fetched in order, whole, and a loss is a loss: asked of a broker in this process."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from datetime import timedelta
from itertools import count
from typing import Any, cast

import pyarrow as pa
import pytest
from attrs import evolve

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.settings.profiles import ProfileName
from rocketmq_py import (
    MessageExt,
    MessageQueue,
    PermissionDeniedError,
    RemotingCommandException,
    RemotingConnectException,
    RemotingSendRequestException,
)
from rocketmq_py.errors import FrameError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.raw import QueueAccess, QueueBounds, RawPull
from spark_connector.decoding.decoder import Decoder
from spark_connector.errors import OptionError, RocketMQDataLossError
from spark_connector.options.read_options import ReadOptions, read_options
from spark_connector.planning.queue_ranges import QueueRange
from spark_connector.planning.start_places import bounds_of, resolve
from spark_connector.planning.time_places import first_at
from spark_connector.reading.pulling import PullLimit
from spark_connector.reading.range_reader import read_range, read_ranges
from tests.unit.spark_connector.conftest import record
from tests.unit.spark_connector.reading.one_by_one import OneByOne

SCHEMA = pa.schema([("offset", pa.int64()), ("body", pa.binary())])


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock()) as started:
        started.topics.create("T", queues=1)
        yield started


@pytest.fixture
def access(access: QueueAccess) -> QueueAccess:
    access.read_queues("T")
    return access


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
    # The first pull is handed on at once, then what several pulls have brought that left together.
    assert [len(batch) for batch in batches] == [32, 64, 64, 64, 61]


@pytest.mark.case("SP2", "SP9")
@pytest.mark.parametrize("schema", [SCHEMA, pa.schema([])], ids=["columns", "no columns"])
def test_no_batch_is_longer_than_what_the_user_asked_for(
    broker: EmbeddedBroker, access: QueueAccess, schema: pa.Schema
) -> None:
    fill(broker, 100)
    wanted = QueueRange("T", "broker-a", 0, 0, 100)
    for given, rows in (({}, 100), ({"subExpression": "A"}, 50)):
        batches = list(read_range(access, options(arrowBatchRows=10, **given), wanted, schema))
        assert max(batch.num_rows for batch in batches) <= 10
        assert sum(batch.num_rows for batch in batches) == rows


def test_pulls_of_a_thousand_are_decoded_four_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    decode = Decoder.decode

    def counting(self: Decoder, *given: Any, **named: Any) -> tuple[pa.RecordBatch, list[int]]:
        batch, offsets = decode(self, *given, **named)
        decoded.append(batch.num_rows)
        return batch, offsets

    monkeypatch.setattr(Decoder, "decode", counting)
    script = [answered(start, start + 1024) for start in range(0, 11 * 1024, 1024)]
    assert offsets_of(script, 11 * 1024) == list(range(11 * 1024))
    assert decoded == [1024, 2048, 4096, 4096]


@pytest.mark.case("SP9", "SP16")
def test_under_a_filter_batches_grow_by_their_rows_and_not_by_the_offsets_behind_them(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    for number in range(800):
        broker.send("T", b"%d" % number, tags="B" if number % 8 else "A")
    given = {"subExpression": "A", "pullBatchSize": 16, "arrowBatchRows": 20}
    batches = offsets(access, 0, 800, **given)
    assert [one for batch in batches for one in batch] == list(range(0, 800, 8))
    # Every pull covers 16 offsets and brings two rows.
    assert [len(batch) for batch in batches] == [2, 4, 8, 16, 20, 20, 20, 10]
    # What is enough in bytes is handed on, however few rows it has.
    assert {len(one) for one in offsets(access, 0, 800, **given, arrowBatchBytes=1)} == {2}


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


@pytest.mark.case("SP53")
def test_a_loss_of_many_pulls_is_told_once_with_its_whole_count(
    broker: EmbeddedBroker, access: QueueAccess, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker, 10)
    small = {"failOnDataLoss": "false", "pullBatchSize": 2}
    assert offsets(access, 8, 40, **small) == [[8, 9]]
    told = [one.getMessage() for one in caplog.records if "data loss" in one.getMessage()]
    assert len(told) == 1
    assert "offsets 10 to 40 were wanted, available are 0 to 10; 30 offsets skipped" in told[0]


@pytest.mark.case("SP20")
def test_a_refusal_of_a_pull_stays_what_it_is_and_says_where(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    fill(broker, 1)
    refused = broker.faults.on(RequestCode.PULL_MESSAGE)
    refused.respond(ResponseCode.NO_PERMISSION, "group is not allowed")
    with pytest.raises(PermissionDeniedError, match="group is not allowed") as caught:
        offsets(access, 0, 1)
    notes = [f"This happened while reading {QueueRange('T', 'broker-a', 0, 0, 1)}."]
    assert caught.value.__notes__ == notes


def test_a_server_that_is_gone_is_named(broker: EmbeddedBroker, access: QueueAccess) -> None:
    fill(broker, 3)
    broker.close()
    with pytest.raises(Exception, match="queue 0, offsets 0 to 3 cannot be read from "):
        offsets(access, 0, 3, pullTimeoutMs=200)


def moment_in(access: QueueAccess, queue: MessageQueue, one: QueueBounds, moment: int) -> int:
    return first_at(access, options(), {queue: one}, {queue: moment})[queue]


@pytest.mark.case("SP5", "SP6")
@pytest.mark.parametrize("profile", ["rocketmq-5.x", "rocketmq-4.9"])
def test_a_moment_is_the_first_message_at_or_after_it(profile: ProfileName) -> None:
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
            found = [moment_in(access, queue, one, moment) for moment in moments]
            assert found == [0, 0, 1, 1, 3]
            late = str(begin + 9 * hour)
            strict = options(startingTimestamp=late)
            bounds = bounds_of(access, strict)
            with pytest.raises(OptionError, match="no message is that new"):
                resolve(access, strict, strict.start, bounds, is_end=False)
            mild = options(startingTimestamp=late, startingOffsetsByTimestampStrategy="latest")
            assert resolve(access, mild, mild.start, bounds, is_end=False) == {queue: 3}


@pytest.mark.case("SP5")
@pytest.mark.parametrize("profile", ["rocketmq-5.x", "rocketmq-4.9"])
def test_a_moment_with_many_messages_is_the_first_of_them(profile: ProfileName) -> None:
    clock = VirtualClock()
    with EmbeddedBroker(clock=clock, profile=profile) as broker:
        broker.topics.create("T", queues=1)
        fill(broker, 3)
        clock.advance(timedelta(seconds=1))
        begin = clock.now_ms
        fill(broker, 40)
        queue = MessageQueue("T", "broker-a", 0)
        with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
            one = access.bounds("T")[queue]
            found = [moment_in(access, queue, one, at) for at in (begin - 1, begin)]
            assert found == [3, 3]


class MiddleBroker:
    """Answers a store time with any message of that time, as 4.9's binary search does."""

    def __init__(self, times: list[int]) -> None:
        self.times = times

    def search_offsets(self, moments: dict[MessageQueue, int]) -> dict[MessageQueue, int]:
        found = {}
        for queue, moment in moments.items():
            hits = [at for at, one in enumerate(self.times) if one == moment]
            found[queue] = hits[len(hits) // 2]
        return found

    def messages_at(
        self, places: Iterable[tuple[MessageQueue, int]], *, with_body: bool
    ) -> dict[tuple[MessageQueue, int], MessageExt]:
        assert not with_body  # which may be broken
        return {
            (queue, at): MessageExt("T", store_timestamp=self.times[at]) for queue, at in places
        }


@pytest.mark.case("SP5")
@pytest.mark.parametrize("older", range(6))
def test_any_message_of_a_millisecond_leads_to_its_first(older: int) -> None:
    access = cast("QueueAccess", MiddleBroker([1] * older + [5] * 9 + [7]))
    bounds = QueueBounds(0, older + 10)
    assert moment_in(access, MessageQueue("T", "b", 0), bounds, 5) == older
    assert moment_in(access, MessageQueue("T", "b", 0), bounds, -5) == 0


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


@pytest.mark.case("SP19")
def test_a_group_says_where_to_begin(
    broker: EmbeddedBroker, access: QueueAccess, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker, 5)
    queue = access.read_queues("T")[0]
    access.pull(queue, 0, group="G").result(30)
    access.store_group_offset("G", queue, 2)
    chosen = options(startingOffsets="group", groupId="G")

    def start(bounds: dict[MessageQueue, QueueBounds], **given: str) -> dict[MessageQueue, int]:
        asked = options(startingOffsets="group", groupId="G", **given)
        return resolve(access, asked, asked.start, bounds, is_end=False)

    bounds = bounds_of(access, chosen)
    assert start(bounds) == {queue: 2}
    # What is gone is not stepped over: whoever reads there says so.
    assert start({queue: QueueBounds(4, 5)}) == {queue: 2}
    # The group went on after the end was looked at: what is behind that end comes later.
    assert start({queue: QueueBounds(0, 1)}) == {queue: 1}
    assert not caplog.records
    access.store_group_offset("G", queue, 9)
    with pytest.raises(OptionError, match=r"group G: offset 9 of.* past its end, 5: was.*set"):
        start(bounds)
    assert start(bounds, failOnDataLoss="false") == {queue: 0}
    [told] = [one.getMessage() for one in caplog.records]
    assert "group G: offset 9 of topic T" in told
    assert told.endswith("reading begins at 0")
    unknown = options(startingOffsets="group", groupId="Nobody")
    with pytest.raises(OptionError, match="group Nobody has no offset in topic T"):
        resolve(access, unknown, unknown.start, bounds, is_end=False)
    for otherwise, offset in (("earliest", 0), ("latest", 5)):
        mild = options(startingOffsets=f"group:{otherwise}", groupId="Nobody")
        assert resolve(access, mild, mild.start, bounds, is_end=False) == {queue: offset}


class MasterAndSlave(OneByOne):
    """A master that sends readers to its slave, which has only the first messages yet."""

    def __init__(self, master_has: int, slave_has: int, busy_until: int = 1000) -> None:
        self.has = {0: master_has, 1: slave_has}
        self.busy_until = busy_until
        self.asked: list[int] = []

    def pull(
        self, _queue: MessageQueue, offset: int, count: int, *, broker_id: int, **_given: object
    ) -> Future[RawPull]:
        self.asked.append(broker_id)
        has = self.has[broker_id]
        past = min(offset + min(count, 2), has)
        raw = b"".join(record(one, b"x") for one in range(offset, past))
        answer: Future[RawPull] = Future()
        # What a slave without the offset answers looks as if messages were lost.
        suggested = 1 if offset < self.busy_until else 0
        pull = RawPull(0, past, 0, has, suggested, raw) if raw else RawPull(21, 0, 0, has, 0, b"")
        answer.set_result(pull)
        return answer

    def read_queues(self, _topic: str) -> tuple[MessageQueue, ...]:
        return ()


def test_a_slave_that_lags_behind_loses_nothing_and_can_be_left_alone() -> None:
    wanted = QueueRange("T", "b", 0, 0, 10)

    def read(**given: object) -> tuple[list[int], set[int]]:
        brokers = MasterAndSlave(10, 4)
        batches = read_range(cast("QueueAccess", brokers), options(**given), wanted, SCHEMA)
        found = [one for batch in batches for one in batch.column("offset").to_pylist()]
        return found, set(brokers.asked)

    assert read() == (list(range(10)), {0, 1})
    assert read(readFromSlave="false") == (list(range(10)), {0})


def test_pulls_that_were_in_flight_to_a_lagging_slave_lose_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Every look at the clock is past the deadline: a master's refusal would be a loss at once.
    monkeypatch.setattr("spark_connector.reading.pulling.monotonic", count().__next__)
    brokers = MasterAndSlave(20, 2, busy_until=2)
    wanted = QueueRange("T", "b", 0, 0, 20)
    # The first answer sends all pulls in flight to the slave, which has none of what they ask for;
    # the first of its refusals already turns the reader back to the master, for good.
    given = options(prefetch=4)
    batches = read_range(cast("QueueAccess", brokers), given, wanted, SCHEMA)
    assert [one for batch in batches for one in batch.column("offset").to_pylist()] == [*range(20)]
    assert brokers.asked[:5] == [0, 1, 1, 1, 1]


class ScriptedBroker(OneByOne):
    """Answers pulls one after another with what it was given: an answer, or an error."""

    def __init__(self, *script: RawPull | Exception) -> None:
        self.script = list(script)

    def pull(self, *_given: object, **_named: object) -> Future[RawPull]:
        answer: Future[RawPull] = Future()
        said = self.script.pop(0)
        if isinstance(said, RawPull):
            answer.set_result(said)
        else:
            answer.set_exception(said)
        return answer

    def read_queues(self, _topic: str) -> tuple[MessageQueue, ...]:
        return ()


def answered(start: int, past: int) -> RawPull:
    return given_of(range(start, past), past)


def given_of(those: Iterable[int], next_offset: int) -> RawPull:
    raw = b"".join(record(one, b"x") for one in those)
    return RawPull(0, next_offset, 0, 1000, 0, raw)


def nothing(code: int, next_offset: int) -> RawPull:
    return RawPull(code, next_offset, 0, 1000, 0, b"")


def offsets_of(script: list[RawPull], until: int, **given: object) -> list[int]:
    access = cast("QueueAccess", ScriptedBroker(*script))
    chosen = options(**({"prefetch": 1} | given))
    batches = read_range(access, chosen, QueueRange("T", "b", 0, 0, until), SCHEMA)
    return [one for batch in batches for one in batch.column("offset").to_pylist()]


LOSSES = {
    "the broker removes all of them": ([nothing(20, 1000)] * 40, 1000, [], "0 to 1000", 1000),
    "the broker removes some": (
        # Two parts of two offsets reach into the same loss.
        [answered(0, 2), nothing(20, 6), nothing(20, 6), answered(6, 8)],
        8,
        [0, 1, 6, 7],
        "2 to 6",
        4,
    ),
    "the broker finds what is behind the loss from the middle of it": (
        [answered(0, 2), nothing(20, 6), answered(6, 8), answered(6, 8)],
        8,
        [0, 1, 6, 7],
        "2 to 6",
        4,
    ),
    "the broker jumps when it cannot read its queue": (
        [answered(0, 2), nothing(19, 6), nothing(19, 6), answered(6, 8)],
        8,
        [0, 1, 6, 7],
        "2 to 6",
        4,
    ),
    "a hole at the front": ([answered(3, 8)], 8, [3, 4, 5, 6, 7], "0 to 3", 3),
    "a hole at the end": ([given_of(range(5), 8)], 8, [0, 1, 2, 3, 4], "5 to 8", 3),
    "a hole at the end of a pull": (
        [given_of(range(5), 8), answered(8, 10)],
        10,
        [0, 1, 2, 3, 4, 8, 9],
        "5 to 8",
        3,
    ),
    "a hole as long as a pull": (
        [answered(0, 2), answered(6, 8), answered(6, 8), answered(6, 8)],
        8,
        [0, 1, 6, 7],
        "2 to ",
        4,
    ),
}


@pytest.mark.case("SP53")
@pytest.mark.parametrize("name", LOSSES)
def test_offsets_without_a_message_are_a_loss_where_no_filter_explains_them(
    name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, until, rows, lost, skipped = LOSSES[name]
    monkeypatch.setattr("spark_connector.reading.pulling.monotonic", count().__next__)
    with pytest.raises(RocketMQDataLossError, match=f"queue 0: offsets {lost}"):
        offsets_of(script, until)
    assert offsets_of(script, until, failOnDataLoss="false") == rows
    assert [one.getMessage().split("; ")[-1] for one in caplog.records] == [
        f"{skipped} offsets skipped"
    ]
    caplog.clear()
    for chosen in ({"subExpression": "A"}, {"sqlExpression": "a > 1"}):
        offsets_of(script, until, **chosen)
    assert not caplog.records


@pytest.mark.case("SP53")
def test_all_holes_of_a_range_are_told_in_one_warning_with_their_sum(
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = [given_of([0, 2, 5, 6], 8), nothing(20, 10), given_of([11, 12, 15], 16)]
    found = offsets_of(script, 16, failOnDataLoss="false")
    assert found == [0, 2, 5, 6, 11, 12, 15]
    [told] = [one.getMessage() for one in caplog.records]
    assert "queue 0: offsets 1 to 15 were wanted" in told
    assert told.endswith("; 9 offsets skipped")


@pytest.mark.parametrize("code", [19, 21])
def test_a_queue_that_cannot_be_read_yet_is_asked_again(code: int) -> None:
    script = [answered(0, 2), nothing(code, 8), answered(2, 4)]
    assert offsets_of(script, 4, pullDeadlineMs=60_000) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "hiccup", [RawPull(19, 0, 0, 2, 0, b""), RemotingConnectException("broker-a:1")]
)
def test_the_time_of_a_slow_consumer_is_not_held_against_the_broker(
    hiccup: RawPull | Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("spark_connector.reading.pulling.monotonic", lambda: now[0])
    access = cast("QueueAccess", ScriptedBroker(answered(0, 2), hiccup, answered(2, 4)))
    wanted = QueueRange("T", "b", 0, 0, 4)
    batches = read_range(access, options(pullDeadlineMs=1000), wanted, SCHEMA)
    assert next(batches).column("offset").to_pylist() == [0, 1]
    now[0] += 3600
    assert [one for batch in batches for one in batch.column("offset").to_pylist()] == [2, 3]


def test_a_damaged_body_is_found_only_when_asked_for(
    broker: EmbeddedBroker, access: QueueAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.send("T", b"whole body")
    pull = access.pull

    def damaging(*args: Any, **given: Any) -> Future[RawPull]:
        answer: Future[RawPull] = Future()
        whole = pull(*args, **given).result(30)
        answer.set_result(evolve(whole, records=whole.records.replace(b"whole", b"Whole")))
        return answer

    monkeypatch.setattr(access, "pull", damaging)
    assert offsets(access, 0, 1) == [[0]]
    with pytest.raises(RemotingCommandException, match="queue 0, offset 0") as caught:
        offsets(access, 0, 1, checkCrc="true")
    assert "Whole" not in "".join(traceback.format_exception(caught.value))


def test_batches_are_handed_on_when_they_have_enough_bytes(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    fill(broker, 200)
    small = offsets(access, 0, 200, arrowBatchBytes="1")
    assert len(small) > len(offsets(access, 0, 200))
    assert [one for batch in small for one in batch] == list(range(200))


@pytest.mark.case("SP5")
def test_ends_can_be_times_of_single_queues(access: QueueAccess, broker: EmbeddedBroker) -> None:
    clock = broker.clock
    assert isinstance(clock, VirtualClock)
    fill(broker, 4)
    clock.advance(timedelta(seconds=1))
    now = clock.now_ms
    fill(broker, 4)
    queue = MessageQueue("T", "broker-a", 0)
    chosen = options(endingOffsetsByTimestamp=f'{{"T":{{"broker-a":{{"0":{now}}}}}}}')
    bounds = bounds_of(access, chosen)
    assert resolve(access, chosen, chosen.end, bounds, is_end=True) == {queue: 4}


class GenerousBroker(OneByOne):
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
    # A pattern means none of RocketMQ's own topics, such as TBW102.
    assert queues(subscribePattern="T.*|RMQ_SYS.*|SCHEDULE.*|rmq_sys.*") == both
    assert queues(assign='{"T2":{"broker-a":[1]}}') == {("T2", 1)}
    # What waits for its time is in topics of RocketMQ's own, which no pattern means.
    broker.send("T", b"x", delay=60)
    broker.send("T", b"x", delay_level=3)
    with_messages = {
        queue.topic
        for queue, one in bounds_of(
            access, read_options({"nameServer": "h:1", "subscribePattern": ".*"}, streaming=False)
        ).items()
        if one.max_offset
    }
    assert with_messages == {"T"}
    with pytest.raises(OptionError, match="has no queue 5 of T2"):
        queues(assign='{"T2":{"broker-a":[5]}}')


class OverlongBroker(OneByOne):
    """Gives as many messages as it is asked for; what no frame can carry ends its connection."""

    def __init__(self, has: int, frame_bytes: int) -> None:
        self.has = has
        self.frame_bytes = frame_bytes
        self.asked: list[int] = []
        self.failures = 0

    def pull(
        self, _queue: MessageQueue, offset: int, count: int, **_given: object
    ) -> Future[RawPull]:
        self.asked.append(count)
        past = min(offset + count, self.has)
        answer: Future[RawPull] = Future()
        given = given_of(range(offset, past), past)
        if len(given.records) > self.frame_bytes:
            self.failures += 1
            error = RemotingSendRequestException("connection ended", address="h:1")
            error.__cause__ = FrameError(0, "length", len(given.records), "at most so many")
            answer.set_exception(error)
        else:
            answer.set_result(given)
        return answer

    def read_queues(self, _topic: str) -> tuple[MessageQueue, ...]:
        raise AssertionError("nothing is wrong with the route")


@pytest.mark.parametrize("ranges", [1, 5])
def test_a_broker_that_gives_more_than_a_frame_carries_is_asked_for_less(
    ranges: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = 160 * len(record(0, b"x"))
    monkeypatch.setattr("spark_connector.reading.pulling.FRAME_BYTES", frame)
    monkeypatch.setattr("spark_connector.reading.pulling.GOOD_FRAME_BYTES", frame * 3 // 4)
    broker = OverlongBroker(has=900, frame_bytes=frame)
    wanted = [QueueRange("T", "b", number, 0, 900) for number in range(ranges)]
    batches = read_ranges(cast("QueueAccess", broker), options(), wanted, SCHEMA)
    found = [one for batch in batches for one in batch.column("offset").to_pylist()]
    assert found == list(range(900)) * ranges
    assert broker.failures <= 6  # those that were under way together
    assert max(broker.asked[broker.failures :]) <= 160


def test_after_messages_that_were_too_long_together_more_are_asked_for_again() -> None:
    limit = PullLimit(1_024)
    error = RemotingSendRequestException("connection ended", address="h:1")
    assert not limit.is_too_long(error, 1_024)
    error.__cause__ = FrameError(0, "length", 1 << 26, "at most 16777212")
    assert limit.is_too_long(error, 1_024)
    assert limit.now == 192
    assert not limit.is_too_long(error, 1)  # one that is too long alone cannot be read at all
    limit.had_room(100, 1_000)
    limit.had_room(192, 12 << 20)
    assert limit.now == 192
    for _ in range(4):
        limit.had_room(limit.now, 1_000)
    assert limit.now == 1_024


# --- several queues in a task --------------------------------------------------------------------


@pytest.fixture
def many(broker: EmbeddedBroker) -> EmbeddedBroker:
    broker.topics.create("M", queues=70)
    for queue in range(70):
        for number in range(3):
            broker.send("M", b"%d-%d" % (queue, number), queue=queue)
    return broker


def test_many_queues_are_read_together_each_in_its_order(
    many: EmbeddedBroker, access: QueueAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []
    decode = Decoder.decode

    def counting(self: Decoder, *given: Any, **named: Any) -> tuple[pa.RecordBatch, list[int]]:
        batch, offsets = decode(self, *given, **named)
        decoded.append(batch.num_rows)
        return batch, offsets

    monkeypatch.setattr(Decoder, "decode", counting)
    access.read_queues("M")
    wanted = [QueueRange("M", "broker-a", queue, 0, 3) for queue in range(70)]
    schema = pa.schema([("queue_id", pa.int32()), ("offset", pa.int64()), ("body", pa.binary())])
    batches = list(read_ranges(access, options(), wanted, schema))
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert rows == [(q, n, b"%d-%d" % (q, n)) for q in range(70) for n in range(3)]
    assert len(decoded) <= 8  # 3, 6, 12 and so on
    # What is left of a queue can only be told of one queue at a time.
    left = pa.schema([("queue_size_left", pa.int64())])
    decoded.clear()
    apart = list(read_ranges(access, options(), wanted, left))
    assert [n for batch in apart for n in batch.column(0).to_pylist()] == [2, 1, 0] * 70
    assert len(decoded) == 70


def test_what_is_lost_of_each_queue_is_told_of_it(
    access: QueueAccess, caplog: pytest.LogCaptureFixture
) -> None:
    # Queue 0 lacks offset 1, queue 1 is whole, queue 2 lacks its first two.
    script = ScriptedBroker(given_of([0, 2], 3), given_of([0, 1, 2], 3), given_of([2], 3))
    wanted = [QueueRange("T", "b", queue, 0, 3) for queue in range(3)]
    given = options(failOnDataLoss="false", arrowBatchRows=1000)
    batches = read_ranges(cast("QueueAccess", script), given, wanted, SCHEMA)
    found = [one for batch in batches for one in batch.column("offset").to_pylist()]
    assert found == [0, 2, 0, 1, 2, 2]
    told = [one.getMessage() for one in caplog.records if "data loss" in one.getMessage()]
    assert [line.partition("; ")[2] for line in told] == ["1 offsets skipped", "2 offsets skipped"]
    assert ["queue 0" in told[0], "queue 2" in told[1]] == [True, True]


def test_what_cannot_be_decoded_in_several_queues_is_told_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pulls = []
    for offset in range(2):
        raw = record(offset, b"no zlib", sys_flag=1) + record(offset + 1, b"good")
        pulls.append(RawPull(0, offset + 2, 0, 9, 0, raw))
    access = cast("QueueAccess", ScriptedBroker(*pulls))
    wanted = [QueueRange("T", broker, 0, at, at + 2) for at, broker in enumerate(("b", "c"))]
    batches = read_ranges(access, options(mode="DROPMALFORMED", prefetch=1), wanted, SCHEMA)
    assert [body for batch in batches for body in batch.column("body").to_pylist()] == [b"good"] * 2
    (line,) = caplog.messages
    assert "2 messages cannot be decoded (mode=DROPMALFORMED) of" in line
    assert "broker b, queue 1, offset 0" in line
    assert "broker c, queue 1, offset 1" in line

"""A store with a BatchCQ topic: puts, pulls, searches, recovery, damage and age."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from embedded_broker.core.filters import TagFilter
from embedded_broker.errors import StoreDamagedError
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.store.message_run import Arrivals, MessageRun
from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.pull import GetResult, GetStatus
from embedded_broker.store.put_values import InnerMessage, PutStatus
from rocketmq_py.protocol.message_codec import decode_records, encode_batch
from rocketmq_py.protocol.sysflag import INNER_BATCH, NEED_UNWRAP
from rocketmq_py.protocol.tag_hash import tags_code
from tests.unit.embedded_broker.store.store_tools import (
    STORE_HOST,
    FullDisk,
    HandClock,
    delete_before,
    message,
    new_store,
)

T = "B", 0
FLAGS = INNER_BATCH | NEED_UNWRAP
CONFIG = {"mappedFileSizeCommitLog": 4096, "mapperFileSizeBatchConsumeQueue": 4 * 46}


def new(
    fs: MemoryFileSystem | None = None, clock: HandClock | None = None, **settings: object
) -> MessageStore:
    """A store that takes B for a BatchCQ topic, as a broker tells it once its tables are loaded."""
    store = new_store(fs, clock, {**CONFIG, **settings})
    store.takes_batches = lambda topic: topic == "B"
    return store


def batch(*texts: str, **properties: str) -> InnerMessage:
    body = encode_batch((0, text.encode(), b"TAGS\1inner\2") for text in texts)
    return InnerMessage(
        "B",
        0,
        body,
        {"UNIQ_KEY": texts[0], "INNER_NUM": str(len(texts)), **properties},
        sys_flag=FLAGS,
    )


def fill(store: MessageStore) -> None:
    """Batches of three, one that came alone, two and four messages; beside them ordinary ones."""
    for number, one in enumerate(
        (
            batch("a0", "a1", "a2"),
            message(1, "B", TAGS="alone"),
            batch("b0", "b1", TAGS="two"),
            batch("c0", "c1", "c2", "c3"),
        )
    ):
        assert store.put(one).ok
        assert store.put(message(number)).ok


FIRSTS = [0, 3, 4, 6]
END = 10


def firsts(result: GetResult) -> list[int]:
    return [one.queue_offset for one in decode_records(b"".join(result.buffers))]


def texts(store: MessageStore, *, begin: int = 0) -> list[str]:
    found = [store.message("B", 0, offset) for offset in range(begin, store.max_offset(*T))]
    return [one.body.decode() for one in found if one is not None]


ALL = ["a0", "a1", "a2", "body 1", "b0", "b1", "c0", "c1", "c2", "c3"]


# -- put -----------------------------------------------------------------------------------------


def test_a_batch_is_one_record_that_names_its_first_offset() -> None:
    store = new()
    arrived: list[Arrivals] = []
    store.on_arrival.append(arrived.append)
    store.put(message(0, "B"))
    result = store.put(batch("a0", "a1"))
    assert (result.queue_offset, result.offsets) == (1, [result.commit_log_offset])
    assert store.put(batch("b0")).queue_offset == 3
    record = store.record(result.commit_log_offset)
    assert record is not None
    assert (record.queue_offset, record.sys_flag) == (1, FLAGS)
    assert record.properties["INNER_BASE"] == "1"
    assert record.properties["INNER_NUM"] == "2"
    assert [one.queue_offset for one in arrived] == [0, 1, 3]
    assert arrived[1].has(1, None)


def test_messages_that_come_together_are_batches_of_one() -> None:
    store = new()
    items = [(0, 0, b"%d" % number, b"", 0) for number in range(3)]
    result = store.put(MessageRun("B", 0, items, 0, STORE_HOST))
    assert (result.queue_offset, len(result.offsets)) == (0, 3)
    two = store.put(message(3, "B"), message(4, "B"), message(5))
    assert two.ok
    assert [first for first, _ in store.queues[T].iterate(0)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("count", ["", "0", "x", "32768"])
def test_a_batch_must_say_how_many_messages_it_has(count: str) -> None:
    store = new()
    assert store.put(batch("a", INNER_NUM=count)).status is PutStatus.MESSAGE_ILLEGAL


def test_a_batch_needs_a_topic_for_batches_and_is_put_by_itself() -> None:
    store = new()
    elsewhere = batch("a")
    elsewhere.topic = "T"
    refused = store.put(elsewhere)
    assert (refused.status, "BatchCQ" in str(refused.remark)) == (PutStatus.MESSAGE_ILLEGAL, True)
    store.put(message(0))
    assert store.put(elsewhere).status is PutStatus.MESSAGE_ILLEGAL
    assert store.put(batch("a"), batch("b")).status is PutStatus.MESSAGE_ILLEGAL
    assert store.max_offset(*T) == 0


def test_a_batch_that_does_not_fit_goes_to_the_next_file() -> None:
    fs = MemoryFileSystem()
    store = new(fs)
    before = store.log.max_offset
    while before // 4096 == store.log.max_offset // 4096:
        before = store.log.max_offset
        store.put(batch(*("x" * 100 for _ in range(5))))
    begins = [entry[0] for _, entry in store.queues[T].iterate(0)]
    assert begins[-1] == 4096
    store.abandon()
    assert texts(new(fs)) == ["x" * 100] * 5 * len(begins)


@pytest.mark.parametrize("writes", [0, 1])
def test_a_full_disk_takes_nothing_of_a_batch(writes: int) -> None:
    disk = FullDisk()
    store = new(disk)
    fill(store)
    end, disk.left = store.log.max_offset, writes
    assert store.put(batch("d0", "d1")).status is PutStatus.CREATE_MAPPED_FILE_FAILED
    disk.left = None
    assert (store.log.max_offset, store.max_offset(*T)) == (end, END)
    assert store.put(batch("e0", "e1")).queue_offset == END
    assert texts(store) == [*ALL, "e0", "e1"]


# -- pull ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "most", "found", "goes_on_at"),
    [
        (0, 32, FIRSTS, END),
        (2, 32, FIRSTS, END),
        (4, 32, [4, 6], END),
        (9, 32, [6], END),
        (0, 1, [0], 3),
        (1, 1, [0], 3),
        (0, 3, [0], 3),
        (0, 5, [0, 3], 4),
        (0, 6, [0, 3, 4], 6),
        (4, 1, [4], 6),
    ],
)
def test_a_pull_gives_whole_batches(
    offset: int, most: int, found: Sequence[int], goes_on_at: int
) -> None:
    """The first one always, others as long as their messages are not too many."""
    store = new()
    fill(store)
    result = store.get(*T, offset, most)
    assert (result.status, firsts(result)) == (GetStatus.FOUND, list(found))
    assert (result.next_begin_offset, result.min_offset, result.max_offset) == (goes_on_at, 0, END)
    counts = dict(zip(FIRSTS, (3, 1, 2, 4), strict=True))
    assert result.count == sum(counts[first] for first in found)


def test_a_pull_is_bounded_by_bytes_and_by_the_brokers_count() -> None:
    store = new(maxTransferCountOnMessageInMemory=4)
    fill(store)
    assert firsts(store.get(*T, 0, 32)) == [0, 3]
    assert firsts(store.get(*T, 0, 32, max_bytes=100)) == [0]


@pytest.mark.parametrize(
    ("offset", "status", "goes_on_at"),
    [
        (END, GetStatus.OFFSET_OVERFLOW_ONE, END),
        (END + 1, GetStatus.OFFSET_OVERFLOW_BADLY, END),
    ],
)
def test_beyond_the_end_is_as_in_any_queue(offset: int, status: GetStatus, goes_on_at: int) -> None:
    store = new()
    fill(store)
    result = store.get(*T, offset, 32)
    assert (result.status, result.next_begin_offset) == (status, goes_on_at)


def test_tags_are_those_of_the_batch() -> None:
    store = new()
    fill(store)
    found = store.get(*T, 0, 32, wanted=TagFilter(frozenset({tags_code("two")})))
    assert (firsts(found), found.next_begin_offset, found.count) == ([4], END, 2)
    nothing = store.get(*T, 5, 32, wanted=TagFilter(frozenset({tags_code("alone")})))
    assert (nothing.status, nothing.next_begin_offset) == (GetStatus.NO_MATCHED_MESSAGE, END)


def test_a_pull_steps_over_what_is_no_more_and_ends_with_its_file() -> None:
    store = new()
    fill(store)
    for number in range(4):
        store.put(batch(f"d{number}"))
    assert firsts(store.get(*T, 0, 32)) == FIRSTS
    store.queues[T].blank(3)
    before = store.get(*T, 0, 32)
    assert (firsts(before), before.next_begin_offset) == ([0], 3)
    gone = store.get(*T, 3, 32)
    assert (firsts(gone), gone.next_begin_offset) == ([4, 6], END)


# -- searches ------------------------------------------------------------------------------------


def test_a_time_finds_the_first_message_of_a_batch() -> None:
    """LOWER behind the end is the last batch, as ``BatchConsumeQueue.getOffsetInQueueByTime``."""
    clock = HandClock()
    store = new(clock=clock)
    start_ms = clock.now_ms
    for one in (batch("a0", "a1", "a2"), batch("b0", "b1"), batch("c0")):
        store.put(one)
        clock.now_ms += 1000
    asked = [-1, 0, 1, 1000, 1500, 2000, 9000]
    lower = [store.search_offset(*T, start_ms + one) for one in asked]
    assert lower == [0, 0, 3, 3, 5, 5, 5]
    upper = [store.search_offset(*T, start_ms + one, "UPPER") for one in asked]
    assert upper == [0, 0, 0, 3, 3, 5, 5]
    assert store.search_offset("B", 1, start_ms) == 0
    assert store.earliest_store_time(*T) == start_ms


def test_the_key_of_a_batch_finds_its_record() -> None:
    store = new()
    store.put(batch("a0", "a1", KEYS="k1 k2"))
    for key in ("a0", "k2"):
        (found,) = store.query("B", key, 32, 0, 2**62)
        assert decode_records(found)[0].properties["INNER_NUM"] == "2"
    assert store.query("B", "a1", 32, 0, 2**62) == []


def test_a_message_of_a_batch_is_given_as_if_it_had_come_alone() -> None:
    store = new()
    fill(store)
    one = store.message("B", 0, 5)
    assert one is not None
    assert (one.body, one.queue_offset, one.sys_flag) == (b"b1", 5, 0)
    assert one.properties == {"TAGS": "inner"}
    assert [len(store.messages("B", 0, offset)) for offset in (2, 3, 99)] == [3, 1, 0]


# -- recovery ------------------------------------------------------------------------------------


def snapshot(fs: MemoryFileSystem) -> dict[str, bytes]:
    return {path: fs.read_file(path) for path in fs.files() if "queue" in path}


@pytest.mark.parametrize("clean", [True, False])
def test_both_kinds_of_queues_are_found_again(*, clean: bool) -> None:
    fs = MemoryFileSystem()
    store = new(fs)
    fill(store)
    if clean:
        store.close()
    else:
        store.abandon()
    before = snapshot(fs)
    again = new_store(fs, config=CONFIG)
    assert type(again.queues[T]) is type(store._batch_queue("B", 9))
    assert (again.min_offset(*T), again.max_offset(*T)) == (0, END)
    assert (texts(again), again.problems) == (ALL, [])
    assert again.put(batch("d0", "d1")).queue_offset == END
    assert all(snapshot(fs)[path][:46] == data[:46] for path, data in before.items())


@pytest.mark.parametrize("lost", ["batchconsumequeue", "batchconsumequeue/B/0/" + "0" * 20])
def test_queues_of_batches_are_made_again_from_the_log(lost: str) -> None:
    fs = MemoryFileSystem()
    store = new(fs)
    fill(store)
    store.put(batch("d0", "d1"))  # the queue's second file
    store.abandon()
    before = snapshot(fs)
    for path in fs.files():
        if path.startswith(lost):
            fs.remove(path)
    again = new_store(fs, config=CONFIG)
    assert texts(again) == [*ALL, "d0", "d1"]
    assert snapshot(fs) == before


def test_a_topic_that_began_with_single_messages_is_told_by_its_first_batch() -> None:
    fs = MemoryFileSystem()
    store = new(fs)
    store.put(message(0, "B"))
    store.put(message(1, "B"))
    store.put(batch("a0", "a1"))
    store.abandon()
    before = snapshot(fs)
    for path in fs.files():
        if path.startswith("batchconsumequeue"):
            fs.remove(path)
    again = new_store(fs, config=CONFIG)
    assert texts(again) == ["body 0", "body 1", "a0", "a1"]
    assert snapshot(fs) == before


def test_entries_that_the_kill_took_are_added_and_ghosts_dropped() -> None:
    fs = MemoryFileSystem()
    store = new(fs)
    fill(store)
    store.queues[T].drop_from(4)
    store.queues["T", 0].drop_from(3)
    store.abandon()
    again = new_store(fs, config=CONFIG, load=False)
    report = again.load()
    assert (report.entries_added, texts(again)) == (3, ALL)


def test_entries_of_batches_that_the_log_has_not_are_dropped() -> None:
    fs = MemoryFileSystem()
    store = new(fs)
    fill(store)
    place = store.queues[T].entry(6)
    assert place is not None
    store.abandon()
    fs.open_segment("commitlog/" + "0" * 20, 4096).write(place[0], bytes(4096 - place[0]))
    again = new_store(fs, config=CONFIG, load=False)
    assert again.load().entries_dropped == 4 + 1
    assert (texts(again), again.max_offset("T", 0)) == (ALL[:6], 3)


def test_a_torn_last_batch_is_cut_from_log_and_queue() -> None:
    fs = MemoryFileSystem()
    store = new(fs)
    fill(store)
    at = store.log.max_offset
    result = store.put(batch("d0", "d1", "d2"))
    store.abandon()
    fs.open_segment("commitlog/" + "0" * 20, 4096).write(at + result.size - 30, bytes(30))
    again = new_store(fs, config=CONFIG)
    assert (again.max_offset(*T), texts(again)) == (END, ALL)


def test_what_a_batch_counts_is_told_by_its_body_when_property_and_entry_disagree() -> None:
    fs = MemoryFileSystem()
    store = new(fs)
    fill(store)
    place = store.queues[T].entry(4)
    assert place is not None
    store.close()
    segment = fs.open_segment("commitlog/" + "0" * 20, 4096)
    record = segment.read(place[0], place[1])
    at = place[0] + record.index(b"INNER_NUM\1") + len(b"INNER_NUM\1")
    segment.write(at, b"3")
    again = new_store(fs, config=CONFIG)
    assert (texts(again), again.max_offset(*T)) == (ALL, END)
    again.queues[T].place(4, *place, stored_ms=HandClock().now_ms, count=1)
    segment.write(at, b"2")
    again.close()
    assert texts(new_store(fs, config=CONFIG)) == ALL


def test_a_damaged_batch_is_refused_or_left_out_whole() -> None:
    fs = MemoryFileSystem()
    store = new(fs)
    fill(store)
    place = store.queues[T].entry(4)
    assert place is not None
    store.close()
    segment = fs.open_segment("commitlog/" + "0" * 20, 4096)
    segment.write(place[0] + 100, bytes([segment.read(place[0] + 100, 1)[0] ^ 1]))
    with pytest.raises(StoreDamagedError, match="body CRC"):
        new_store(fs, config=CONFIG)
    again = new_store(fs, config={**CONFIG, "damagedRecords": "skip"})
    assert texts(again) == [*ALL[:4], *ALL[6:]]
    assert (again.max_offset(*T), firsts(again.get(*T, 4, 32))) == (END, [6])
    again.close()
    assert texts(new_store(fs, config=CONFIG)) == [*ALL[:4], *ALL[6:]]


@pytest.mark.parametrize("at", [2, 5, 8, 40])
def test_a_batch_whose_number_is_damaged_is_found_by_its_entry(at: int) -> None:
    fs = MemoryFileSystem()
    store = new(fs)
    fill(store)
    place = store.queues[T].entry(4)
    assert place is not None
    store.close()
    segment = fs.open_segment("commitlog/" + "0" * 20, 4096)
    segment.write(place[0] + 20, at.to_bytes(8))
    again = new_store(fs, config={**CONFIG, "damagedRecords": "skip"})
    found = texts(again)
    assert [one for one in found if one not in {"b0", "b1"}] == [*ALL[:4], *ALL[6:]]
    assert again.max_offset(*T) >= END


# -- age -----------------------------------------------------------------------------------------


def test_queues_of_batches_follow_the_log() -> None:
    fs = MemoryFileSystem()
    store = new(fs)
    count = 0
    while store.log.max_offset < 3 * 4096:
        store.put(batch(*(f"{count}-{number}" + "x" * 100 for number in range(5))))
        count += 1
    assert delete_before(store, 2 * 4096) == 2
    low = store.min_offset(*T)
    entry = store.queues[T].entry(low)
    assert entry is not None
    assert (entry[0], low % 5) == (2 * 4096, 0)
    assert len(store.queues[T].files.files) < count // 4
    assert store.get(*T, low - 1, 32).status is GetStatus.OFFSET_TOO_SMALL
    assert firsts(store.get(*T, low, 32))[0] == low
    store.close()
    again = new_store(fs, config=CONFIG)
    assert (again.min_offset(*T), again.max_offset(*T)) == (low, 5 * count)
    assert len(texts(again, begin=low)) == 5 * count - low

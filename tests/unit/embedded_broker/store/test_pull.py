from __future__ import annotations

from collections.abc import Mapping

import pytest
from attrs import field, frozen

from embedded_broker.core.filters import TagFilter
from embedded_broker.store.consume_queue import Entry
from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.pull import GetStatus, is_wanted
from rocketmq_py.protocol.message_codec import decode_records
from rocketmq_py.protocol.tag_hash import tags_code
from tests.unit.embedded_broker.store.store_tools import (
    HandClock,
    delete_before,
    message,
    new_store,
)

LARGE = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 20_000}


def _store(count: int, tags: str = "") -> MessageStore:
    store = new_store(config=LARGE)
    for number in range(count):
        assert store.put(message(number, TAGS=tags)).ok
    return store


def _status(
    store: MessageStore, offset: int, wanted: TagFilter | None = None
) -> tuple[str, int, int, int, int]:
    got = store.get("T", 0, offset, 32, wanted=wanted)
    return got.status.value, got.next_begin_offset, got.min_offset, got.max_offset, got.count


@pytest.mark.case("W53")
def test_messages_are_found_from_the_offset_on_up_to_the_number_asked() -> None:
    store = _store(10)
    got = store.get("T", 0, 0, 4)
    assert got.status is GetStatus.FOUND
    assert (got.next_begin_offset, got.min_offset, got.max_offset, got.count) == (4, 0, 10, 4)
    records = decode_records(b"".join(got.buffers))
    assert [record.queue_offset for record in records] == [0, 1, 2, 3]
    assert [record.body for record in records] == [f"body {n}".encode() for n in range(4)]


@pytest.mark.case("W54")
def test_an_offset_at_or_behind_the_end_is_told_apart() -> None:
    store = _store(10)
    assert _status(store, 10) == ("OFFSET_OVERFLOW_ONE", 10, 0, 10, 0)
    assert _status(store, 11) == ("OFFSET_OVERFLOW_BADLY", 10, 0, 10, 0)


@pytest.mark.case("W55")
def test_an_offset_before_the_first_message_leads_to_it() -> None:
    store = new_store()
    offsets = [store.put(message(number)).commit_log_offset for number in range(20)]
    assert delete_before(store, 1024) == 1
    first = next(number for number, offset in enumerate(offsets) if offset >= 1024)
    assert _status(store, 0) == ("OFFSET_TOO_SMALL", first, first, 20, 0)
    assert store.get("T", 0, first, 1).status is GetStatus.FOUND


@pytest.mark.case("W56")
def test_a_queue_without_messages_answers_offset_zero() -> None:
    store = _store(0)
    assert _status(store, 0) == ("NO_MESSAGE_IN_QUEUE", 0, 0, 0, 0)
    assert _status(store, 7) == ("NO_MESSAGE_IN_QUEUE", 0, 0, 0, 0)
    store.consume_queue("T", 0, create=True)
    assert _status(store, 7) == ("NO_MESSAGE_IN_QUEUE", 0, 0, 0, 0)


@pytest.mark.case("W57")
def test_messages_with_other_tags_are_passed_over() -> None:
    store = _store(10, "TagB")
    wanted = TagFilter(frozenset({tags_code("TagA")}))
    assert _status(store, 0, wanted=wanted) == ("NO_MATCHED_MESSAGE", 10, 0, 10, 0)
    store.put(message(10, TAGS="TagA"))
    got = store.get("T", 0, 0, 32, wanted=wanted)
    assert (got.status, got.next_begin_offset, got.count) == (GetStatus.FOUND, 11, 1)


@pytest.mark.case("W58")
def test_a_tag_with_the_same_hash_is_returned() -> None:
    store = _store(1, "Aa")
    got = store.get("T", 0, 0, 32, wanted=TagFilter(frozenset({tags_code("BB")})))
    assert got.status is GetStatus.FOUND
    assert decode_records(b"".join(got.buffers))[0].properties["TAGS"] == "Aa"


@frozen
class OddNumbers:
    """Messages with a tags code whose property N is odd; notes what it looked at."""

    codes: frozenset[int] | None
    seen: list[int] = field(factory=list)
    reads_properties = True
    steps = 0

    def accepts(self, _entry: Entry, properties: Mapping[str, str] | None) -> bool:
        assert properties is not None
        number = int(properties["N"])
        self.seen.append(number)
        return bool(number % 2)


def test_a_filter_reads_only_the_records_whose_entry_it_may_want() -> None:
    store = new_store(config=LARGE)
    for number in range(8):
        store.put(message(number, TAGS="A" if number < 4 else "B", N=str(number)))
    wanted = OddNumbers(frozenset({tags_code("B")}))
    got = store.get("T", 0, 0, 32, wanted=wanted)
    assert (got.status, got.next_begin_offset, got.count) == (GetStatus.FOUND, 8, 2)
    assert [one.queue_offset for one in decode_records(b"".join(got.buffers))] == [5, 7]
    assert wanted.seen == [4, 5, 6, 7]
    queue = store.consume_queue("T", 0)
    assert queue is not None
    entries = [entry for _, entry in queue.iterate(0)]
    assert [is_wanted(wanted, entry, store.log) for entry in entries] == [False] * 5 + [
        True,
        False,
        True,
    ]
    assert wanted.seen == [4, 5, 6, 7] * 2


def test_a_pull_ends_at_32_messages_or_at_the_bytes_but_not_below_one() -> None:
    store = _store(100)
    assert store.get("T", 0, 0, 1000).count == 32
    size = store.get("T", 0, 0, 1).buffers[0].nbytes
    assert store.get("T", 0, 0, 32, max_bytes=3 * size + 5).count == 3
    assert store.get("T", 0, 0, 32, max_bytes=1).count == 1
    assert store.get("T", 0, 0, 0).count == 1
    store.config.update(maxTransferCountOnMessageInMemory=5)
    assert store.get("T", 0, 0, 32).count == 5
    store.config.update(
        maxTransferCountOnMessageInMemory=32, maxTransferBytesOnMessageInMemory=2 * size
    )
    assert store.get("T", 0, 0, 32).count == 2
    assert store.get("T", 0, 0, 32, max_bytes=9 * size).count == 2


def test_messages_that_lie_among_others_are_given_in_runs() -> None:
    store = _store(3)
    for number in (3, 4):
        store.put(message(number, topic="Other"))
        store.put(message(number))
        store.put(message(number + 10))
    got = store.get("T", 0, 1, 5)
    assert (got.next_begin_offset, got.count, len(got.buffers)) == (6, 5, 3)
    records = decode_records(b"".join(got.buffers))
    assert [record.queue_offset for record in records] == [1, 2, 3, 4, 5]


def test_800_entries_are_looked_at_when_few_match() -> None:
    store = _store(900, "TagB")
    wanted = TagFilter(frozenset({tags_code("TagA")}))
    assert _status(store, 5, wanted=wanted)[1] == 805
    assert store.get("T", 0, 0, 850, wanted=wanted).next_begin_offset == 850


def test_a_pull_walks_one_file_of_the_queue() -> None:
    store = new_store(config={"mappedFileSizeCommitLog": 1 << 20})  # five entries per queue file
    for number in range(12):
        store.put(message(number))
    got = store.get("T", 0, 3, 32)
    assert (got.next_begin_offset, got.count) == (5, 2)
    assert store.get("T", 0, 5, 32).count == 5


def test_neighbours_in_the_log_share_a_buffer() -> None:
    store = _store(3)
    store.put(message(3, "Other"))
    store.put(message(4))
    got = store.get("T", 0, 0, 32)
    assert (got.count, len(got.buffers)) == (4, 2)
    assert len(decode_records(b"".join(got.buffers))) == 4


def test_entries_of_messages_that_are_gone_are_passed_over() -> None:
    store = _store(3)
    queue = store.consume_queue("T", 0)
    assert queue is not None
    queue.append([(1 << 40, 100, 0)])
    assert _status(store, 3) == ("MESSAGE_WAS_REMOVING", 4, 0, 4, 0)
    assert _status(store, 2) == ("FOUND", 4, 0, 4, 1)


def _store_at(*times_ms: int) -> MessageStore:
    """A store with a message of each of these times."""
    clock = HandClock()
    store = new_store(clock=clock, config=LARGE)
    for clock.now_ms in times_ms:
        store.put(message(clock.now_ms))
    return store


@pytest.mark.case("W74")
def test_a_time_between_two_messages_is_searched_in_three_ways() -> None:
    store = _store_at(10, 20, 30)
    for timestamp, nearest, lower, upper in (
        (24, 1, 2, 1),
        (25, 1, 2, 1),  # the earlier of two equally near ones
        (26, 2, 2, 1),
        (20, 1, 1, 1),
        (30, 2, 2, 2),
        (1, 0, 0, 0),
    ):
        found = [
            store.search_offset("T", 0, timestamp, boundary)
            for boundary in ("NEAREST", "LOWER", "UPPER")
        ]
        assert found == [nearest, lower, upper], timestamp


@pytest.mark.case("W75")
def test_a_time_behind_the_last_message_is_the_last_one_or_the_end() -> None:
    store = _store_at(10, 20, 30)
    assert store.search_offset("T", 0, 99, "NEAREST") == 2
    assert store.search_offset("T", 0, 99, "LOWER") == 3
    assert store.search_offset("T", 0, 99, "UPPER") == 2


@pytest.mark.case("W76")
def test_an_unknown_queue_has_no_bounds_and_no_times() -> None:
    store = _store(0)
    assert (store.max_offset("T", 0), store.min_offset("T", 0)) == (0, 0)
    assert store.earliest_store_time("T", 0) == -1
    for boundary in ("NEAREST", "LOWER", "UPPER"):
        assert store.search_offset("T", 0, 5, boundary) == 0
    store.consume_queue("T", 0, create=True)
    assert store.earliest_store_time("T", 0) == -1
    assert store.search_offset("T", 0, 5, "NEAREST") == 0


def test_equal_times_give_the_first_or_the_last_of_them() -> None:
    store = _store_at(*[50] * 5)
    assert store.search_offset("T", 0, 50, "LOWER") == 0
    assert store.search_offset("T", 0, 50, "UPPER") == 4
    assert store.search_offset("T", 0, 50, "NEAREST") == 0

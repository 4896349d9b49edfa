from __future__ import annotations

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.batch_queue import BATCH_ENTRY_SIZE, BatchConsumeQueue, batch_queue_of
from embedded_broker.store.consume_queue import BLANK_SIZE, ConsumeQueue
from embedded_broker.store.memory_fs import MemoryFileSystem
from tests.unit.embedded_broker.store.store_tools import FullDisk, removed

FILE = 4 * BATCH_ENTRY_SIZE
COUNTS = (3, 2, 1, 4, 1, 5)
"""Messages of the batches of a filled queue: they begin at 0, 3, 5, 6, 10 and 11."""
FIRSTS = (0, 3, 5, 6, 10, 11)
END = 16


def _queue(fs: MemoryFileSystem | None = None) -> BatchConsumeQueue:
    return BatchConsumeQueue(fs or MemoryFileSystem(), "T", 3, FILE)


def _filled(fs: MemoryFileSystem | None = None) -> BatchConsumeQueue:
    queue = _queue(fs)
    for number, count in enumerate(COUNTS):
        queue.append([(number * 1000, 100 + number, -number)], 7000 + number, count)
    return queue


def _loaded(fs: MemoryFileSystem) -> BatchConsumeQueue:
    queue = _queue(fs)
    queue.load()
    return queue


def _entry(number: int) -> tuple[int, int, int]:
    return number * 1000, 100 + number, -number


def test_entries_have_46_bytes_in_files_below_topic_and_queue() -> None:
    fs = MemoryFileSystem()
    queue = _queue(fs)
    queue.append([(1, 2, 3)], 4, 5)
    queue.append([(0x0102030405060708, 0x11121314, -2)], 0x2122232425262728, 0x3132)
    raw = fs.read_file("batchconsumequeue/T/3/00000000000000000000")
    assert raw[46:92].hex() == (
        "0102030405060708"
        "11121314"
        "fffffffffffffffe"
        "2122232425262728"
        "0000000000000005"
        "3132"
        "ffffffff"
        "00000000"
    )


def test_a_message_that_comes_alone_is_a_batch_of_one() -> None:
    queue = _filled()
    assert queue.append([_entry(6), _entry(7)], 7006) == END
    assert queue.max_offset == END + 2
    assert list(queue.file_batches(END)) == [(END, 1, _entry(6)), (END + 1, 1, _entry(7))]


def test_every_offset_of_a_batch_finds_its_entry() -> None:
    queue = _filled()
    found = [queue.entry(offset) for offset in range(END)]
    expected = [_entry(number) for number, count in enumerate(COUNTS) for _ in range(count)]
    assert found == expected
    assert (queue.entry(-1), queue.entry(END)) == (None, None)
    assert [queue.begin_of(offset) for offset in (0, 2, 3, 9, 15)] == [0, 0, 3, 6, 11]
    assert [queue.end_of(offset) for offset in (0, 3, 5, 6, 11)] == [3, 5, 6, 10, 16]


def test_a_walk_begins_with_the_batch_that_holds_the_offset_and_ends_with_its_file() -> None:
    queue = _filled()
    assert [first for first, _, _ in queue.file_batches(4)] == [3, 5, 6]
    assert [first for first, _, _ in queue.file_batches(12)] == [11]
    assert list(queue.file_batches(END)) == []
    assert [first for first, _ in queue.iterate(4)] == [3, 5, 6, 10, 11]
    assert [first for first, _ in queue.iterate(0, 6)] == [0, 3, 5]


def test_single_entries_cannot_be_asked_for() -> None:
    queue = _filled()
    with pytest.raises(StoreError, match="holds batches"):
        queue.file_entries(0)
    assert queue.places_from(0, 1) == ()


@pytest.mark.parametrize("batches", range(len(COUNTS) + 1))
def test_a_reopened_queue_ends_behind_its_last_batch(batches: int) -> None:
    fs = MemoryFileSystem()
    queue = _queue(fs)
    for number, count in enumerate(COUNTS[:batches]):
        queue.append([_entry(number)], 7000 + number, count)
    again = _loaded(fs)
    assert (again.min_offset, again.max_offset) == (0, sum(COUNTS[:batches]))
    again.append([_entry(9)], 7009, 2)
    assert again.entry(sum(COUNTS[:batches]) + 1) == _entry(9)


@pytest.mark.parametrize("kept", [8, 20, 37, 45])
def test_a_torn_entry_is_none(kept: int) -> None:
    fs = MemoryFileSystem()
    queue = _filled(fs)
    last = (len(COUNTS) - 1) * BATCH_ENTRY_SIZE
    whole = kept >= 38  # what follows the number of messages says nothing
    queue.files.write(last + kept, bytes(BATCH_ENTRY_SIZE - kept))
    again = _loaded(fs)
    assert again.max_offset == (END if whole else FIRSTS[-1])
    path = "batchconsumequeue/T/3/" + f"{FILE:020d}"
    behind = BATCH_ENTRY_SIZE * (2 if whole else 1)
    assert fs.read_file(path)[behind:] == bytes(FILE - behind)


def test_a_queue_of_somebody_else_is_looked_at_but_not_changed() -> None:
    fs = MemoryFileSystem()
    _filled(fs).files.write(5 * BATCH_ENTRY_SIZE + 37, b"\0")
    before = fs.read_file("batchconsumequeue/T/3/" + f"{FILE:020d}")
    queue = _queue(fs)
    queue.look(1500)
    assert (queue.min_offset, queue.max_offset) == (5, 11)
    assert fs.read_file("batchconsumequeue/T/3/" + f"{FILE:020d}") == before


def test_the_minimum_is_the_first_message_of_a_batch_that_is_still_there() -> None:
    fs = MemoryFileSystem()
    queue = _filled(fs)
    assert not removed(queue.follow(2001))
    assert (queue.min_offset, queue.first_offset) == (6, 0)
    assert removed(queue.follow(4000))
    assert (queue.min_offset, queue.first_offset, queue.max_offset) == (10, 10, END)
    assert (queue.entry(9), queue.entry(10)) == (None, _entry(4))
    assert not removed(queue.follow(99_000))
    assert queue.min_offset == queue.max_offset == END
    again = _loaded(fs)
    assert (again.first_offset, again.max_offset) == (10, END)


def test_batches_are_dropped_from_an_offset_on_but_never_cut() -> None:
    queue = _filled()
    assert queue.drop_from(12) == 0
    assert queue.drop_from(END) == 0
    assert queue.drop_from(7) == 6
    assert (queue.max_offset, queue.entry(9)) == (10, _entry(3))
    assert queue.drop_from(5) == 5
    assert queue.max_offset == 5
    assert queue.drop_from(0) == 5
    assert (queue.max_offset, queue.entry(0)) == (0, None)


def test_ghosts_at_the_end_are_counted_and_trimmed() -> None:
    queue = _filled()
    assert queue.behind(4000) == 6
    assert queue.trim(lambda entry: entry[0] < 4000) == 6
    assert queue.max_offset == 10


def test_an_entry_is_placed_only_where_it_is_missing_or_wrong() -> None:
    queue = _filled()
    assert not queue.place(6, *_entry(3), stored_ms=7003, count=4)
    assert queue.place(6, *_entry(3), stored_ms=1, count=4)
    assert queue.agrees(6, 1, 4)
    assert not queue.agrees(7, 1, 4)
    assert queue.max_offset == END
    assert queue.place(END, 9000, 9, 9, stored_ms=7009, count=2)
    assert (queue.max_offset, queue.entry(END + 1)) == (END + 2, (9000, 9, 9))


@pytest.mark.parametrize(("at", "count"), [(6, 3), (8, 1), (5, 2)])
def test_entries_that_overlap_make_way_for_the_log(at: int, count: int) -> None:
    """What follows in the log is placed again behind them."""
    queue = _filled()
    assert queue.fits(6, 4)
    assert not queue.fits(at, count)
    queue.place(at, 9000, 9, 9, stored_ms=7009, count=count)
    assert queue.max_offset == at + count
    assert queue.entry(at) == (9000, 9, 9)


def test_a_blank_batch_keeps_its_offsets() -> None:
    fs = MemoryFileSystem()
    queue = _filled(fs)
    assert queue.blank_out(3000, 4000) == [6]
    assert [queue.entry(offset) for offset in (5, 6, 9)] == [_entry(2), None, None]
    assert queue.end_of(6) == 10
    assert [first for first, _ in queue.iterate(0)] == [0, 3, 5, 10, 11]
    assert (6, 4, (0, BLANK_SIZE, 0)) in list(queue.file_batches(5))
    assert _loaded(fs).max_offset == END
    assert not queue.is_blank


def test_offsets_that_no_batch_has_are_a_gap() -> None:
    queue = _filled()
    queue.place(20, *_entry(8), stored_ms=7008, count=2)
    assert [queue.entry(offset) for offset in (15, 16, 19, 20)] == [
        _entry(5),
        None,
        None,
        _entry(8),
    ]
    assert [first for first, _, _ in queue.file_batches(17)] == [20]
    assert queue.first_from(5001) == 20
    assert (queue.begin_of(17), queue.end_of(17)) == (17, 18)


def test_appends_are_taken_back() -> None:
    disk = FullDisk()
    queue = _filled(disk)
    disk.left = 1
    with pytest.raises(StoreError, match="no space"):
        queue.append([_entry(6), _entry(7)], 7006)
    disk.left = None
    queue.take_back(END)
    assert (queue.max_offset, queue.entry(END)) == (END, None)
    queue.append([_entry(8)], 7008, 3)
    assert _loaded(disk).entry(END + 2) == _entry(8)


def test_a_file_that_is_missing_between_others_ends_the_queue() -> None:
    fs = MemoryFileSystem()
    queue = _filled(fs)
    for number in range(6, 10):
        queue.append([_entry(number)], 7000 + number, 1)
    fs.remove("batchconsumequeue/T/3/" + f"{FILE:020d}")
    again = _queue(fs)
    assert not again.load()
    assert again.max_offset == 10


def test_a_queue_of_single_messages_becomes_one_of_batches() -> None:
    fs = MemoryFileSystem()
    plain = ConsumeQueue(fs, "T", 3, 100)
    plain.append([_entry(number) for number in range(7)])
    queue = batch_queue_of(plain, FILE, lambda at: at + 1)
    assert fs.list("consumequeue/T/3") == []
    assert [queue.entry(offset) for offset in range(7)] == [_entry(number) for number in range(7)]
    assert queue.agrees(6, 6001, 1)

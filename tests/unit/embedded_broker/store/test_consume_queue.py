from __future__ import annotations

from embedded_broker.store.consume_queue import ConsumeQueue
from embedded_broker.store.memory_fs import MemoryFileSystem
from tests.unit.embedded_broker.store.store_tools import removed

FILE = 100  # five entries


def _queue(fs: MemoryFileSystem | None = None) -> ConsumeQueue:
    return ConsumeQueue(fs or MemoryFileSystem(), "T", 3, FILE)


def _filled(fs: MemoryFileSystem, count: int) -> ConsumeQueue:
    queue = _queue(fs)
    for number in range(count):
        assert queue.append([(number * 1000, 100 + number, -number)]) == number
    return queue


def test_entries_have_twenty_bytes_in_files_below_topic_and_queue() -> None:
    fs = MemoryFileSystem()
    queue = _queue(fs)
    queue.append([(0x0102030405060708, 0x11121314, -2)])
    raw = fs.read_file("consumequeue/T/3/00000000000000000000")
    assert raw[:20].hex() == "010203040506070811121314fffffffffffffffe"
    assert repr(queue) == "<ConsumeQueue T/3 0..1>"


def test_entries_are_read_by_number_and_over_files() -> None:
    queue = _filled(MemoryFileSystem(), 12)
    assert queue.entry(7) == (7000, 107, -7)
    assert queue.entry(12) is None
    assert queue.entry(-1) is None
    assert [number for number, _ in queue.iterate(3)] == list(range(3, 12))
    assert list(queue.iterate(3, 5)) == [(3, (3000, 103, -3)), (4, (4000, 104, -4))]
    assert [entry[0] for entry in queue.file_entries(7)] == [7000, 8000, 9000]


def test_a_reopened_queue_ends_at_the_first_entry_without_a_size() -> None:
    fs = MemoryFileSystem()
    for count in (0, 1, 4, 5, 6, 15, 19):
        fs = MemoryFileSystem()
        _filled(fs, count)
        queue = _queue(fs)
        queue.load()
        assert (queue.min_offset, queue.max_offset) == (0, count)
        assert queue.append([(1, 2, 3)]) == count


def test_garbage_behind_a_hole_is_zeroed_on_load() -> None:
    fs = MemoryFileSystem()
    queue = _filled(fs, 9)
    queue.files.write(7 * 20, bytes(20))
    again = _queue(fs)
    again.load()
    assert again.max_offset == 7
    assert fs.read_file("consumequeue/T/3/00000000000000000100")[40:] == bytes(60)


def test_placing_an_entry_writes_only_what_is_wrong() -> None:
    queue = _filled(MemoryFileSystem(), 3)
    assert not queue.place(1, 1000, 101, -1)
    assert queue.place(1, 1000, 101, 9)
    assert queue.entry(1) == (1000, 101, 9)
    assert queue.place(3, 3000, 103, 0)
    assert queue.max_offset == 4


def test_a_first_entry_that_is_not_number_zero_has_blanks_before_it() -> None:
    fs = MemoryFileSystem()
    queue = _queue(fs)
    assert queue.place(7, 9000, 50, 1)
    assert fs.list("consumequeue/T/3") == ["00000000000000000100"]
    assert queue.max_offset == 8
    assert queue.entry(6) is None
    raw = fs.read_file("consumequeue/T/3/00000000000000000100")
    assert raw[:20].hex() == "00000000000000007fffffff0000000000000000"
    removed(queue.follow(9000))
    assert queue.min_offset == 7
    assert list(queue.iterate(0)) == [(7, (9000, 50, 1))]
    again = _queue(fs)
    again.load()
    assert (again.max_offset, again.entry(7)) == (8, (9000, 50, 1))


def test_files_behind_a_hole_are_dropped_and_told() -> None:
    fs = MemoryFileSystem()
    _filled(fs, 15)
    fs.remove("consumequeue/T/3/00000000000000000100")
    queue = _queue(fs)
    assert not queue.load()
    assert (queue.max_offset, fs.list("consumequeue/T/3")) == (5, ["00000000000000000000"])


def test_a_cleared_queue_is_a_new_one() -> None:
    fs = MemoryFileSystem()
    queue = _filled(fs, 12)
    queue.clear()
    assert fs.list("consumequeue/T/3") == []
    assert queue.append([(1, 2, 3)]) == 0


def test_the_minimum_moves_to_the_first_message_that_is_left() -> None:
    fs = MemoryFileSystem()
    queue = _filled(fs, 12)
    removed(queue.follow(6500))
    assert queue.min_offset == 7
    assert fs.list("consumequeue/T/3") == ["00000000000000000100", "00000000000000000200"]
    assert queue.entry(3) is None
    removed(queue.follow(1_000_000))
    assert queue.min_offset == queue.max_offset == 12


def test_ghosts_are_trimmed_from_the_end() -> None:
    queue = _filled(MemoryFileSystem(), 12)
    assert queue.trim(lambda entry: entry[0] < 4000) == 8
    assert queue.max_offset == 4
    assert queue.drop_from(9) == 0
    assert queue.drop_from(0) == 4
    assert queue.append([(5, 6, 7)]) == 0


def test_appends_can_be_taken_back() -> None:
    queue = _filled(MemoryFileSystem(), 7)
    queue.take_back(3)
    assert queue.max_offset == 3
    assert queue.append([(1, 1, 1)]) == 3
    assert queue.entry(4) is None


def test_many_entries_are_added_over_files_as_one_by_one() -> None:
    one_by_one, together = MemoryFileSystem(), MemoryFileSystem()
    _filled(one_by_one, 13)
    queue = _filled(together, 2)
    queue.append([(number * 1000, 100 + number, -number) for number in range(2, 13)])
    assert queue.max_offset == 13
    for name in one_by_one.files():
        assert together.read_file(name) == one_by_one.read_file(name)


def test_entries_behind_the_last_byte_that_was_written_are_shown_whole() -> None:
    """A power loss leaves a file whose end was never written, even in the middle of an entry."""
    fs = MemoryFileSystem()
    queue = ConsumeQueue(fs, "T", 0, 100)
    queue.append([(number * 10, 10, 0) for number in range(5)])
    for _, segment in queue.files.files:
        segment.sync()
    queue.append([(50, 10, 0)])
    first = fs.open_segment("consumequeue/T/0/00000000000000000000", 100)
    first._end = 70
    assert [number for number, _ in queue.iterate(0)] == [0, 1, 2, 3, 4, 5]
    assert len(list(queue.file_entries(0))) == 5

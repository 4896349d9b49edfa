from __future__ import annotations

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.mapped_file import MappedFileQueue, zero_tail
from embedded_broker.store.memory_fs import MemoryFileSystem
from tests.unit.embedded_broker.store.store_tools import FullDisk, removed


def _queue(fs: MemoryFileSystem | None = None, size: int = 100) -> MappedFileQueue:
    return MappedFileQueue(fs or MemoryFileSystem(), "log", size)


def _filled(fs: MemoryFileSystem, total: int) -> MappedFileQueue:
    queue = _queue(fs)
    while queue.max_offset < total:
        queue.append(bytes([queue.max_offset // 10 % 250 + 1]) * 10)
    return queue


def test_files_are_named_by_their_offset_in_twenty_digits() -> None:
    fs = MemoryFileSystem()
    _filled(fs, 210)
    assert fs.list("log") == [
        "00000000000000000000",
        "00000000000000000100",
        "00000000000000000200",
    ]


def test_bytes_are_read_back_inside_one_file_only() -> None:
    queue = _filled(MemoryFileSystem(), 210)
    assert bytes(queue.read(100, 10) or b"") == bytes([11]) * 10
    assert bytes(queue.read(200, 10) or b"") == bytes([21]) * 10
    assert queue.read(95, 10) is None
    assert queue.read(205, 10) is None
    assert queue.read(-10, 10) is None
    assert queue.read(0, -1) is None
    assert len(queue.read_file_from(150)) == 50
    assert len(queue.read_file_from(205)) == 5
    assert len(queue.read_file_from(210)) == 0


def test_chunks_go_through_a_range_file_by_file() -> None:
    queue = _filled(MemoryFileSystem(), 250)
    parts = [(at, len(part)) for at, part in queue.chunks(50, 230)]
    assert parts == [(50, 50), (100, 100), (200, 30)]
    assert list(queue.chunks(250, 300)) == []


def test_an_append_must_fit_in_the_room_that_is_left() -> None:
    queue = _filled(MemoryFileSystem(), 90)
    assert queue.room == 10
    with pytest.raises(StoreError, match="11 bytes do not fit behind 90"):
        queue.append(bytes(11))
    queue.skip_to_next_file()
    assert queue.append(b"next") == 100
    queue.append(bytes(96))
    queue.skip_to_next_file()
    assert queue.max_offset == 200


def test_an_existing_queue_loads_with_every_file() -> None:
    fs = MemoryFileSystem()
    _filled(fs, 210)
    queue = _queue(fs)
    queue.load()
    assert (queue.min_offset, queue.max_offset) == (0, 300)
    assert queue.truncate_to(210) == 0
    assert queue.append(b"more") == 210


def test_a_gap_a_foreign_name_and_another_length_are_errors() -> None:
    fs = MemoryFileSystem()
    fs.open_segment("log/00000000000000000000", 100)
    fs.open_segment("log/00000000000000000200", 100)
    with pytest.raises(StoreError, match="is missing, though there is"):
        _queue(fs).load()
    fs = MemoryFileSystem()
    fs.write_file("log/notes.txt", b"x")
    with pytest.raises(StoreError, match="20 digits"):
        _queue(fs).load()
    fs = MemoryFileSystem()
    fs.open_segment("log/00000000000000000000", 99)
    with pytest.raises(StoreError, match="length of 99 instead of 100"):
        _queue(fs).load()


def test_an_empty_last_file_is_removed_on_load() -> None:
    fs = MemoryFileSystem()
    _filled(fs, 50)
    fs.write_file("log/00000000000000000100", b"")
    queue = _queue(fs)
    queue.load()
    assert fs.list("log") == ["00000000000000000000"]


def test_truncating_removes_later_files_and_zeroes_the_tail() -> None:
    fs = MemoryFileSystem()
    queue = _filled(fs, 250)
    assert queue.truncate_to(130) == 120
    assert fs.list("log") == ["00000000000000000000", "00000000000000000100"]
    assert queue.max_offset == queue.flushed_offset == 130
    assert queue.append(b"x" * 10) == 130
    queue.append(b"y")
    assert bytes(queue.read_file_from(100)) == b"\x0b" * 10 + b"\x0c" * 10 + b"\x0d" * 10 + (
        b"x" * 10 + b"y"
    )
    assert queue.files[-1][1].view(41, 59) == bytes(59)


def test_truncating_at_a_file_border_and_to_nothing_leaves_a_usable_queue() -> None:
    fs = MemoryFileSystem()
    queue = _filled(fs, 250)
    assert queue.truncate_to(100) == 150
    assert queue.append(b"again") == 100
    assert queue.truncate_to(0) == 105
    assert queue.append(b"zero") == 0
    assert _queue(MemoryFileSystem()).truncate_to(0) == 0


def test_old_files_are_deleted_but_never_the_newest() -> None:
    fs = MemoryFileSystem()
    queue = _filled(fs, 250)
    assert removed(queue.let_go_before(199))
    assert queue.min_offset == 100
    assert queue.read(50, 10) is None
    assert bytes(queue.read(100, 1) or b"") == b"\x0b"
    assert removed(queue.let_go_before(10_000))
    assert not removed(queue.let_go_before(10_000))
    assert fs.list("log") == ["00000000000000000200"]


def test_a_queue_can_begin_at_a_later_offset() -> None:
    fs = MemoryFileSystem()
    queue = _queue(fs)
    queue.start_at(250)
    assert queue.append(b"abc") == 250
    assert fs.list("log") == ["00000000000000000200"]
    assert bytes(queue.read(250, 3) or b"") == b"abc"
    with pytest.raises(StoreError, match="cannot start"):
        queue.start_at(0)


def test_a_plan_syncs_what_was_written_since_the_last_one() -> None:
    fs = FullDisk()
    queue = _filled(fs, 210)
    plan = queue.plan_sync()
    assert plan is not None
    queue.append(b"later")
    plan.run()
    assert fs.syncs == [f"log/{n:020d}" for n in (0, 100, 200)]
    assert queue.flushed_offset == 210
    plan = queue.plan_sync()
    assert plan is not None
    plan.run()
    assert fs.syncs[3:] == ["log/00000000000000000200"]
    assert queue.plan_sync() is None
    queue.write(10, b"x")
    queue.forget_synced(10)
    plan = queue.plan_sync()
    assert plan is not None
    assert len(plan.segments) == 3


def test_a_refused_write_moves_nothing() -> None:
    fs = FullDisk()
    queue = _filled(fs, 50)
    fs.left = 0
    with pytest.raises(StoreError, match="no space"):
        queue.append(b"x")
    assert queue.max_offset == 50
    fs.left = None
    assert queue.append(b"y") == 50


def test_appends_can_be_taken_back_also_over_a_file_border() -> None:
    queue = _filled(MemoryFileSystem(), 180)
    queue.take_back(150)
    assert queue.max_offset == 150
    assert queue.files[-1][1].view(50, 50) == bytes(50)
    queue.take_back(90)
    assert queue.append(b"x") == 90


def test_overwriting_outside_of_the_files_is_an_error() -> None:
    queue = _filled(MemoryFileSystem(), 150)
    queue.write(5, b"new")
    assert bytes(queue.read(5, 3) or b"") == b"new"
    with pytest.raises(StoreError, match="outside"):
        queue.write(500, b"x")


def test_the_end_of_the_data_skips_empty_files() -> None:
    fs = MemoryFileSystem()
    queue = _filled(fs, 120)
    fs.open_segment("log/00000000000000000200", 100)
    again = _queue(fs)
    again.load()
    assert again.data_end() == queue.data_end() == 120
    assert _queue().data_end() == 0


def test_a_zeroed_tail_tells_how_much_was_used() -> None:
    segment = MemoryFileSystem().open_segment("a", 300_000)
    segment.write(100, b"x")
    segment.write(200_000, b"y\0\0")
    assert zero_tail(segment, 100) == 199_901
    assert segment.view(0, 300_000) == bytes(300_000)
    assert zero_tail(segment, 0) == 0


def test_closing_gives_the_handles_back() -> None:
    queue = _filled(MemoryFileSystem(), 50)
    queue.close()
    assert queue.files == []

from __future__ import annotations

from embedded_broker.store.index_file import IndexFile, IndexShape, index_hash
from embedded_broker.store.memory_fs import MemoryFileSystem


def _file(slots: int = 4, entries: int = 10) -> IndexFile:
    shape = IndexShape(slots, entries)
    return IndexFile(MemoryFileSystem().open_segment("index/a", shape.file_size), shape)


def test_the_shape_follows_from_slots_and_entries() -> None:
    assert IndexShape(50_000, 200_000).file_size == 4_200_040
    assert repr(IndexShape(1, 2)) == "IndexShape(slots=1, entries=2)"


def test_a_hash_is_made_positive_and_the_smallest_one_zero() -> None:
    assert [index_hash(one) for one in (7, -7, -(2**31))] == [7, 7, 0]


def test_the_first_entry_is_number_one_and_the_bytes_are_the_originals() -> None:
    one = _file()
    one.put(6, 4096, 1_700_000_000_000)
    one.put(10, 8192, 1_700_000_002_500)
    one.write_header()
    raw = bytes(one.segment.view(0, one.shape.file_size))
    assert raw[:40].hex() == (
        "0000018bcfe568000000018bcfe571c4"  # store times of the first and last message
        "00000000000010000000000000002000"  # their offsets
        "0000000100000003"  # used slots, next entry
    )
    assert raw[40 + 4 * 2 : 44 + 4 * 2].hex() == "00000002"
    assert raw[56 : 56 + 20] == bytes(20)
    assert raw[76:96].hex() == "0000000600000000000010000000000000000000"
    assert raw[96:116].hex() == "0000000a00000000000020000000000200000001"


def test_entries_are_found_newest_first_by_hash_and_time() -> None:
    one = _file()
    for number in range(5):
        one.put(4 * (number % 2), number, 10_000 + number * 1000)
    assert list(one.find(0, 0, 1 << 62)) == [4, 2, 0]
    assert list(one.find(4, 0, 1 << 62)) == [3, 1]
    assert list(one.find(8, 0, 1 << 62)) == []
    assert list(one.find(0, 12_500, 14_000)) == [4, 2]  # whole seconds
    assert list(one.find(0, 0, 11_999)) == [0]


def test_a_file_tells_whether_a_time_range_may_be_in_it() -> None:
    one = _file()
    one.put(1, 1, 10_000)
    one.put(1, 2, 20_000)
    assert one.overlaps(0, 1 << 62)
    assert one.overlaps(15_000, 16_000)
    assert one.overlaps(20_500, 30_000)
    assert not one.overlaps(21_001, 30_000)
    assert not one.overlaps(0, 9_999)


def test_a_file_is_full_one_entry_before_its_number_of_entries() -> None:
    one = _file(entries=3)
    one.put(1, 1, 1)
    assert not one.is_full
    one.put(1, 2, 1)
    assert one.is_full


def test_a_message_older_than_the_first_counts_as_of_its_time() -> None:
    one = _file()
    one.put(1, 1, 50_000)
    one.put(1, 2, 10_000)
    assert list(one.find(1, 0, 1 << 62)) == [2, 1]
    one.write_header()
    assert one.overlaps(50_000, 50_000)


def test_what_the_header_does_not_count_is_not_there() -> None:
    one = _file()
    one.put(1, 1, 1)
    one.write_header()
    one.put(1, 2, 1)
    again = IndexFile(one.segment, one.shape)
    assert again.next_number == 2
    assert list(again.find(1, 0, 10)) == []
    again.put(1, 3, 1)
    assert list(again.find(1, 0, 10)) == [3]


def test_a_chain_that_runs_in_a_circle_ends() -> None:
    one = _file()
    one.put(1, 1, 1)
    one.put(1, 2, 1)
    one.segment.write(one.shape.entry_at(1) + 16, (2).to_bytes(4))
    assert list(one.find(1, 0, 10)) == [2, 1]


def test_a_shape_is_told_from_the_first_entries() -> None:
    one = _file(slots=40, entries=160)
    for number in range(5):
        one.put(1000 + number, number, 1)
    one.write_header()
    assert one.shape.agrees_with(one.segment)
    other = IndexShape(45, 159)
    assert other.file_size == one.shape.file_size
    assert not other.agrees_with(one.segment)
    assert not IndexShape(1, 1).agrees_with(one.segment)

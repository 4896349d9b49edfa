from __future__ import annotations

import pytest

from embedded_broker.errors import StoreDamagedError, StoreError
from embedded_broker.store import recovery
from embedded_broker.store.damaged_folder import DAMAGED_FOLDER
from embedded_broker.store.fault_points import DiskFault
from embedded_broker.store.memory_fs import MemoryFileSystem, MemorySegment
from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.put_values import PutStatus
from rocketmq_py.protocol.message_codec import decode_records
from tests.unit.embedded_broker.store.store_tools import HandClock, message, new_store

COUNT = 40
FILE = 1024
SKIP = {"damagedRecords": "skip"}


def _filled(fs: MemoryFileSystem, *, clean: bool, count: int = COUNT) -> list[tuple[int, int]]:
    """Store messages in two queues; give offset and size of each record."""
    clock = HandClock()
    store = new_store(fs, clock)
    puts = []
    for number in range(count):
        puts.append(store.put(message(number, queue_id=number % 2)))
        clock.now_ms += 1000
    if clean:
        store.close()
    else:
        store.begin_flush().run()
        store.abandon()
    return [(one.commit_log_offset, one.size) for one in puts]


def _flip(fs: MemoryFileSystem, at: int, mask: int = 1) -> None:
    segment = fs.open_segment(f"commitlog/{at - at % FILE:020d}", FILE)
    segment.write(at % FILE, bytes([segment.view(at % FILE, 1)[0] ^ mask]))


def _contents(fs: MemoryFileSystem) -> dict[str, bytes]:
    names = (*fs.files(),)
    return {one: fs.read_file(one) for one in names if one.startswith("commitlog/")}


def _pulled(store: MessageStore, queue_id: int) -> list[str]:
    """Read a queue as a consumer does, from its begin to its end."""
    found: list[str] = []
    at = store.min_offset("T", queue_id)
    while at < store.max_offset("T", queue_id):
        got = store.get("T", queue_id, at, 32)
        assert got.next_begin_offset > at
        at = got.next_begin_offset
        found += [one.body.decode() for one in decode_records(b"".join(got.buffers))]
    return found


def _without(*numbers: int) -> list[list[str]]:
    left = [number for number in range(COUNT) if number not in numbers]
    return [[f"body {one}" for one in left if one % 2 == queue] for queue in (0, 1)]


_FIELDS = {
    "size": 3,
    "magic": 5,
    "crc": 9,
    "queue": 15,
    "queue offset": 27,
    "own offset": 30,
    "transaction": 39,
    "body length": 87,
    "body": 90,
    "topic length": -27,
    "topic": -26,
    "properties length": -24,
    "properties end": -1,
}
"""Where to flip in a record, from its begin or its end, which is `1 T 2 UNIQ_KEY 1 ID0000 2`."""
_MASKS = {"transaction": 4, "properties end": 2}
_PLACES = ["first", "second", "last of a file", "first of a file", "middle", "before the last"]


def _damage(fs: MemoryFileSystem, place: tuple[int, int], field: str) -> None:
    at = _FIELDS[field]
    _flip(fs, sum(place) + at if at < 0 else place[0] + at, _MASKS.get(field, 1))


def _first_of_second_file(places: list[tuple[int, int]]) -> int:
    return next(number for number, (at, _) in enumerate(places) if at >= FILE)


def _numbers(places: list[tuple[int, int]]) -> dict[str, int]:
    second = _first_of_second_file(places)
    return {
        "first": 0,
        "second": 1,
        "last of a file": second - 1,
        "first of a file": second,
        "middle": COUNT // 2,
        "before the last": COUNT - 2,
    }


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("field", _FIELDS)
@pytest.mark.parametrize("which", _PLACES)
def test_a_flipped_bit_in_front_of_good_records_is_refused_and_nothing_is_cut(
    which: str, field: str, clean: bool
) -> None:
    fs = MemoryFileSystem()
    places = _filled(fs, clean=clean)
    number = _numbers(places)[which]
    _damage(fs, places[number], field)
    before = _contents(fs)
    with pytest.raises(StoreDamagedError) as caught:
        new_store(fs)
    assert f"at {places[number][0]}" in str(caught.value)
    assert f"{COUNT - number - 1} good records" in str(caught.value)
    assert "rocketmq-py store repair" in str(caught.value)
    assert _contents(fs) == before
    _damage(fs, places[number], field)
    store = new_store(fs)
    assert [_pulled(store, 0), _pulled(store, 1)] == _without()


@pytest.mark.parametrize("bit", range(8, 64, 7))
def test_a_number_that_no_queue_can_have_reached_makes_no_files(bit: int) -> None:
    fs = MemoryFileSystem()
    offset, _ = _filled(fs, clean=False)[1]
    path = f"commitlog/{offset - offset % FILE:020d}"
    inside = offset % FILE + 20 + 7 - bit // 8
    segment = fs.open_segment(path, FILE, create=False)
    segment.write(inside, bytes([segment.view(inside, 1)[0] ^ 1 << bit % 8]))
    files = len(fs.files())
    with pytest.raises(StoreDamagedError, match="names number"):
        new_store(fs)
    assert len(fs.files()) <= files + 1  # the mark of a store in use


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("field", _FIELDS)
@pytest.mark.parametrize("which", _PLACES)
def test_a_damaged_record_is_left_out_when_that_is_wanted(
    which: str, field: str, clean: bool
) -> None:
    fs = MemoryFileSystem()
    places = _filled(fs, clean=clean)
    number = _numbers(places)[which]
    offset, size = places[number]
    _damage(fs, places[number], field)
    bad = _contents(fs)[f"commitlog/{offset - offset % FILE:020d}"][offset % FILE :][:size]
    store = new_store(fs, config=SKIP, load=False)
    report = store.load()
    assert (report.damaged_places, report.entries_left_out) == (1, 1)
    assert [_pulled(store, 0), _pulled(store, 1)] == _without(number)
    assert any(f"at {offset}" in line for line in store.problems)
    kept = [fs.read_file(f"{DAMAGED_FOLDER}/{name}") for name in fs.list(DAMAGED_FOLDER)]
    assert any(one.startswith(bad.rstrip(b"\0")) for one in kept)
    assert store.put(message(COUNT)).queue_offset == COUNT // 2
    store.close()
    again = new_store(fs)
    assert again.problems == []
    assert _pulled(again, 0) == [*_without(number)[0], f"body {COUNT}"]
    assert _pulled(again, 1) == _without(number)[1]


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("how", ["emptied", "zeroed", "short", "gone", "swapped"])
def test_a_file_between_others_that_is_no_file_of_the_log_is_refused_or_left_out(
    how: str, clean: bool
) -> None:
    fs = MemoryFileSystem()
    places = _filled(fs, clean=clean)
    second, third = f"commitlog/{FILE:020d}", f"commitlog/{2 * FILE:020d}"
    content, other = fs.read_file(second), fs.read_file(third)
    gone = [number for number, (at, _) in enumerate(places) if FILE <= at < 2 * FILE]
    if how == "emptied":
        fs.write_file(second, b"")
    elif how == "zeroed":
        fs.write_file(second, bytes(FILE))
    elif how == "short":
        fs.write_file(second, content[:700])
        gone = [number for number in gone if sum(places[number]) > FILE + 700]
    elif how == "gone":
        fs.remove(second)
    else:
        fs.write_file(second, other)
        fs.write_file(third, content)
        gone = [number for number, (at, _) in enumerate(places) if FILE <= at < 3 * FILE]
    with pytest.raises(StoreDamagedError, match=second):
        new_store(fs)
    store = new_store(fs, config=SKIP)
    assert [_pulled(store, 0), _pulled(store, 1)] == _without(*gone)
    assert any(second in line for line in store.problems)
    store.close()
    again = new_store(fs)
    assert again.problems == []
    assert [_pulled(again, 0), _pulled(again, 1)] == _without(*gone)


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("at", range(8))
def test_a_damaged_blank_at_the_end_of_a_file_concerns_no_message(at: int, clean: bool) -> None:
    fs = MemoryFileSystem()
    places = _filled(fs, clean=clean)
    blank = sum(places[_first_of_second_file(places) - 1])
    _flip(fs, blank + at)
    with pytest.raises(StoreDamagedError, match=f"at {blank} "):
        new_store(fs)
    store = new_store(fs, config=SKIP)
    assert [_pulled(store, 0), _pulled(store, 1)] == _without()
    assert f"damaged at {blank} " in store.problems[0]


@pytest.mark.parametrize("how", ["emptied", "gone", "zeroed", "flipped"])
def test_after_a_clean_stop_a_log_whose_end_is_lost_is_refused(how: str) -> None:
    fs = MemoryFileSystem()
    places = _filled(fs, clean=True)
    start = places[-1][0] - places[-1][0] % FILE
    last = f"commitlog/{start:020d}"
    if how == "flipped":
        _flip(fs, places[-1][0] + 90)
    elif how == "gone":
        fs.remove(last)
    else:
        fs.write_file(last, b"" if how == "emptied" else bytes(FILE))
    lost = (
        [COUNT - 1]
        if how == "flipped"
        else [number for number, (at, _) in enumerate(places) if at >= start]
    )
    with pytest.raises(StoreDamagedError, match=f"{len(lost)} entries .* name messages behind it"):
        new_store(fs)
    store = new_store(fs, config=SKIP)
    assert [_pulled(store, 0), _pulled(store, 1)] == _without(*lost)
    assert any("entries were dropped" in line for line in store.problems)


def test_after_a_kill_a_log_without_messages_that_were_synced_is_refused() -> None:
    fs = MemoryFileSystem()
    places = _filled(fs, clean=False)
    fs.remove(f"commitlog/{places[-1][0] - places[-1][0] % FILE:020d}")
    with pytest.raises(StoreDamagedError, match="name messages behind it"):
        new_store(fs)


def test_the_torn_end_of_a_killed_store_is_cut_and_kept() -> None:
    fs = MemoryFileSystem()
    places = _filled(fs, clean=True)
    store = new_store(fs)
    put = store.put(message(COUNT))
    store.abandon()
    offset, size = put.commit_log_offset, put.size
    segment = fs.open_segment(f"commitlog/{offset - offset % FILE:020d}", FILE)
    segment.write(offset % FILE + size - 20, bytes(20))
    torn = bytes(segment.view(offset % FILE, size - 20))
    store = new_store(fs, load=False)
    assert store.load().truncated_bytes == len(torn.rstrip(b"\0"))
    (kept,) = fs.list(DAMAGED_FOLDER)
    assert fs.read_file(f"{DAMAGED_FOLDER}/{kept}") == torn.rstrip(b"\0")
    assert f"{DAMAGED_FOLDER}/{kept}" in store.problems[0]
    assert sum(places[-1]) <= store.log.max_offset == offset
    assert [_pulled(store, 0), _pulled(store, 1)] == _without()


def test_nothing_is_cut_when_its_copy_cannot_be_written() -> None:
    fs = MemoryFileSystem()
    places = _filled(fs, clean=True)
    store = new_store(fs)
    offset = store.put(message(COUNT)).commit_log_offset
    store.abandon()
    _flip(fs, offset + 90)
    before = _contents(fs)
    fs.faults.add_write(DiskFault("no space left", DAMAGED_FOLDER, left=None))
    with pytest.raises(StoreError, match="no space left"):
        new_store(fs)
    _flip(fs, places[3][0] + 90)
    with pytest.raises(StoreError, match="no space left"):
        new_store(fs, config=SKIP)
    _flip(fs, places[3][0] + 90)
    assert _contents(fs) == before
    fs.faults.clear()
    store = new_store(fs)
    assert [_pulled(store, 0), _pulled(store, 1)] == _without()


class _NoRoom(MemoryFileSystem):
    """Takes no new file in the folder of copies while `full`."""

    full = False

    def open_segment(
        self, path: str, size: int, *, create: bool = True, may_rest: bool = False
    ) -> MemorySegment:
        if self.full and path.startswith(DAMAGED_FOLDER):
            error = StoreError(f"{path}: no space left on device")
            error.disk_full = True
            raise error
        return super().open_segment(path, size, create=create, may_rest=may_rest)


def test_on_a_full_disk_a_torn_end_is_left_until_its_copy_has_room() -> None:
    fs = _NoRoom()
    _filled(fs, clean=True)
    store = new_store(fs)
    offset = store.put(message(COUNT)).commit_log_offset
    store.abandon()
    _flip(fs, offset + 90)
    before = _contents(fs)
    fs.full = True
    store = new_store(fs)
    assert [_pulled(store, 0), _pulled(store, 1)] == _without()
    assert store.put(message(COUNT)).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "not cut: there is no room for their copy" in store.problems[0]
    assert _contents(fs) == before
    fs.full = False
    store.begin_flush().run()
    assert store.put(message(COUNT)).commit_log_offset == offset
    assert len(fs.list(DAMAGED_FOLDER)) == 1
    store.abandon()
    assert _pulled(new_store(fs), 0)[-1] == f"body {COUNT}"


def test_a_hole_that_a_power_loss_leaves_among_unsynced_messages_ends_the_log() -> None:
    fs = MemoryFileSystem()
    clock = HandClock()
    store = new_store(fs, clock)
    places = []
    for number in range(COUNT):
        put = store.put(message(number, queue_id=number % 2))
        places.append((put.commit_log_offset, put.size))
        clock.now_ms += 1000
        if number == COUNT // 2:
            store.begin_flush().run()
    store.abandon()
    at = places[COUNT // 2 + 2][0] + 50
    segment = fs.open_segment(f"commitlog/{at - at % FILE:020d}", FILE)
    segment.write(at % FILE, bytes(FILE - at % FILE))
    store = new_store(fs, load=False)
    report = store.load()
    assert report.commit_log_end == places[COUNT // 2 + 2][0]
    assert [_pulled(store, 0), _pulled(store, 1)] == _without(*range(COUNT // 2 + 2, COUNT))
    assert "kept in damaged/" in store.problems[0]


def test_a_hole_among_synced_messages_is_damage() -> None:
    fs = MemoryFileSystem()
    places = _filled(fs, clean=False)
    at = places[5][0] + 50
    segment = fs.open_segment(f"commitlog/{at - at % FILE:020d}", FILE)
    segment.write(at % FILE, bytes(FILE - at % FILE))
    with pytest.raises(StoreDamagedError, match=f"at {places[5][0]} "):
        new_store(fs)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every log count as too large to be read whole."""
    monkeypatch.setattr(recovery, "_READ_WHOLE_CLEAN", 500)
    monkeypatch.setattr(recovery, "_READ_WHOLE_DIRTY", 500)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("field", _FIELDS)
@pytest.mark.parametrize("which", ["second", "last of a file", "middle"])
def test_a_damaged_record_of_a_log_that_was_not_read_is_never_given_out(
    which: str, field: str
) -> None:
    fs = MemoryFileSystem()
    places = _filled(fs, clean=True)
    number = _numbers(places)[which]
    _damage(fs, places[number], field)
    store = new_store(fs, config=SKIP)
    assert store.log.checked_from > places[number][0]
    assert [_pulled(store, 0), _pulled(store, 1)] == _without(number)
    store.close()
    store = new_store(fs)
    if field not in {"queue", "queue offset", "transaction", "topic"}:
        assert store.log.read(places[number][0]) is None
        assert store.record(places[number][0]) is None
    with pytest.raises(StoreDamagedError, match=f"at {places[number][0]} "):
        _pulled(store, number % 2)
    assert _pulled(store, 1 - number % 2) == _without()[1 - number % 2]


@pytest.mark.usefixtures("large")
def test_scans_step_over_damage_that_was_not_read_at_opening() -> None:
    fs = MemoryFileSystem()
    places = _filled(fs, clean=True)
    _flip(fs, places[4][0] + 3)
    _flip(fs, places[5][0] + 90)
    store = new_store(fs)
    found = [record.body.decode() for record in store.scan(0)]
    assert found == [f"body {number}" for number in range(COUNT) if number not in {4, 5}]
    assert len(list(store.log.scan_parts(0))) == COUNT - 2


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("how", ["emptied", "zeroed"])
def test_a_file_that_says_nothing_is_found_in_a_large_log_too(how: str) -> None:
    fs = MemoryFileSystem()
    _filled(fs, clean=True)
    fs.write_file(f"commitlog/{FILE:020d}", b"" if how == "emptied" else bytes(FILE))
    with pytest.raises(StoreDamagedError, match=f"commitlog/{FILE:020d}"):
        new_store(fs)


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("how", ["emptied", "zeroed", "short", "flipped", "gone", "swapped"])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_damaged_file_of_a_queue_is_made_again(how: str, which: int, clean: bool) -> None:
    fs = MemoryFileSystem()
    _filled(fs, clean=clean)
    names = fs.list("consumequeue/T/0")
    path = f"consumequeue/T/0/{names[which]}"
    content = fs.read_file(path)
    if how == "flipped":
        fs.write_file(path, bytes([*content[:6], content[6] ^ 64, *content[7:]]))
    elif how == "swapped":
        other = f"consumequeue/T/0/{names[which - 1]}"
        fs.write_file(path, fs.read_file(other))
        fs.write_file(other, content)
    elif how == "gone":
        fs.remove(path)
    else:
        fs.write_file(path, {"emptied": b"", "zeroed": bytes(100), "short": content[:50]}[how])
    store = new_store(fs)
    assert [_pulled(store, 0), _pulled(store, 1)] == _without()
    assert store.problems or not clean


@pytest.mark.usefixtures("large")
def test_an_entry_that_names_another_message_is_not_believed() -> None:
    fs = MemoryFileSystem()
    places = _filled(fs, clean=True)
    entry = places[6][0].to_bytes(8) + places[6][1].to_bytes(4)
    fs.open_segment(f"consumequeue/T/0/{0:020d}", 100).write(40, entry)
    store = new_store(fs)
    with pytest.raises(StoreDamagedError, match="consume queue T 0, entry 2"):
        _pulled(store, 0)


def test_a_queue_is_searched_although_entries_were_left_out() -> None:
    fs = MemoryFileSystem()
    places = _filled(fs, clean=True)
    for number in range(0, COUNT, 4):
        _flip(fs, places[number][0] + 90)
    store = new_store(fs, config=SKIP)
    first_ms = HandClock().now_ms
    for number in range(2, COUNT, 4):
        at_ms = first_ms + 1000 * number
        assert store.search_offset("T", 0, at_ms) == number // 2
    assert store.min_offset("T", 0) == 1
    assert store.max_offset("T", 0) == COUNT // 2


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_a_topic_that_begins_again_is_no_damage(clean: bool) -> None:
    fs = MemoryFileSystem()
    _filled(fs, clean=True)
    store = new_store(fs)
    for key in list(store.queues):
        store.queues.pop(key).clear()
    for number in range(3):
        store.put(message(100 + number))
    if clean:
        store.close()
    else:
        store.abandon()
    assert _pulled(new_store(fs), 0) == ["body 100", "body 101", "body 102"]

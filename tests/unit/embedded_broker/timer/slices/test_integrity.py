"""A slice's log that does not hold what was flushed: the store is refused, or opens without it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedded_broker.errors import StoreDamagedError
from embedded_broker.store.checkpoint import StoreCheckpoint
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.timer.slices import integrity
from embedded_broker.timer.slices.dcommit_log import SliceSum
from tests.unit.embedded_broker.timer.slices.slice_rig import START_MS, SliceRig

DELAY_MS = 100_000
SLICE = (START_MS + DELAY_MS) // 60_000
FOLDER = f"dcommitlog/{SLICE}"
FILES = (f"{FOLDER}/{0:020d}", f"{FOLDER}/{4096:020d}")
BODIES = [b"%d" % (number + 1) for number in range(25)]


def store_with_a_slice(*, clean: bool = True, **config: object) -> tuple[SliceRig, list[int]]:
    """Make a store with 25 timers of one second, in two files, and stop it."""
    rig = SliceRig(config={"mappedFileSizeCommitLog": 2048, **config})
    for _ in range(25):
        rig.timer(DELAY_MS)
    rig.flush()
    places = [at for at, _ in rig.timers._state.log.scan(SLICE)]
    assert places[-1] > 4096
    if clean:
        rig.close()
    else:
        rig.timers.abandon()
        rig.store.abandon()
    return rig, places


def open_without_damage(rig: SliceRig) -> None:
    """Open a store that is refused, and then with what is damaged left out."""
    with pytest.raises(StoreDamagedError, match=f"{FOLDER}.*Nothing was changed"):
        rig.open()
    rig.timers.abandon()
    if rig.store.was_clean:
        rig.store.close()
    else:
        rig.store.abandon()
    rig.settings["damagedRecords"] = "skip"
    rig.open()


def write(rig: SliceRig, at: int, data: bytes) -> None:
    file, inside = divmod(at, 4096)
    rig.fs.open_segment(FILES[file], 4096, create=False).write(inside, data)


def flip(at: int) -> Callable[[SliceRig], None]:
    def act(rig: SliceRig) -> None:
        file, inside = divmod(at, 4096)
        segment = rig.fs.open_segment(FILES[file], 4096, create=False)
        segment.write(inside, bytes([segment.view(inside, 1)[0] ^ 4]))

    return act


def replace(file: int, change: Callable[[bytes], bytes]) -> Callable[[SliceRig], None]:
    def act(rig: SliceRig) -> None:
        rig.fs.write_file(FILES[file], change(rig.fs.read_file(FILES[file])))

    return act


def remove(file: int) -> Callable[[SliceRig], None]:
    return lambda rig: rig.fs.remove(FILES[file])


DAMAGES: dict[str, Callable[[SliceRig], None]] = {
    "a bit of a body": flip(500),
    "a bit of a size": flip(3),
    "a bit of the last record": flip(4096 + 20),
    "a record is zero": lambda rig: write(rig, 700, bytes(400)),
    "the first file is empty": replace(0, lambda _: b""),
    "the last file is empty": replace(1, lambda _: b""),
    "the first file is short": replace(0, lambda data: data[:1000]),
    "the first file is long": replace(0, lambda data: data + data),
    "the first file is missing": remove(0),
    "the last file is missing": remove(1),
    "the files are swapped": lambda rig: rig.fs.rename(FILES[0], FILES[1]),
}


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_what_is_damaged_is_said_and_comes_from_the_commit_log_again(
    name: str, clean: bool
) -> None:
    rig, _ = store_with_a_slice(clean=clean)
    DAMAGES[name](rig)
    open_without_damage(rig)
    assert len(rig.store.problems) == 1
    assert FOLDER in rig.store.problems[0]
    assert rig.timers.count() == 25
    rig.advance(2 * DELAY_MS)
    assert sorted(rig.bodies()) == sorted(BODIES)
    assert not rig.timers.lost


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "closed"])
def test_a_mended_store_opens_quietly_with_the_same(name: str, killed: bool) -> None:
    rig, _ = store_with_a_slice()
    DAMAGES[name](rig)
    open_without_damage(rig)
    if killed:
        rig.timers.abandon()
        rig.store.abandon()
    else:
        rig.close()
    rig.open()
    assert rig.store.problems == []
    assert rig.timers.count() == 25
    rig.advance(2 * DELAY_MS)
    assert sorted(rig.bodies()) == sorted(BODIES)


def test_every_place_of_a_log_may_be_hit() -> None:
    rig, places = store_with_a_slice()
    kept = rig.fs
    assert isinstance(kept, MemoryFileSystem)
    end = places[-1] + 100
    for at in range(0, end, 31):
        rig.fs = kept.copy()
        flip(at)(rig)
        open_without_damage(rig)
        assert rig.store.problems, at
        rig.advance(2 * DELAY_MS)
        assert sorted(rig.bodies()) == sorted(BODIES), at
        rig.timers.abandon()
        rig.store.abandon()
        rig.clock.now_ms = START_MS
        rig.settings["damagedRecords"] = "refuse"


def test_what_is_cut_out_is_kept_aside() -> None:
    rig, places = store_with_a_slice()
    record = rig.fs.read_file(FILES[0])[places[1] : places[2]]
    flip(places[1] + 5)(rig)
    open_without_damage(rig)
    (kept,) = [rig.fs.read_file(f"damaged/{name}") for name in rig.fs.list("damaged")]
    assert len(kept) == len(record)
    assert kept != record


def forget_commit_log(rig: SliceRig) -> None:
    """Let the commit log keep nothing but its last file, as age does."""
    *old, last = rig.fs.list("commitlog")
    checkpoint = StoreCheckpoint(rig.fs)
    checkpoint.load()
    checkpoint.begin_offset = int(last)
    checkpoint.save()
    for name in old:
        rig.fs.remove(f"commitlog/{name}")


def test_timers_that_are_nowhere_else_are_a_reason_to_refuse_the_store() -> None:
    rig, places = store_with_a_slice()
    forget_commit_log(rig)
    flip(places[1] + 5)(rig)
    flip(places[4] + 5)(rig)
    with pytest.raises(StoreDamagedError) as caught:
        rig.open()
    text = str(caught.value)
    assert f"bad at {places[1]}, {places[4]}" in text
    assert "23 of 25 records are good" in text
    assert "2 timers are lost" in text
    assert "damagedRecords=skip" in text


def test_with_skip_the_store_opens_without_them() -> None:
    rig, places = store_with_a_slice()
    forget_commit_log(rig)
    flip(places[1] + 5)(rig)
    rig.settings["damagedRecords"] = "skip"
    rig.open()
    assert "1 timers are lost" in rig.store.problems[0]
    assert rig.timers.count() == 24
    rig.advance(2 * DELAY_MS)
    assert sorted(rig.bodies()) == sorted(set(BODIES) - {b"2"})


def test_a_changed_property_whose_record_cannot_be_told_is_no_secret() -> None:
    rig, places = store_with_a_slice()
    forget_commit_log(rig)
    at = rig.fs.read_file(FILES[0]).index(b"UNIQ_KEY\x01K2") + len(b"UNIQ_KEY\x01")
    assert places[1] < at < places[2]
    flip(at)(rig)
    with pytest.raises(StoreDamagedError, match="an unknown number of timers"):
        rig.open()


def test_a_store_without_sums_is_read_record_by_record() -> None:
    rig, places = store_with_a_slice()
    path = "config/delayOffset.json"
    table = rig.fs.read_file(path)
    begin = table.index(b'"sliceSums"')
    rig.fs.write_file(path, table[:begin] + table[table.index(b"}", begin) + 2 :])
    flip(places[1] + 5)(rig)
    open_without_damage(rig)
    assert FOLDER in rig.store.problems[0]
    assert rig.timers.count() == 25
    rig.close()
    rig.open()
    assert rig.store.problems == []
    log = rig.timers._state.log
    assert log.slices[SLICE].summed == log.sum_to(SLICE, log.slices[SLICE].end, 25, SliceSum())


def test_a_large_store_is_compared_as_its_slices_are_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(integrity, "CHECKED_MOST", 0)
    rig, places = store_with_a_slice()
    flip(places[1] + 5)(rig)
    rig.open()
    assert rig.store.problems == []
    rig.advance(2 * DELAY_MS)
    assert rig.timers.lost["damaged slice"] == 1
    assert b"2" not in rig.bodies()


def test_files_of_slices_have_the_length_of_most_of_them() -> None:
    rig, _ = store_with_a_slice()
    replace(0, lambda data: data[:1000])(rig)
    del rig.settings["mappedFileSizeDCommitLog"]
    open_without_damage(rig)
    assert rig.timers._state.log.file_size == 4096


def test_a_file_that_is_shorter_than_what_was_flushed_into_it_is_no_measure() -> None:
    rig, _ = store_with_a_slice()
    remove(1)(rig)
    replace(0, lambda data: data[:100])(rig)
    del rig.settings["mappedFileSizeDCommitLog"]
    open_without_damage(rig)
    assert rig.timers._state.log.file_size > 100
    assert rig.timers.count() == 25


def test_a_flush_counts_and_sums_what_it_made_durable() -> None:
    rig = SliceRig()
    log = rig.timers._state.log
    for count in range(1, 31):
        rig.timer(DELAY_MS)
        if count % 7 == 0:
            rig.flush()
            found = log.slices[SLICE]
            assert found.summed == log.sum_to(SLICE, found.end, count, SliceSum())

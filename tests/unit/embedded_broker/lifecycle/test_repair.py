"""A repair writes a new folder and leaves the store as it is; what it does there loses nothing."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.errors import StoreError, StoreLockedError
from embedded_broker.lifecycle.repair import open_without_damage, repair_store
from embedded_broker.store.damaged_folder import DAMAGED_FOLDER
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.memory_fs import MemoryFileSystem
from tests.unit.embedded_broker.timer.dying_fs import DyingFileSystem, Killed

COUNT = 12
FILE_SIZE = 1 << 20
SIZES = {
    "mappedFileSizeCommitLog": FILE_SIZE,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 100,
    "maxIndexNum": 400,
}
TAIL = b"a torn end without any record behind it"
TABLE = b"no table at all"


def damaged_store() -> MemoryFileSystem:
    """A store with a bad record, a torn end, a bad table and bad timer files; 12 and 12 messages.

    One of the bodies is gone.
    """
    fs = MemoryFileSystem()
    with EmbeddedBroker(
        fs=fs, clock=VirtualClock(), tcp=False, topics=["T"], config=SIZES
    ) as broker:
        for number in range(COUNT):
            broker.send("T", b"body %d." % number, keys=f"key{number}")
            broker.send("T", b"later %d." % number, delay=3600 + number)
    name = "commitlog/" + "0" * 20
    log = fs.read_file(name)
    segment = fs.open_segment(name, FILE_SIZE)
    segment.write(log.index(b"body 7."), b"cody")
    segment.write(len(log.rstrip(b"\0")), TAIL)
    for path in ("config/topics.json", "config/topics.json.bak"):
        fs.write_file(path, TABLE)
    wheel = fs.open_segment("timerwheel", fs.size("timerwheel"))
    wheel.write(0, b"\xff" * 64)
    fs.remove("consumequeue/T/0/" + "0" * 20)
    return fs


def check(fs: MemoryFileSystem) -> None:
    """Everything but the damage is there, and the damage lies in side files."""
    kept = b"".join(fs.read_file(f"{DAMAGED_FOLDER}/{one}") for one in fs.list(DAMAGED_FOLDER))
    for cut in (b"cody 7.", TAIL, TABLE):
        assert cut in kept
    with EmbeddedBroker(fs=fs, clock=VirtualClock(), tcp=False, config=SIZES) as broker:
        assert broker.recovery.problems == ()
        assert broker.recovery.clean
        assert broker.timers.count() == COUNT
        broker.clock.advance(7200)
        left = [one.body for one in broker.messages.in_topic("T")]
        bodies = [b"body %d." % one for one in range(COUNT) if one != 7]
        assert sorted(left) == sorted(bodies + [b"later %d." % one for one in range(COUNT)])


def on_disk(root: Path) -> dict[str, bytes]:
    """Write the damaged store to a folder; gives what lies there."""
    fs, store = damaged_store(), DirectoryFileSystem(root)
    for path in fs.files():
        if fs.read_file(path):
            segment = store.open_segment(path, fs.size(path))
            segment.write(0, fs.read_file(path).rstrip(b"\0"))
            segment.close()
    return content_of(root)


def content_of(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def test_a_repair_writes_a_new_folder_and_leaves_the_store_as_it_is(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    before = on_disk(old)
    assert repair_store(old, new, config=SIZES).damaged_places == 1
    assert content_of(old) == before
    fs = MemoryFileSystem()
    for path, data in content_of(new).items():
        fs.write_file(path, data)
    check(fs)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["new", "old"]


def test_a_folder_that_holds_something_or_lies_in_the_store_is_refused(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    on_disk(old)
    new.mkdir()
    (new / "mine").touch()
    with pytest.raises(StoreError, match="a repair needs a directory that is new or empty"):
        repair_store(old, new, config=SIZES)
    with pytest.raises(StoreError, match="a repair writes beside the store"):
        repair_store(old, old / "new", config=SIZES)
    assert [one.name for one in new.iterdir()] == ["mine"]
    assert not (old / "new").exists()


def test_a_repair_that_fails_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    before = on_disk(old)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("embedded_broker.lifecycle.repair.open_without_damage", interrupt)
    with pytest.raises(KeyboardInterrupt):
        repair_store(old, new, config=SIZES)
    assert [one.name for one in tmp_path.iterdir()] == ["old"]
    assert content_of(old) == before


def test_a_store_that_is_open_is_not_copied(tmp_path: Path) -> None:
    store = tmp_path / "old"
    with (
        EmbeddedBroker(store=store, clock=VirtualClock(), tcp=False, topics=["T"]),
        pytest.raises(StoreLockedError),
    ):
        repair_store(store, tmp_path / "new", config={})
    assert not (tmp_path / "new").exists()


def test_an_opening_that_leaves_out_damage_keeps_what_it_cuts() -> None:
    fs = damaged_store()
    assert open_without_damage(fs, SIZES).damaged_places == 1
    check(fs)


@pytest.mark.parametrize("death", [Killed, KeyboardInterrupt])
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_one_that_was_stopped_at_any_write_is_finished_by_the_next(
    every: int, death: type[BaseException]
) -> None:
    store, random = damaged_store(), Random(11)
    for writes in range(1, 10_000, every):
        fs = DyingFileSystem(random, death)
        fs.take_over(store)
        fs.die_in(writes)
        try:
            open_without_damage(fs, SIZES)
        except (Killed, KeyboardInterrupt):
            assert fs.remains is not None
            # What is killed stops there; what is interrupted still closes what it has opened.
            left = fs.remains if death is Killed else fs.copy()
            open_without_damage(left, SIZES)
            check(left)
        else:
            break
    assert writes > 20

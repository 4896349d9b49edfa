"""Offsets in a file: what Java wrote, what damage does, and what a disk does that takes nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketmq_py.consumer.core import file_offsets
from rocketmq_py.consumer.core.file_offsets import (
    FILE_SIZE_MAX,
    TOLD_EVERY_S,
    FileOffsets,
    OffsetFile,
    default_directory,
    safe_name,
)
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import GROUP, ME, FakeEngine, queues_of

FIRST, SECOND, THIRD = queues_of("T", 3)
OF_JAVA = """{
\t"offsetTable":{{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":0,
\t\t\t"topic":"%RETRY%g"
\t\t}:4000000000,{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":0,
\t\t\t"topic":"T"
\t\t}:5,{
\t\t\t"brokerName":"b\\"x",
\t\t\t"queueId":1,
\t\t\t"topic":"Ünï"
\t\t}:0
\t}
}"""
"""What the client of 5.3.3 writes."""
DAMAGED = '{"offsetTable":{{"brokerName":"broker-a","que'


class Now:
    s = 1_000.0

    def __call__(self) -> float:
        return self.s


class Bench:
    """The file of one group, and stores that use it one after the other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / ME / GROUP / "offsets.json"
        self.backup = self.path.with_name("offsets.json.bak")
        self.damaged = self.path.with_name("offsets.json.damaged")
        self.now = Now()

    def store(self) -> FileOffsets:
        return FileOffsets(FakeEngine(), GROUP, self.directory, now=self.now)

    def holds(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def stored(self) -> dict[MessageQueue, int]:
        return OffsetFile(self.directory, ME, GROUP).read()

    def names(self) -> list[str]:
        return sorted(path.name for path in self.path.parent.iterdir())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "offsets")


def written(bench: Bench, offset: int, queue: MessageQueue = FIRST) -> FileOffsets:
    store = bench.store()
    store.update(queue, offset)
    store.persist(queue)
    return store


def test_offsets_are_read_that_a_java_client_wrote(bench: Bench) -> None:
    bench.holds(bench.path, OF_JAVA)
    store = bench.store()
    assert store.load(FIRST) == 5
    assert store.in_memory(FIRST) == 5
    assert store.load(MessageQueue("Ünï", 'b"x', 1)) == 0
    assert store.load(MessageQueue("%RETRY%g", "broker-a", 0)) == 4_000_000_000
    assert store.load(SECOND) is None
    assert store.in_memory(SECOND) == -1


def test_the_file_has_the_form_that_java_clients_read(bench: Bench) -> None:
    written(bench, 5)
    assert (
        bench.path.read_text()
        == '{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:5}}'
    )


def test_what_is_written_is_read_by_the_next_run_and_other_queues_stay(bench: Bench) -> None:
    bench.holds(bench.path, OF_JAVA)
    written(bench, 7, SECOND).persist_all([SECOND])
    store = bench.store()
    assert (store.load(FIRST), store.load(SECOND)) == (5, 7)
    assert len(bench.stored()) == 4


def test_the_file_before_the_last_one_is_kept(bench: Bench) -> None:
    store = written(bench, 5)
    assert bench.names() == ["offsets.json"]
    store.update(FIRST, 6)
    store.persist(FIRST)
    assert bench.names() == ["offsets.json", "offsets.json.bak"]
    assert ":5}" in bench.backup.read_text()
    assert ":6}" in bench.path.read_text()


def test_nothing_is_written_while_no_offset_has_changed(bench: Bench) -> None:
    store = written(bench, 5)
    bench.path.unlink()
    store.persist(FIRST)
    store.persist_all([FIRST, SECOND])
    store.persist(SECOND)
    assert bench.names() == []


@pytest.mark.parametrize("damage", [DAMAGED, "", "[]", '{"offsetTable":{"x":"y"}}', "\x00"])
def test_the_file_before_is_read_when_the_last_one_is_damaged(
    bench: Bench, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench.holds(bench.path, damage)
    bench.holds(bench.backup, OF_JAVA)
    store = bench.store()
    assert store.load(FIRST) == 5
    assert str(bench.path) in caplog.text
    store.update(FIRST, 6)
    store.persist(FIRST)
    assert bench.stored()[FIRST] == 6
    # The damaged one does not take the place of the good one.
    assert bench.backup.read_text() == OF_JAVA
    assert bench.damaged.read_text() == damage


def test_the_file_before_is_read_when_the_last_one_is_missing(bench: Bench) -> None:
    bench.holds(bench.backup, OF_JAVA)
    assert written(bench, 6).load(MessageQueue("Ünï", 'b"x', 1)) == 0
    assert bench.backup.read_text() == OF_JAVA
    assert bench.stored()[FIRST] == 6  # what is noted is newer than what is read


def test_damage_of_both_files_is_told_and_a_new_one_is_begun(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.holds(bench.path, DAMAGED)
    bench.holds(bench.backup, DAMAGED)
    store = bench.store()
    assert store.load(FIRST) is None
    assert "local_offset_store_dir" in caplog.text
    store.update(FIRST, 6)
    store.persist(FIRST)
    assert bench.stored() == {FIRST: 6}
    assert bench.damaged.read_text() == DAMAGED


def test_a_file_that_is_too_large_is_not_read_and_not_lost(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.holds(bench.path, "")
    os.truncate(bench.path, FILE_SIZE_MAX + 1)
    assert written(bench, 6).load(SECOND) is None
    assert f"at most {FILE_SIZE_MAX}" in caplog.text
    assert bench.damaged.stat().st_size == FILE_SIZE_MAX + 1
    assert bench.stored() == {FIRST: 6}


def test_no_file_is_written_that_would_be_too_large_to_be_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(file_offsets, "FILE_SIZE_MAX", 100)
    store = written(bench, 5)
    store.update(SECOND, 6)
    store.persist_all([FIRST, SECOND])
    assert "at most 100" in caplog.text
    assert bench.stored() == {FIRST: 5}
    assert (store.load(FIRST), store.load(SECOND)) == (5, 6)


def test_a_negative_offset_is_none(bench: Bench) -> None:
    bench.holds(bench.path, OF_JAVA.replace(":5", ":-1"))
    assert bench.store().load(FIRST) is None


# --- a disk that does not take them ----------------------------------------------------------


def a_file_in_the_way(bench: Bench) -> Callable[[], None]:
    bench.directory.write_text("in the way")
    return bench.directory.unlink


def a_folder_in_the_way(bench: Bench) -> Callable[[], None]:
    bench.path.mkdir(parents=True)
    return bench.path.rmdir


@pytest.mark.parametrize("spoil", [a_file_in_the_way, a_folder_in_the_way])
def test_offsets_stay_in_memory_until_the_directory_can_be_used(
    bench: Bench,
    spoil: Callable[[Bench], Callable[[], None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    mend = spoil(bench)
    store = bench.store()
    assert store.load(FIRST) is None
    for offset in (5, 6):
        store.update(FIRST, offset)
        store.persist(FIRST)
        store.persist_soon(FIRST)
        store.persist_all([FIRST])
    store.remove(FIRST)
    assert (store.load(FIRST), store.in_memory(FIRST), store.unwritten) == (6, 6, 0)
    (told,) = caplog.messages
    assert str(bench.directory) in told
    assert "local_offset_store_dir" in told
    mend()
    store.persist(FIRST)
    assert bench.stored() == {FIRST: 6}


def test_trouble_is_told_once_a_minute(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    a_file_in_the_way(bench)
    store = bench.store()
    store.load(FIRST)
    bench.now.s += TOLD_EVERY_S - 1
    store.load(FIRST)
    assert len(caplog.messages) == 1
    bench.now.s += 1
    store.load(FIRST)
    assert len(caplog.messages) == 2


def test_a_directory_that_cannot_be_is_told(caplog: pytest.LogCaptureFixture) -> None:
    store = FileOffsets(FakeEngine(), GROUP, Path("a\x00b"))
    store.update(FIRST, 5)
    store.persist(FIRST)
    assert "local_offset_store_dir" in caplog.text


def test_a_write_that_fails_midway_leaves_both_files_as_they_were(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = written(bench, 5)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    store.update(FIRST, 6)
    store.persist(FIRST)
    assert "No space left" in caplog.text
    assert bench.names() == ["offsets.json"]
    assert bench.stored() == {FIRST: 5}
    monkeypatch.undo()
    store.persist(FIRST)
    assert bench.stored() == {FIRST: 6}


def test_one_writer_at_a_time_has_the_file(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    store = written(bench, 0)
    inside, most = 0, 0
    begun = threading.Barrier(4)
    pause = threading.Event()

    def counting(_: int) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        pause.wait(0.001)  # lets the others run, who would come in
        inside -= 1

    def write(first: int) -> None:
        begun.wait(10)
        for offset in range(first, first + 40, 4):
            store.update(FIRST, offset)
            store.persist(FIRST)

    monkeypatch.setattr(os, "fsync", counting)
    threads = [threading.Thread(target=write, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == 1
    assert bench.stored() == {FIRST: 40}


def test_another_process_has_a_file_of_its_own_to_fill(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (OffsetFile(bench.directory, ME, GROUP) for _ in range(2))
    sync = os.fsync

    def overtaken(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", sync)
        second.write({SECOND: 2})
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", overtaken)
    first.write({FIRST: 1})
    assert first.read() == {FIRST: 1}
    assert bench.names() == ["offsets.json", "offsets.json.bak"]


# --- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["10.0.0.1@DEFAULT", "fe80::1@a#7", "%RETRY%g", "ns%group", "a|b", "...a", "a=b+c"]
)
def test_names_of_java_clients_are_the_folders_of_java_clients(name: str) -> None:
    assert safe_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "...", "../../etc", "a/b", "a\\b", "a\x00b", "~", "ü", "\ud800", "x" * 5_000],
)
def test_any_name_is_one_folder_below_the_directory(tmp_path: Path, name: str) -> None:
    path = OffsetFile(tmp_path, name, name).path
    assert path.resolve().relative_to(tmp_path.resolve()).parts == (
        safe_name(name),
        safe_name(name),
        "offsets.json",
    )
    path.parent.mkdir(parents=True)


def test_two_names_never_become_one() -> None:
    long = "x" * 300
    names = ["a/b", "a~2Fb", "a~b", "~", "", ".", "~2E", long, f"{long}y", "ü", "Ã¼"]
    assert len({safe_name(name) for name in names}) == len(names)


def test_the_default_directory_is_that_of_java_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_directory() == Path("/home/somebody/.rocketmq_offsets")

    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", homeless)
    assert default_directory() == Path(".rocketmq_offsets")

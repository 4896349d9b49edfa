from __future__ import annotations

import errno
import os
import resource
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store import open_files
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.directory_segment import DirectorySegment
from embedded_broker.store.open_files import disk_refusal, raise_descriptor_limit


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three files may be open to be written, and three to be read."""
    monkeypatch.setattr(open_files.OpenFiles, "most", 3)


def _opened(fs: DirectoryFileSystem, count: int) -> list[DirectorySegment]:
    return [fs.open_segment(f"q{n}/0", 8192, may_rest=True) for n in range(count)]


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.usefixtures("few")
def test_files_rest_when_too_many_are_open_and_wake_for_every_use(tmp_path: Path) -> None:
    before = _descriptors()
    segments = _opened(DirectoryFileSystem(tmp_path), 20)
    for turn in range(3):
        for number, segment in enumerate(segments):
            segment.write(turn * 4, b"%04d" % (number + turn))
            assert _descriptors() - before <= 7
    for number, segment in enumerate(segments):
        assert bytes(segment.view(0, 12)) == b"%04d%04d%04d" % (number, number + 1, number + 2)
        assert segment.read(4, 12) == b"%04d%04d\0\0\0\0" % (number + 1, number + 2)
        segment.sync()
        assert _descriptors() - before <= 7
    for segment in segments:
        segment.close()
    assert _descriptors() == before


@pytest.mark.usefixtures("few")
def test_the_file_that_is_written_all_the_time_does_not_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = DirectoryFileSystem(tmp_path)
    busy = fs.open_segment("log/0", 8192, may_rest=True)
    opened: list[str] = []
    real = open_files.OpenFiles.open

    def opening(files: open_files.OpenFiles, path: str, flags: int | None = None) -> int:
        opened.append(path)
        return real(files, path, flags)

    monkeypatch.setattr(open_files.OpenFiles, "open", opening)
    segments = _opened(fs, 10)
    for turn in range(10):
        for number, segment in enumerate(segments):
            busy.write(turn * 80 + number * 8, b"busy")
            segment.write(turn * 8, b"idle")
    assert opened.count("log/0") <= 1
    assert opened.count("q5/0") >= 9
    for segment in (busy, *segments):
        segment.close()


@pytest.mark.usefixtures("few")
def test_a_view_outlives_the_rest_of_its_file(tmp_path: Path) -> None:
    fs = DirectoryFileSystem(tmp_path)
    first, *others = _opened(fs, 9)
    first.write(0, b"abcd")
    view = first.view(0, 4)
    for segment in others:
        segment.write(0, b"more")
        segment.view(0, 4)
    first.write(0, b"ABCD")
    assert bytes(view) == b"ABCD"
    assert bytes(first.view(0, 4)) == b"ABCD"
    for segment in (first, *others):
        segment.close()


@pytest.mark.usefixtures("few")
def test_other_threads_read_and_sync_while_files_rest(tmp_path: Path) -> None:
    """A descriptor that is closed under their hands may be that of another file a moment later."""
    segments = _opened(DirectoryFileSystem(tmp_path), 12)
    stop, wrong = Event(), list[str]()

    def use() -> None:
        while not stop.is_set():
            for number, segment in enumerate(segments):
                head = bytes(segment.view(0, 4)), segment.read(0, 4)
                if not {*head} <= {b"%04d" % number, bytes(4)}:
                    wrong.append(f"{number}: {head}")
                segment.sync()

    threads = [Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for turn in range(200):
        for number, segment in enumerate(segments):
            segment.write(turn * 8, b"%04d" % number)
    stop.set()
    for thread in threads:
        thread.join(30)
    assert wrong == []
    for number, segment in enumerate(segments):
        assert segment.read(0, 1600) == (b"%04d" % number + bytes(4)) * 200
        segment.close()


@pytest.mark.parametrize("call", ["read_file", "sync_file", "sync_dir"])
def test_a_save_gets_a_descriptor_though_connections_took_all(tmp_path: Path, call: str) -> None:
    fs = DirectoryFileSystem(tmp_path)
    fs.lock("lock", "me")
    fs.write_file("config/a", b"1")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (_descriptors() + 8, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        fs.write_file("config/a", b"2")
        getattr(fs, call)("config" if call == "sync_dir" else "config/a")
        for _ in range(open_files._SPARE):
            taken.append(fs._files.open("config/a", os.O_RDONLY))  # noqa: PERF401
        with pytest.raises(StoreError, match=r"Too many open files.*\(ulimit -n\)"):
            fs._files.open("config/a", os.O_RDONLY)
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert fs.look() is None
    assert len(fs._files._spare) == open_files._SPARE
    fs.unlock("lock")


def test_stores_of_one_process_share_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "_descriptor_limit", lambda: 1024)
    monkeypatch.setattr(open_files, "_in_use", set())
    stores = [DirectoryFileSystem(tmp_path / name) for name in "abcd"]
    assert stores[0]._files.most == 256
    for store in stores:
        store.lock("lock", "me")
    assert stores[0]._files.most == 64
    for store in stores:
        store.unlock("lock")
    assert stores[0]._files.most == 256


def test_the_soft_limit_becomes_the_hard_one(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [(256, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.append(new))
    assert raise_descriptor_limit() == 4096
    assert raise_descriptor_limit() == 4096
    assert limits == [(256, 4096), (4096, 4096)]


def _refused(_: int, __: object) -> None:
    raise ValueError("current limit exceeds maximum limit")


def test_a_system_that_does_not_let_the_limit_be_raised_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", _refused)
    assert raise_descriptor_limit() == 256


@pytest.mark.parametrize(
    ("number", "words", "full"),
    [
        (errno.ENOSPC, "remove other files there, or let messages go sooner", True),
        (errno.EDQUOT, "bytes are free on the file system of", True),
        (errno.EMFILE, "ulimit -n", False),
        (errno.EIO, "a/b: cannot write 5 bytes: Input/output error", False),
    ],
)
def test_a_refusal_says_what_helps(tmp_path: Path, number: int, words: str, full: bool) -> None:
    error = OSError(number, os.strerror(number))
    refusal = disk_refusal(tmp_path / "gone", "a/b", "write 5 bytes", error)
    assert words in str(refusal)
    assert refusal.disk_full is full


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_place_that_may_not_be_written_is_named_with_what_helps(
    tmp_path: Path, number: int
) -> None:
    text = str(disk_refusal(tmp_path, "lock", "open", OSError(number, "not allowed")))
    assert text.startswith("lock: cannot open: not allowed. A broker and a repair must be able")
    assert f"write in {tmp_path}" in text
    assert f"`rocketmq-py timers {tmp_path}` only reads" in text

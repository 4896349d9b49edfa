"""One thread notices readable sockets, and leaves those alone that are paused."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from rocketmq_py.transport.io_thread import IoThread


class Pipe:
    """A socket pair whose near end reports what it reads."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.read: list[bytes] = []
        self.seen = threading.Event()
        self.threads: set[str] = set()

    def fileno(self) -> int:
        return self.near.fileno()

    def on_readable(self) -> None:
        self.threads.add(threading.current_thread().name)
        self.read.append(self.near.recv(100))
        self.seen.set()
        if self.read[-1] == b"boom":
            raise RuntimeError("reading failed on purpose")

    def close(self) -> None:
        self.near.close()
        self.far.close()


@pytest.fixture(params=[False, True], ids=["epoll", "portable"])
def io(request: pytest.FixtureRequest) -> Iterator[IoThread]:
    thread = IoThread("watcher", portable=request.param)
    yield thread
    thread.close(5)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def test_a_readable_socket_is_told_on_the_io_thread(io: IoThread, pipe: Pipe) -> None:
    io.add(pipe)
    pipe.far.send(b"x")
    assert pipe.seen.wait(30)
    assert (pipe.read, pipe.threads) == ([b"x"], {"watcher"})
    io.forget(pipe.fileno())


def test_a_paused_socket_is_seen_after_it_is_resumed(pipe: Pipe) -> None:
    io = IoThread("watcher")
    io.add(pipe)
    io.pause(pipe.fileno())
    pipe.far.send(b"y")
    other = Pipe()
    io.add(other)
    other.far.send(b"z")
    assert other.seen.wait(30)  # the thread went round
    assert pipe.read == []
    io.resume(pipe.fileno())
    assert pipe.seen.wait(30)
    io.close(5)
    other.close()


def test_one_failing_reader_does_not_stop_the_others(
    io: IoThread, pipe: Pipe, caplog: pytest.LogCaptureFixture
) -> None:
    io.add(pipe)
    pipe.far.send(b"boom")
    assert pipe.seen.wait(30)
    other = Pipe()
    io.add(other)
    other.far.send(b"fine")
    assert other.seen.wait(30)
    assert "reading failed" in caplog.text
    io.forget(other.fileno())
    other.close()


def test_closing_joins_the_thread_and_is_idempotent(io: IoThread, pipe: Pipe) -> None:
    io.add(pipe)
    io.forget(pipe.fileno())
    io.close(5)
    io.close(5)
    assert "watcher" not in {thread.name for thread in threading.enumerate()}
    io.add(pipe)  # too late: nothing starts again
    assert "watcher" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("portable", [False, True])
def test_a_thread_that_was_busy_at_the_end_releases_everything_when_it_ends(
    pipe: Pipe,
    portable: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    busy, is_over = threading.Event(), threading.Event()
    ends = socket.socketpair()
    monkeypatch.setattr(socket, "socketpair", lambda: ends)

    def block() -> None:
        busy.set()
        assert is_over.wait(10)

    monkeypatch.setattr(pipe, "on_readable", block)
    io = IoThread("blocked-watcher", portable=portable)
    io.add(pipe)
    (thread,) = [one for one in threading.enumerate() if one.name == "blocked-watcher"]
    pipe.far.send(b"x")
    assert busy.wait(30)
    io.close(0)
    assert "still busy" in caplog.text
    assert [end.fileno() == -1 for end in ends] == [False, False]
    is_over.set()
    thread.join(30)
    assert [end.fileno() == -1 for end in ends] == [True, True]

"""One broker is put together, flushed and taken apart."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.errors import StoreError
from embedded_broker.lifecycle.snapshot import CLOCK_PATH
from embedded_broker.store.memory_fs import MemoryFileSystem
from rocketmq_py.clock import LATEST_MS

GUARD_S = 30.0


def test_the_log_is_synced_in_the_rhythm_of_the_session_clock() -> None:
    session = VirtualClock()
    with EmbeddedBroker(tcp=False, session_clock=session) as broker:
        broker.send("T", b"x")
        store = broker._parts().store
        assert store.flushed_offset == 0

        session.advance(0.5)

        broker.wait_for(lambda _: store.flushed_offset > 0, timeout=GUARD_S)


def test_a_jump_of_the_message_clock_ends_with_a_flush() -> None:
    session, clock = VirtualClock(), VirtualClock()
    with EmbeddedBroker(tcp=False, session_clock=session, clock=clock) as broker:
        parts = broker._parts()
        broker.send("T", b"x")

        clock.advance(60)

        broker.wait_for(lambda _: parts.store.flushed_offset > 0, timeout=GUARD_S)


def test_slow_work_is_done_on_another_thread() -> None:
    with EmbeddedBroker(tcp=False) as broker:
        done: list[bool] = []
        parts = broker._parts()
        parts.in_background(lambda: done.append(parts.door.held))

        broker.wait_for(lambda _: done, timeout=GUARD_S)

    assert done == [False]


def test_a_clean_stop_leaves_no_mark_of_a_crash(tmp_path: Path) -> None:
    with EmbeddedBroker(tcp=False, store=tmp_path, clock=VirtualClock()) as broker:
        broker.send("T", b"later", delay=5)
        assert (tmp_path / "abort").exists()

    names = {path.name for path in tmp_path.iterdir()}
    assert "abort" not in names
    assert {"commitlog", "consumequeue", "timerlog", "timerwheel", "config", "lock"} <= names


@pytest.mark.parametrize("left_at_ms", [LATEST_MS + 1, 10**18, -1, "soon"])
def test_a_time_that_no_clock_can_show_is_not_taken_from_the_file_of_the_clock(
    tmp_path: Path, left_at_ms: object
) -> None:
    with EmbeddedBroker(tcp=False, store=tmp_path, clock=VirtualClock(), topics=["T"]) as broker:
        broker.clock.advance(days=1)
        broker.send("T", b"before")
        left_at = broker.clock.now()
    (tmp_path / CLOCK_PATH).write_text(json.dumps({"nowMs": left_at_ms}), encoding="utf-8")
    for clock in (VirtualClock(), None):
        with EmbeddedBroker(tcp=False, store=tmp_path, clock=clock) as broker:
            broker.send("T", b"after")
            assert clock is None or broker.clock.now() == left_at


def test_a_disk_that_refuses_at_the_end_is_reported_and_everything_is_still_given_back() -> None:
    class RefusingFileSystem(MemoryFileSystem):
        refuses = False

        def sync_file(self, path: str) -> None:
            if self.refuses:
                raise StoreError("the disk is full")
            super().sync_file(path)

    fs = RefusingFileSystem()
    broker = EmbeddedBroker(tcp=False, fs=fs, clock=VirtualClock()).start()
    broker.send("T", b"x", delay=5)
    fs.refuses = True

    with pytest.raises(StoreError, match="the disk is full"):
        broker.close()

    fs.refuses = False
    with broker:
        assert broker.timers.count() == 1


def test_what_was_opened_is_given_back_when_a_later_part_cannot_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fs = MemoryFileSystem()

    def fail(parts: object) -> None:
        raise RuntimeError("no handlers today")

    call: Callable[[], object] = EmbeddedBroker(tcp=False, fs=fs).start
    with monkeypatch.context() as patched:
        patched.setattr("embedded_broker.lifecycle.assembly.install", fail)
        with pytest.raises(RuntimeError, match="no handlers today"):
            call()

    with EmbeddedBroker(tcp=False, fs=fs) as broker:
        assert broker.is_running


def test_one_clock_for_messages_and_sessions_can_jump_a_month() -> None:
    clock = VirtualClock()
    config = {"timerMaxDelaySec": 3_456_000}
    with EmbeddedBroker(tcp=False, clock=clock, session_clock=clock, config=config) as broker:
        calls: list[int] = []
        parts = broker._parts()
        with parts.door:
            parts.session.every(1000, lambda: calls.append(clock.now_ms))
        start_ms = clock.now_ms
        broker.send("T", b"x", delay=30 * 86_400)

        clock.advance(days=30)

        assert broker.topics["T"].count() == 1
        assert [one - start_ms for one in calls] == [1000, 30 * 86_400_000]

"""The flush thread: order of the work, group commit, failures."""

from threading import Event

import pytest

from embedded_broker.door import Door
from embedded_broker.errors import StoreError
from embedded_broker.lifecycle import flusher as flusher_module
from embedded_broker.lifecycle.flusher import Flusher
from embedded_broker.store.flush import FlushWork

GUARD_S = 10.0


class Step:
    def __init__(self, name: str, log: list[str], door: Door, *, breaks: bool = False) -> None:
        self.name = name
        self.breaks = breaks
        self.log = log
        self.door = door

    def run(self) -> None:
        if self.breaks:
            raise StoreError("the disk refuses")
        self.log.append(f"{self.name} inside={self.door.held}")

    def failed(self) -> None:
        self.log.append(f"{self.name} never ran")


class Rig:
    """A flusher over scripted work."""

    def __init__(self) -> None:
        self.door = Door()
        self.log: list[str] = []
        self.finished = Event()
        self.failures = self.looks = 0
        self.breaks = ""
        self.flusher = Flusher(self.door, self.begin, self.done, self.look)

    def begin(self, everything: bool) -> list[FlushWork]:
        self.log.append(f"begin {'all' if everything else 'log'} inside={self.door.held}")
        if self.failures:
            self.failures -= 1
            raise StoreError("the disk refuses")
        names = ["log", "timers"] if everything else ["log"]
        return [Step(name, self.log, self.door, breaks=name == self.breaks) for name in names]

    def look(self) -> None:
        self.looks += 1
        assert not self.door.held

    def done(self) -> None:
        self.log.append(f"done inside={self.door.held}")
        self.finished.set()


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_work_is_captured_inside_run_outside_and_reported_inside(rig: Rig) -> None:
    rig.flusher.request(everything=True)
    rig.flusher.start()
    assert rig.finished.wait(GUARD_S)
    rig.flusher.close()

    assert rig.log == [
        "begin all inside=True",
        "log inside=False",
        "timers inside=False",
        "done inside=True",
    ]


def test_timer_files_are_not_written_when_the_log_could_not_be_synced(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.breaks = "log"
    rig.flusher.request(everything=True)
    rig.flusher.start()
    while "timers never ran" not in rig.log:
        rig.finished.wait(0.001)
    rig.flusher.close()

    assert rig.log == ["begin all inside=True", "timers never ran"]
    assert "a flush failed" in caplog.text


def test_the_thread_flushes_what_was_asked_for(rig: Rig) -> None:
    rig.flusher.start()

    rig.flusher.request()
    assert rig.finished.wait(GUARD_S)
    rig.flusher.close()

    assert rig.log[0] == "begin log inside=True"
    assert rig.looks == 1


def test_requests_that_arrive_during_a_flush_share_the_next_one(rig: Rig) -> None:
    for _ in range(50):
        rig.flusher.request()
    rig.flusher.request(everything=True)

    rig.flusher.start()
    assert rig.finished.wait(GUARD_S)
    rig.flusher.close()

    assert [line for line in rig.log if line.startswith("begin")] == ["begin all inside=True"]


def test_a_failed_flush_is_logged_and_the_next_request_tries_again(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.failures = 1
    rig.flusher.start()
    rig.flusher.request()
    while rig.failures:
        rig.finished.wait(0.001)

    rig.flusher.request()
    assert rig.finished.wait(GUARD_S)
    rig.flusher.close()

    assert "a flush failed" in caplog.text


def test_a_disk_that_refuses_in_two_ways_is_told_of_once_each_until_it_takes_something(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(flusher_module, "AFTER_A_FAILURE_S", 0.0)
    refusals = ["full", "gone", "full", "", "gone", "full", ""]
    over = Event()

    def begin(_everything: bool) -> list[FlushWork]:
        refusal = refusals.pop(0)
        if refusals:
            flusher.do(flusher.request)  # a turn without a flush says nothing of the disk
        else:
            over.set()
        if refusal:
            raise StoreError(refusal)
        return []

    flusher = Flusher(Door(), begin, lambda: None, lambda: None)
    flusher.start()
    flusher.request()
    assert over.wait(GUARD_S)
    flusher.close()
    told = [record.getMessage().rpartition(": ")[2] for record in caplog.records]
    assert told == ["full", "gone", "gone", "full"]


def test_other_slow_work_is_done_on_the_same_thread_and_none_is_lost(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    done = Event()

    def fail() -> None:
        raise ValueError("a bug")

    rig.flusher.start()
    rig.flusher.do(fail)
    rig.flusher.do(done.set)
    rig.flusher.wait_other()
    assert done.is_set()
    rig.flusher.close()
    late = Event()
    rig.flusher.do(late.set)
    rig.flusher.close()

    assert late.is_set()
    assert rig.log == []
    assert "background work failed" in caplog.text

"""Memory that was freed does not stay with the process."""

from __future__ import annotations

import ctypes
import logging
import sys
from threading import Event
from threading import enumerate as threads

import pytest

from embedded_broker.remoting import spare_memory
from embedded_broker.remoting.spare_memory import give_back_soon


class Library:
    """A C library that can be told to give memory back, if it has `malloc_trim`."""

    def __init__(self) -> None:
        self.called, self.let_go = Event(), Event()
        self.calls = 0

    def malloc_trim(self, pad: int) -> int:
        self.calls += 1
        self.called.set()
        assert self.let_go.wait(20)
        return pad


def join() -> None:
    """Wait until nobody gives back any more."""
    for thread in threads():
        if thread.name == "embedded-broker-memory":
            thread.join(20)


def test_it_is_given_back_on_a_thread_of_its_own_and_once_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    give_back_soon()
    assert library.called.wait(20)
    give_back_soon()
    library.let_go.set()
    join()
    assert library.calls == 1

    give_back_soon()
    join()
    assert library.calls == 2


@pytest.mark.parametrize("error", [OSError, TypeError])
def test_nothing_is_done_where_there_is_no_such_library(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(_: object) -> None:
        raise error

    for found in (fail, lambda _: object()):
        monkeypatch.setattr(ctypes, "CDLL", found)
        give_back_soon()
        join()
    assert spare_memory._one_at_a_time.acquire(blocking=False)
    spare_memory._one_at_a_time.release()


@pytest.mark.skipif(sys.platform != "linux", reason="asks the C library of Linux")
def test_the_library_of_this_machine_can_be_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        give_back_soon()
        join()
    assert caplog.messages == []
    assert spare_memory._one_at_a_time.acquire(blocking=False)
    spare_memory._one_at_a_time.release()

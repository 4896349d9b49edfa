"""Threads that end, also when something came between at their start."""

from __future__ import annotations

from threading import Event, Thread, current_thread

import pytest

from embedded_broker.threads import has_ended

GUARD_S = 20.0


def test_one_that_never_began_has_ended() -> None:
    assert has_ended(Thread())


def test_one_that_begins_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end, ended = Event(), Event()

    def work() -> None:
        assert may_end.wait(GUARD_S)
        ended.set()

    late = Thread(target=work)
    join = late.join

    def begin_then_join(limit_s: float | None = None) -> None:
        monkeypatch.setattr(late, "join", join)
        try:
            join(limit_s)  # refuses, as it does in the middle of a start that was interrupted
        finally:
            late.start()
            may_end.set()

    monkeypatch.setattr(late, "join", begin_then_join)
    assert has_ended(late, GUARD_S)
    assert ended.is_set()


def test_one_that_is_busy_has_not_ended() -> None:
    may_end = Event()
    busy = Thread(target=may_end.wait, args=(GUARD_S,))
    busy.start()
    assert not has_ended(busy, 0)
    may_end.set()
    assert has_ended(busy, GUARD_S)


def test_nobody_waits_for_itself() -> None:
    with pytest.raises(RuntimeError, match="current thread"):
        has_ended(current_thread())

"""Every answer of a put has one meaning."""

from __future__ import annotations

from collections.abc import Callable

from embedded_broker.clocks.timeline import Deadline
from embedded_broker.store.inner import PutStatus
from embedded_broker.timer.delivery import DONE, HOPELESS, SOON_BETTER, RetryWait


def test_no_answer_means_two_things_and_a_flush_that_timed_out_means_stored() -> None:
    assert not DONE & HOPELESS
    assert not DONE & SOON_BETTER
    assert not HOPELESS & SOON_BETTER
    assert {PutStatus.PUT_OK, PutStatus.FLUSH_DISK_TIMEOUT} <= DONE
    assert PutStatus.UNKNOWN_ERROR not in DONE | HOPELESS | SOON_BETTER


# --- the wait before a put that failed is tried again, by either clock ---------------------------


def test_without_a_session_timer_the_message_clock_ends_the_wait() -> None:
    wait = RetryWait()
    wait.begin(1000, 50)
    assert wait.deadline == Deadline(1050, "retry of a timer's release")
    wait.begin(1040, 50)  # the first one goes on
    wait.look(1049)
    assert wait.deadline == Deadline(1050, "retry of a timer's release")
    wait.look(1050)
    assert not wait.is_on


def test_a_session_timer_that_comes_too_late_ends_no_later_wait() -> None:
    calls: list[Callable[[], None]] = []
    wait = RetryWait()
    wait.session_timer = lambda _ms, call: calls.append(call)
    wait.begin(1000, 0)
    assert (wait.is_on, wait.deadline) == (True, None)
    wait.end()
    wait.begin(1000, 50)
    still_on = []
    for call in calls:
        call()
        still_on.append(wait.is_on)
    assert still_on == [True, False]

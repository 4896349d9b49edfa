"""The wait before a put that failed is tried again, by either clock."""

from __future__ import annotations

from collections.abc import Callable

from embedded_broker.clocks.timeline import Deadline
from embedded_broker.timer.wheel.retry import RetryWait


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

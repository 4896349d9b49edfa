"""Every answer of a put has one meaning."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from embedded_broker.clocks.timeline import Deadline
from embedded_broker.store.put_values import PutStatus
from embedded_broker.timer import delivery
from embedded_broker.timer.delivery import HOPELESS, SOON_BETTER, RetryWait, released_since
from rocketmq_py.protocol.properties import Prop
from tests.unit.embedded_broker.store.store_tools import delete_before, message, new_store


def test_no_answer_means_two_things_and_a_flush_that_timed_out_means_stored() -> None:
    assert not any(status.is_stored for status in HOPELESS | SOON_BETTER)
    assert not HOPELESS & SOON_BETTER
    assert PutStatus.PUT_OK.is_stored
    assert PutStatus.FLUSH_DISK_TIMEOUT.is_stored
    assert PutStatus.UNKNOWN_ERROR not in HOPELESS | SOON_BETTER
    assert not PutStatus.UNKNOWN_ERROR.is_stored


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


# --- copies that were released -------------------------------------------------------------------


@pytest.mark.parametrize("window", [32, 100, 1 << 20])
def test_every_released_copy_is_found_from_any_record_on(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_WINDOW", window)
    random, store = Random(5), new_store()
    puts: list[tuple[int, int | None]] = []
    for number in range(60):
        one = message(number)
        source = number * 7 if random.random() < 0.2 else None
        if source is not None:
            one.properties[Prop.TIMER_SRC_OFFSET] = str(source)
            one.properties["OTHER"] = Prop.TIMER_SRC_OFFSET  # the name twice is one copy
        elif random.random() < 0.2:
            one.body = f"a body with {Prop.TIMER_SRC_OFFSET} in it".encode()
        puts.append((store.put(one).commit_log_offset, source))
    assert len(store.log.files.files) > 5
    for start, _ in puts:
        expected = [source for offset, source in puts if offset >= start and source is not None]
        assert [one for one, _, _ in released_since(store.log, start)] == expected
    delete_before(store, 2048)
    left = [source for offset, source in puts if offset >= 2048 and source is not None]
    assert [one for one, _, _ in released_since(store.log, 0)] == left
    assert {(topic, found["UNIQ_KEY"][:2]) for _, topic, found in released_since(store.log, 0)} == {
        ("T", "ID")
    }

"""Bounded waits: when they return, when they fail, what they say."""

from threading import Event, Thread

import pytest

from embedded_broker.clocks.waiting import Onlookers, describe, wait_until
from embedded_broker.door import Door
from embedded_broker.errors import WaitTimeoutError
from rocketmq_py.clock import monotonic


def test_a_condition_that_holds_already_returns_at_once() -> None:
    looks: list[None] = []

    def holds() -> bool:
        looks.append(None)
        return True

    wait_until(
        holds,
        door=Door(),
        timeout_s=0,
        expected=lambda: "nothing",
        seen=lambda: "all",
        onlookers=Onlookers(),
    )
    assert len(looks) == 1


def test_a_condition_over_the_tests_own_variables_is_looked_at_again() -> None:
    mine: list[int] = []
    thread = Thread(target=mine.append, args=(1,))

    thread.start()
    wait_until(
        lambda: mine,
        door=Door(),
        timeout_s=10,
        expected=lambda: "mine",
        seen=lambda: "none",
        onlookers=Onlookers(),
    )
    assert mine == [1]
    thread.join()


@pytest.mark.case("K21")
def test_a_condition_that_never_holds_fails_with_what_was_expected_and_seen() -> None:
    started = monotonic()

    with pytest.raises(WaitTimeoutError) as caught:
        wait_until(
            lambda: False,
            door=Door(),
            timeout_s=0.2,
            expected=lambda: "3 messages",
            seen=lambda: "2 messages",
            onlookers=Onlookers(),
        )

    assert monotonic() - started >= 0.2
    assert str(caught.value) == "waited 0.2 s for 3 messages\nseen: 2 messages"
    assert isinstance(caught.value, TimeoutError)


def test_a_lookup_that_fails_counts_as_not_yet_and_is_told_in_the_end() -> None:
    with pytest.raises(WaitTimeoutError, match=r"the condition raised KeyError\('no topic'\)"):
        wait_until(
            lambda: dict[str, int]()["no topic"],
            door=Door(),
            timeout_s=0.01,
            expected=lambda: "it",
            seen=lambda: "nothing",
            onlookers=Onlookers(),
        )


def test_any_other_error_of_the_condition_reaches_the_caller() -> None:
    def fail() -> object:
        raise ZeroDivisionError("a bug in the test")

    door = Door()
    with pytest.raises(ZeroDivisionError):
        wait_until(
            fail,
            door=door,
            timeout_s=5,
            expected=lambda: "",
            seen=lambda: "",
            onlookers=Onlookers(),
        )
    assert door._watchers == ()


def test_a_condition_is_described_by_its_source() -> None:
    assert "value > 3" in describe(lambda value: value > 3)
    assert describe(len) == "<built-in function len>"


def test_a_condition_that_looks_into_the_broker_does_not_wake_its_own_wait() -> None:
    door = Door()
    looks: list[int] = []

    def look() -> bool:
        with door.quiet:
            looks.append(1)
        return False

    with pytest.raises(WaitTimeoutError):
        wait_until(
            look,
            door=door,
            timeout_s=0.1,
            expected=lambda: "",
            seen=lambda: "",
            onlookers=Onlookers(),
        )

    assert len(looks) <= 12


def test_a_wait_is_asked_once_more_before_every_jump() -> None:
    onlookers, stop, looked = Onlookers(), Event(), Event()
    with onlookers.watching(looked) as look:

        def answer() -> None:
            assert looked.wait(10)
            onlookers.answer(look, onlookers.turn)

        thread = Thread(target=answer)
        thread.start()
        assert onlookers.may_jump(stop, onlookers.begun)
        thread.join()


def test_time_stands_after_a_wait_that_is_over_until_the_next_begins() -> None:
    onlookers, stop = Onlookers(), Event()
    assert onlookers.may_jump(stop, 0)
    with onlookers.watching(None) as look:
        look.is_over = True
    assert not onlookers.may_jump(stop, 1)

    onlookers.begin()
    assert onlookers.may_jump(stop, 1)
    with onlookers.watching(None) as look:
        onlookers.answer(look, 4)
        assert not onlookers.may_jump(stop, 1)
        stop.set()
        assert not onlookers.may_jump(stop, 2)
    stop.clear()
    assert onlookers.may_jump(stop, 2)

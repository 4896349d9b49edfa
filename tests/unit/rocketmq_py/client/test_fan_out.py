"""Futures that become one: bounds, order, and whoever does not answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future

import pytest

from rocketmq_py.client.fan_out import (
    IN_FLIGHT_MOST,
    SideBySide,
    chained,
    first_error,
    mapped,
    value_of,
)
from rocketmq_py.errors import MQClientException, RemotingTimeoutException


class Begun:
    """Calls that the test ends; work for other threads is done when the test says so."""

    def __init__(self) -> None:
        self.open: dict[int, Future[str]] = {}
        self.tasks: list[Callable[[], object]] = []

    def begin(self, place: int) -> Future[str]:
        self.open[place] = Future()
        return self.open[place]

    def submit(self, task: Callable[..., object], *args: object) -> bool:
        self.tasks.append(lambda: task(*args))
        return True

    def ask(self, lanes: Mapping[int, object], **options: bool) -> SideBySide[int, str]:
        return SideBySide(lanes, self.begin, self.submit, **options)


def test_a_server_has_so_many_calls_before_it_and_no_more() -> None:
    begun = Begun()
    asked = begun.ask(dict.fromkeys(range(IN_FLIGHT_MOST + 2), "a") | {-1: "b"})
    assert len(begun.open) == IN_FLIGHT_MOST + 1
    begun.open[-1].set_result("other lane")
    assert begun.tasks == []
    begun.open[0].set_result("0")
    assert IN_FLIGHT_MOST not in begun.open  # the thread that has an answer asks nothing
    begun.tasks.pop()()
    assert IN_FLIGHT_MOST in begun.open
    begun.open[1].set_result("1")
    begun.tasks.pop()()
    for place, call in begun.open.items():
        if not call.done():
            call.set_result(str(place))
    outcomes = asked.result.result(0)
    assert list(outcomes) == [*range(IN_FLIGHT_MOST + 2), -1]
    assert outcomes[IN_FLIGHT_MOST + 1] == str(IN_FLIGHT_MOST + 1)


def test_who_does_not_answer_is_not_asked_the_later_ones() -> None:
    begun = Begun()
    asked = begun.ask(dict.fromkeys(range(IN_FLIGHT_MOST + 5), "a"))
    begun.open[0].set_exception(RemotingTimeoutException("silence"))
    for place in range(1, IN_FLIGHT_MOST):
        begun.open[place].set_result("late but there")
    outcomes = asked.result.result(0)
    assert len(begun.open) == IN_FLIGHT_MOST
    late = [place for place, one in outcomes.items() if isinstance(one, RemotingTimeoutException)]
    assert late == [0, *range(IN_FLIGHT_MOST, IN_FLIGHT_MOST + 5)]


def test_where_the_first_goes_alone_the_others_wait_until_one_has_succeeded() -> None:
    begun = Begun()
    asked = begun.ask(dict.fromkeys(range(5), "a") | {-1: "b"}, first_alone=True)
    assert set(begun.open) == {0, -1}
    begun.open[0].set_exception(MQClientException("no"))
    begun.tasks.pop()()
    assert set(begun.open) == {0, -1, 1}
    begun.open[1].set_result("the first success")
    begun.tasks.pop()()
    assert set(begun.open) == {0, -1, 1, 2, 3, 4}
    for place in (-1, 2, 3, 4):
        begun.open[place].set_result("later")
    assert list(asked.result.result(0)) == [0, 1, 2, 3, 4, -1]


def test_who_does_not_answer_the_first_is_not_asked_the_others() -> None:
    begun = Begun()
    asked = begun.ask(dict.fromkeys(range(5), "a"), first_alone=True)
    begun.open[0].set_exception(RemotingTimeoutException("silence"))
    outcomes = asked.result.result(0).values()
    assert set(begun.open) == {0}
    assert [type(one) for one in outcomes] == [RemotingTimeoutException] * 5


def test_a_refusal_says_nothing_of_the_later_ones() -> None:
    begun = Begun()
    asked = begun.ask({0: "a", 1: "a"})
    begun.open[0].set_exception(MQClientException("no"))
    begun.open[1].set_result("yes")
    assert value_of(asked.result.result(0)[1]) == "yes"
    assert str(first_error(asked.result.result(0).values())) == "no"
    with pytest.raises(MQClientException, match="no"):
        value_of(asked.result.result(0)[0])


def test_many_calls_that_end_at_once_take_no_deep_stack() -> None:
    def begin(place: int) -> Future[int]:
        done: Future[int] = Future()
        done.set_result(place)
        return done

    many = SideBySide(dict.fromkeys(range(5_000), "a"), begin, lambda *_: False)
    assert len(many.result.result(0)) == 5_000


def test_a_second_step_that_fails_fails_the_whole() -> None:
    first: Future[int] = Future()

    def step(_: int) -> Future[int]:
        raise ZeroDivisionError

    whole, doubled = chained(first, step), mapped(first, lambda value: value * 2)
    first.set_result(4)
    assert doubled.result(0) == 8
    with pytest.raises(ZeroDivisionError):
        whole.result(0)

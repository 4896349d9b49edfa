"""Work of long requests: where its steps are done, and who may come in between."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

import pytest

from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.door import Door
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.remoting.endpoint import BODY_BYTES_MAX, SMALL_BODY_MAX
from embedded_broker.remoting.long_requests import (
    STEPS_AT_ONCE,
    WAITING_MAX,
    LongRequests,
    Work,
    do_at_once,
    do_in_turns,
    elsewhere,
)
from embedded_broker.remoting.requests import Request
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame
from tests.unit.embedded_broker.peers import Peer

ASK = 777
GUARD_S = 20.0


def hold(event: Event) -> None:
    assert event.wait(GUARD_S)


def counting(steps: int, seen: list[str]) -> Work:
    """Take some steps, then let a text be made by a call."""
    for number in range(steps):
        seen.append(str(number))
        yield None
    remark = yield lambda: f"{len(seen)} steps"
    return RemotingCommand(0, remark=remark)


@pytest.mark.parametrize("steps", [0, 1, STEPS_AT_ONCE])
def test_a_few_steps_are_done_at_once(steps: int) -> None:
    answer = do_at_once(counting(steps, []))
    assert answer is not None
    assert answer.remark == f"{steps} steps"


@pytest.mark.parametrize("steps", [STEPS_AT_ONCE + 1, 3 * STEPS_AT_ONCE])
def test_the_others_are_done_elsewhere_and_each_step_once(steps: int) -> None:
    seen: list[str] = []
    work = counting(steps, seen)

    assert do_at_once(work) is None
    assert len(seen) == STEPS_AT_ONCE + 1
    assert do_in_turns(Door(), work).remark == f"{steps} steps"
    assert seen == [str(number) for number in range(steps)]


def test_work_that_says_so_goes_on_elsewhere() -> None:
    def work() -> Work:
        yield elsewhere
        remark = yield lambda: "made"
        return RemotingCommand(0, remark=remark)

    begun = work()
    assert do_at_once(begun) is None
    assert do_in_turns(Door(), begun).remark == "made"


def test_calls_are_made_outside_the_door_and_steps_inside() -> None:
    door = Door()
    places: list[bool] = []

    def work() -> Work:
        places.append(door.held)
        yield lambda: places.append(door.held)
        places.append(door.held)
        return RemotingCommand(0)

    do_in_turns(door, work())
    assert places == [True, False, True]


def test_so_many_wait_and_the_next_is_told_that_the_broker_is_busy() -> None:
    requests, go = LongRequests(), Event()
    for _ in range(WAITING_MAX):
        requests.do(lambda: hold(go))
    told = rf"^\[OVERLOAD\]system busy.*{WAITING_MAX} requests that take long"
    with pytest.raises(Refused, match=told) as caught:
        requests.do(lambda: None)
    assert caught.value.reason is Reason.BUSY
    go.set()
    requests.close()
    with pytest.raises(Refused):
        requests.do(lambda: None)


def test_a_small_body_is_read_here_a_larger_one_elsewhere_and_a_huge_one_not_at_all(
    make_parts: Callable[..., BrokerParts],
    caller: Peer,
    cut: Callable[..., list[Frame]],
) -> None:
    parts = make_parts()
    read = Event()
    places: list[bool] = []

    def work(request: Request) -> Work:
        yield lambda: places.append(parts.door.held)
        parts.door.after(read.set)
        return request.command.answer(0)

    parts.endpoint.register_long(ASK, work)
    for size in (SMALL_BODY_MAX, SMALL_BODY_MAX + 1, BODY_BYTES_MAX + 1):
        parts.endpoint.receive(caller, cut(RemotingCommand(ASK, opaque=size, body=bytes(size))))
        if size <= BODY_BYTES_MAX:
            assert read.wait(GUARD_S)
            read.clear()
    parts.endpoint.long_requests.close()

    answers = {answer.opaque: answer for answer in caller.answers}
    assert places == [True, False]
    assert [answers[size].code for size in sorted(answers)] == [0, 0, 1]
    assert f"{BODY_BYTES_MAX + 1} bytes, at most {BODY_BYTES_MAX}" in (
        answers[BODY_BYTES_MAX + 1].remark or ""
    )


def test_what_goes_wrong_elsewhere_is_answered_too(
    make_parts: Callable[..., BrokerParts], caller: Peer, cut: Callable[..., list[Frame]]
) -> None:
    parts = make_parts()

    def work(_: Request) -> Work:
        yield elsewhere
        raise Refused(Reason.FAILED, "no")

    parts.endpoint.register_long(ASK, work)
    done = Event()
    parts.endpoint.receive(caller, cut(RemotingCommand(ASK, opaque=1)))
    parts.endpoint.long_requests.do(done.set)
    hold(done)
    parts.endpoint.long_requests.close()

    assert [(answer.code, answer.remark) for answer in caller.answers] == [(1, "no")]

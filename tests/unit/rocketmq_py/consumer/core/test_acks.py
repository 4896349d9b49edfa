"""Acks of popped messages, which travel together when there are many."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketmq_py.consumer.core.acks import TOGETHER_MAX
from rocketmq_py.errors import RemotingConnectException
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.rocketmq_py.consumer.core.popping import ACK, ACKS, Bench, receipt
from tests.unit.rocketmq_py.consumer.fake_engine import ADDRESS, BROKER, ok, refusal


@pytest.fixture
def bench() -> Bench:
    return Bench()


def put(bench: Bench, *offsets: int) -> list[int]:
    """Put acks; the offsets of those that have ended are in the list."""
    ended: list[int] = []

    def note(offset: int) -> Callable[[], None]:
        return lambda: ended.append(offset)

    for offset in offsets:
        bench.acks.put(receipt(offset), note(offset))
    return ended


def test_one_ack_goes_alone_and_several_together(bench: Bench) -> None:
    assert put(bench, 0) == []
    bench.engine.run_tasks()
    ended = put(bench, 1, 2, 3)
    bench.engine.run_tasks()
    assert bench.acked() == [[0], [1, 2, 3]]
    assert [command.code for _, command in bench.engine.calls] == [ACK, ACKS]
    assert ended == [1, 2, 3]
    assert bench.acks.wait(0)


def test_what_comes_while_a_request_is_under_way_goes_with_the_next_one(bench: Bench) -> None:
    def meanwhile(_: RemotingCommand) -> RemotingCommand:
        put(bench, 1, 2)
        bench.engine.answers[ACK] = lambda _: ok()
        return ok()

    bench.engine.answers[ACK] = meanwhile
    put(bench, 0)
    bench.engine.run_tasks()
    assert bench.acked() == [[0], [1, 2]]


def test_a_request_has_a_bounded_number_of_acks(bench: Bench) -> None:
    ended = put(bench, *range(TOGETHER_MAX + 2))
    bench.engine.run_tasks()
    assert [len(offsets) for offsets in bench.acked()] == [TOGETHER_MAX, 2]
    assert len(ended) == TOGETHER_MAX + 2


def test_a_broker_without_batches_gets_single_acks(bench: Bench) -> None:
    code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    bench.engine.answers[ACKS] = lambda _: refusal(code, "no batches")
    ended = put(bench, 0, 1)
    bench.engine.run_tasks()
    assert bench.acked() == [[0, 1], [0], [1]]
    assert ended == [0, 1]
    put(bench, 2, 3)
    bench.engine.run_tasks()
    assert bench.acked()[3:] == [[2], [3]]


@pytest.mark.parametrize("trouble", ["refusal", "closed", "no route", "gone"])
def test_an_ack_that_fails_has_ended_and_the_next_one_is_sent(bench: Bench, trouble: str) -> None:
    def answer(_: RemotingCommand) -> RemotingCommand:
        if trouble == "closed":
            raise RemotingConnectException(ADDRESS)
        return refusal(ResponseCode.NO_MESSAGE if trouble == "gone" else ResponseCode.SYSTEM_ERROR)

    bench.engine.answers[ACK] = bench.engine.answers[ACKS] = answer
    if trouble == "no route":
        bench.engine.addresses.clear()
    ended = put(bench, 0, 1)
    bench.engine.run_tasks()
    assert ended == [0, 1]
    assert bench.acks.wait(0)
    bench.engine.addresses[BROKER, 0] = ADDRESS
    bench.engine.answers[ACK] = lambda _: ok()
    put(bench, 2)
    bench.engine.run_tasks()
    assert bench.acked()[-1] == [2]


def test_a_call_that_raises_by_itself_keeps_no_later_ack_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a hook of the application")

    with monkeypatch.context() as broken:
        broken.setattr(bench.engine, "invoke_async", fail)
        ended = put(bench, 0, 1)
        bench.engine.run_tasks()
    assert ended == [0, 1]
    put(bench, 2)
    bench.engine.run_tasks()
    assert bench.acked() == [[2]]


def test_nobody_waits_for_ever_for_an_ack_without_an_answer(bench: Bench) -> None:
    put(bench, 0)
    assert not bench.acks.wait(0)

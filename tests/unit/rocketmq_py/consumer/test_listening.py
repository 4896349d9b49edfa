"""What listeners of each shape say, as verdicts; and what they say when a broker asks (309)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from rocketmq_py.consumer.core.delivery import Delivery, Settlement
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.core.outcome import AS_ATTEMPT, DEAD, Hold, Later, Outcome
from rocketmq_py.consumer.dispatch.listener_calls import Handler, Verdict
from rocketmq_py.consumer.listener import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    DeliveryListener,
    MessageListenerOrderly,
    listening_of,
)
from rocketmq_py.consumer.listening import consume_directly, handler_of
from rocketmq_py.errors import RocketMQError, UnsupportedOperationError
from rocketmq_py.message import MessageExt
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import GROUP, message

QUEUE = MessageQueue("T", "broker-a", 0)
SUSPEND_MS = 1_234
DONE, LATER = list(ConsumeConcurrentlyStatus)
SUCCESS, ROLLBACK, COMMIT, SUSPEND = list(ConsumeOrderlyStatus)
HOLD = Hold(SUSPEND_MS)
NONSENSE: list[object] = [None, True, 0, "SUCCESS", [], 3.5]

Words = Callable[[Any], object]


def verdict_of(listener: object, count: int = 3) -> Verdict:
    """What a listener says about three messages."""
    return call(handler_of(listening_of(listener), GROUP, lambda: SUSPEND_MS), count)


def call(handler: Handler, count: int = 3) -> Verdict:
    """Call a handler with three messages."""
    lane = Lane(QUEUE, 0, fetched_at=0.0)
    messages = [message(offset) for offset in range(count)]
    lane.put(messages)

    def refuse(*_: object) -> Any:
        raise RocketMQError("not asked for here")

    settlement = Settlement(messages, lane, refuse)
    if handler.settles:
        return handler(Delivery(messages, settlement, refuse, refuse))
    return handler(messages, QUEUE)


def test_a_listener_that_empties_its_list_and_fails_has_its_messages_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def listen(messages: list[MessageExt], _context: object) -> Any:
        messages.clear()
        raise LookupError("theirs")

    assert verdict_of(listen).done == 0
    assert "message ID0 of topic T" in caplog.text
    assert "and 2 more" in caplog.text


def raising(_messages: object, _context: object) -> Any:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("ack_index", "done"), [(2**31 - 1, 3), (2, 3), (1, 2), (0, 1), (-1, 0), (-7, 0)]
)
@pytest.mark.case("T72")
def test_of_a_batch_the_messages_up_to_the_ack_index_are_done(ack_index: int, done: int) -> None:
    def listen(_: list[MessageExt], context: ConsumeConcurrentlyContext) -> Any:
        assert context.message_queue == QUEUE
        context.ack_index = ack_index
        return DONE

    verdict = verdict_of(listen)
    handled = [0, 1, 2][: verdict.done]
    assert len(handled) == done
    assert verdict._replace(done=done) == Verdict(done, status=DONE)


@pytest.mark.parametrize(
    ("level", "rest"), [(0, AS_ATTEMPT), (1, Later(1)), (18, Later(18)), (-1, DEAD), (-5, DEAD)]
)
def test_what_is_not_done_comes_again_after_the_level_of_the_context(
    level: int, rest: Outcome
) -> None:
    def listen(_: list[MessageExt], context: ConsumeConcurrentlyContext) -> Any:
        context.delay_level_when_next_consume = level
        return LATER

    assert verdict_of(listen) == Verdict(0, rest, status=LATER)


@pytest.mark.parametrize(
    ("status", "commits", "verdict"),
    [
        (SUCCESS, True, Verdict(3)),
        (COMMIT, True, Verdict(3)),
        (ROLLBACK, True, Verdict(3)),
        (SUSPEND, True, Verdict(0, HOLD)),
        (SUCCESS, False, Verdict(3, waits=True)),
        (COMMIT, False, Verdict(3)),
        (ROLLBACK, False, Verdict(0, HOLD, again=True)),
        (SUSPEND, False, Verdict(0, HOLD)),
    ],
)
def test_orderly_statuses_mean_something_else_without_auto_commit(
    status: ConsumeOrderlyStatus, commits: bool, verdict: Verdict
) -> None:
    def listen(_: list[MessageExt], context: ConsumeOrderlyContext) -> Any:
        assert context.message_queue == QUEUE
        context.auto_commit = commits
        return status

    assert verdict_of(MessageListenerOrderly(listen)) == verdict._replace(status=status)


@pytest.mark.case("T73")
@pytest.mark.parametrize("nonsense", NONSENSE, ids=repr)
def test_nonsense_is_no_success_of_any_listener_and_is_told_once(
    nonsense: object, caplog: pytest.LogCaptureFixture
) -> None:
    def listen(*_: object) -> Any:
        return nonsense

    orderly = MessageListenerOrderly(listen)
    assert verdict_of(listen) == Verdict(0, status=LATER, problem="RETURNNULL")
    assert verdict_of(orderly) == Verdict(0, HOLD, status=SUSPEND, problem="RETURNNULL")
    told = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert ["CONSUME_SUCCESS" in one for one in told] == [True, False]
    assert "return ConsumeOrderlyStatus.SUCCESS" in told[1]


def test_the_status_of_another_kind_of_listener_is_nonsense() -> None:
    assert verdict_of(lambda _m, _c: SUCCESS).done == 0
    assert verdict_of(MessageListenerOrderly(lambda _m, _c: DONE)).done == 0  # type: ignore[arg-type, return-value]


def test_an_exception_even_of_an_exit_is_no_success(caplog: pytest.LogCaptureFixture) -> None:
    assert verdict_of(raising) == Verdict(0, status=LATER, problem="EXCEPTION")
    orderly = verdict_of(MessageListenerOrderly(raising))
    assert orderly == Verdict(0, HOLD, status=SUSPEND, problem="EXCEPTION")
    assert verdict_of(DeliveryListener(lambda _: raising(0, 0))) == Verdict(0)
    assert caplog.text.count(": the listener failed (told once a minute") == 3


@pytest.mark.parametrize(
    "listener",
    [raising, MessageListenerOrderly(raising), DeliveryListener(lambda _: raising(0, 0))],
    ids=["messages", "in order", "delivery"],
)
def test_a_listener_that_always_raises_is_one_line_a_minute(
    caplog: pytest.LogCaptureFixture, listener: Any
) -> None:
    handler = handler_of(listening_of(listener), GROUP, lambda: SUSPEND_MS)
    for _ in range(100):
        call(handler)
    (line,) = caplog.records
    assert line.levelname == "WARNING"
    assert "message ID0 of" in line.getMessage()
    assert line.exc_info is not None


# --- when a broker asks -------------------------------------------------------------------------


def asked(listener: object) -> tuple[str, str | None]:
    return consume_directly(GROUP, listening_of(listener), message(0), QUEUE)


@pytest.mark.parametrize(
    ("listener", "result"),
    [
        (lambda _m, _c: DONE, "CR_SUCCESS"),
        (lambda _m, _c: LATER, "CR_LATER"),
        (MessageListenerOrderly(lambda _m, _c: SUCCESS), "CR_SUCCESS"),
        (MessageListenerOrderly(lambda _m, _c: COMMIT), "CR_COMMIT"),
        (MessageListenerOrderly(lambda _m, _c: ROLLBACK), "CR_ROLLBACK"),
        (MessageListenerOrderly(lambda _m, _c: SUSPEND), "CR_LATER"),
        (DeliveryListener(lambda delivery: delivery.ack()), "CR_SUCCESS"),
        (DeliveryListener(lambda delivery: delivery.nack()), "CR_LATER"),
        (DeliveryListener(lambda delivery: delivery.dead()), "CR_LATER"),
    ],
)
def test_a_message_that_is_consumed_directly_has_a_result_in_every_shape(
    listener: object, result: str
) -> None:
    assert asked(listener) == (result, None)


def test_a_delivery_that_waits_when_its_listener_returns_says_so() -> None:
    result, remark = asked(DeliveryListener(lambda _delivery: None))
    assert result == "CR_SUCCESS"
    assert remark is not None
    assert "not settled" in remark


@pytest.mark.parametrize(
    ("wrap", "nonsense"),
    [
        *((lambda one: one, nonsense) for nonsense in (*NONSENSE, SUCCESS)),
        *((MessageListenerOrderly, nonsense) for nonsense in (*NONSENSE, DONE)),
    ],
)
def test_nonsense_is_a_result_of_its_own(wrap: Words, nonsense: object) -> None:
    result, remark = asked(wrap(lambda _m, _c: nonsense))
    assert result == "CR_RETURN_NULL"
    assert (remark is None) == (nonsense is None)


@pytest.mark.parametrize(
    "listener",
    [raising, MessageListenerOrderly(raising), DeliveryListener(lambda _: raising(0, 0))],
)
def test_an_exception_is_told_to_who_asked(listener: object) -> None:
    assert asked(listener) == ("CR_THROW_EXCEPTION", "SystemExit: 3")


def test_where_commits_are_not_possible_turning_auto_commit_off_raises_in_the_listener(
    caplog: pytest.LogCaptureFixture,
) -> None:
    raised: list[BaseException] = []

    def listen(_: list[MessageExt], context: ConsumeOrderlyContext) -> Any:
        context.auto_commit = True
        context.suspend_current_queue_time_millis = 20
        try:
            context.auto_commit = False
        except UnsupportedOperationError as error:
            raised.append(error)
            raise
        return ConsumeOrderlyStatus.SUCCESS

    listening = listening_of(MessageListenerOrderly(listen))
    handler = handler_of(listening, GROUP, lambda: SUSPEND_MS, commits=False)
    assert not handler.settles
    verdict = handler([message(0)], QUEUE)
    assert (verdict.done, verdict.rest, verdict.problem) == (0, Hold(20), "EXCEPTION")
    assert "auto_commit = False is not possible with client_rebalance=False" in str(raised[0])
    assert "auto_commit = False is not possible" in caplog.text

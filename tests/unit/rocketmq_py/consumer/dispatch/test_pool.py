from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.core.broker_offsets import BrokerOffsets
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.core.progress import OffsetProgress
from rocketmq_py.consumer.dispatch import pacing
from rocketmq_py.consumer.dispatch.pool import PoolDispatch
from rocketmq_py.consumer.listener import ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus
from rocketmq_py.consumer.listening import ConcurrentHandler
from rocketmq_py.consumer.send_back import SendBack
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import (
    GROUP,
    FakeClock,
    FakeEngine,
    InlinePool,
    message,
    ok,
    queues_of,
)

QUEUE = MessageQueue("T", "broker-a", 0)
DONE = ConsumeConcurrentlyStatus.CONSUME_SUCCESS
LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER
MINUTE_MS = 60_000

Listen = Callable[[Sequence[MessageExt], ConsumeConcurrentlyContext], Any]


class Bench:
    def __init__(self, listener: Listen, config: PushConsumerConfig | None = None) -> None:
        self.engine = FakeEngine()
        self.engine.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _: ok()
        self.config = config or PushConsumerConfig()
        calls = ConsumerCalls(self.engine, GROUP, self.config)
        self.offsets = BrokerOffsets(self.engine, calls)
        self.clock = FakeClock()
        self.consumer = PoolDispatch(
            group=GROUP,
            engine=self.engine,
            settings=self.config,
            progress=OffsetProgress(self.offsets, SendBack(GROUP, calls, self.config), lambda _: 0),
            handler=ConcurrentHandler(GROUP, listener),
            clock=self.clock,
        )
        self.consumer.pool = InlinePool()
        self.state = Lane(QUEUE, 0, fetched_at=0.0)

    def receive(self, *offsets: int) -> None:
        messages = [message(offset) for offset in offsets]
        self.state.put(messages)
        self.consumer.deliver(self.state, messages)

    def sent_back(self) -> list[tuple[int, int]]:
        """Commit log offset / 100 and delay level of every send-back."""
        return [
            (int(command.ext_fields["offset"]) // 100, int(command.ext_fields["delayLevel"]))
            for command in self.engine.called(RequestCode.CONSUMER_SEND_MSG_BACK)
        ]

    @property
    def committed(self) -> int:
        return self.offsets.in_memory(QUEUE)


def test_a_success_moves_the_offset_and_writes_it_when_the_cache_is_empty() -> None:
    seen: list[int] = []

    def listen(messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext) -> object:
        assert context.message_queue == QUEUE
        assert isinstance(messages, list)
        seen.extend(m.queue_offset for m in messages)
        return DONE

    bench = Bench(listen)
    bench.receive(0, 1, 2)
    assert seen == [0, 1, 2]
    assert bench.committed == 3
    assert bench.engine.stored_offsets() == [("T", 0, 3)]


@pytest.mark.parametrize(("batch", "sizes"), [(1, [1] * 5), (2, [2, 2, 1]), (32, [5])])
def test_messages_come_in_batches_of_the_size_asked_for(batch: int, sizes: list[int]) -> None:
    seen: list[int] = []

    def listen(messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext) -> object:
        seen.append(len(messages))
        return DONE

    Bench(listen, PushConsumerConfig(consume_message_batch_max_size=batch)).receive(*range(5))
    assert seen == sizes


@pytest.mark.case("T73")
@pytest.mark.parametrize(
    "result", [None, True, "CONSUME_SUCCESS", 0], ids=["None", "bool", "str", "int"]
)
def test_anything_but_a_status_means_later_and_is_told_once(
    result: object, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(lambda _messages, _context: result)
    with caplog.at_level(logging.WARNING):
        bench.receive(0, 1)
    assert bench.sent_back() == [(0, 0), (1, 0)]
    assert bench.committed == 2
    (told,) = [record.message for record in caplog.records]
    assert "return ConsumeConcurrentlyStatus.CONSUME_SUCCESS" in told


@pytest.mark.case("T73")
@pytest.mark.parametrize("error", [LookupError("theirs"), SystemExit(3)], ids=["error", "exit"])
def test_a_listener_that_raises_means_later_and_is_logged_with_its_traceback(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def listen(messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext) -> object:
        raise error

    bench = Bench(listen)
    with caplog.at_level(logging.WARNING):
        bench.receive(0)
    assert bench.sent_back() == [(0, 0)]
    (logged,) = caplog.records
    assert logged.exc_info is not None
    assert logged.exc_info[1] is error


@pytest.mark.parametrize("answer", [LookupError("theirs"), None], ids=["raised", "none"])
def test_a_failing_call_is_logged_with_message_topic_queue_and_attempt(
    answer: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    def listen(messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext) -> object:
        if answer is not None:
            raise answer
        return answer

    bench = Bench(listen, PushConsumerConfig(consume_message_batch_max_size=2))
    failing = [message(0), message(1)]
    failing[0].properties["UNIQ_KEY"], failing[0].reconsume_times = "ABC123", 3
    bench.state.put(failing)
    bench.consumer.deliver(bench.state, failing)
    (told,) = [record.getMessage() for record in caplog.records]
    assert f"message ABC123 of topic T, queue {QUEUE}, attempt 4, and 1 more" in told


@pytest.mark.case("T72")
def test_what_lies_behind_the_ack_index_comes_again() -> None:
    def listen(messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext) -> object:
        context.ack_index = 1
        return DONE

    bench = Bench(listen, PushConsumerConfig(consume_message_batch_max_size=4))
    bench.receive(0, 1, 2, 3)
    assert bench.sent_back() == [(2, 0), (3, 0)]
    assert bench.committed == 4


@pytest.mark.parametrize(("ack_index", "back"), [(-1, [0, 1]), (-5, [0, 1]), (99, [])])
def test_an_ack_index_outside_the_batch_is_cut_to_it(ack_index: int, back: list[int]) -> None:
    def listen(messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext) -> object:
        context.ack_index = ack_index
        return DONE

    bench = Bench(listen, PushConsumerConfig(consume_message_batch_max_size=2))
    bench.receive(0, 1)
    assert [offset for offset, _ in bench.sent_back()] == back


@pytest.mark.parametrize("level", [-1, 0, 5])
def test_the_listener_chooses_the_delay_of_the_next_delivery(level: int) -> None:
    def listen(messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext) -> object:
        context.delay_level_when_next_consume = level
        return LATER

    bench = Bench(listen)
    bench.receive(7)
    assert bench.sent_back() == [(7, level)]


@pytest.mark.case("W85")
def test_a_send_back_names_what_the_broker_needs() -> None:
    bench = Bench(lambda _messages, _context: LATER)
    bench.receive(7)
    (command,) = bench.engine.called(RequestCode.CONSUMER_SEND_MSG_BACK)
    assert command.ext_fields == {
        "offset": "700",
        "group": GROUP,
        "delayLevel": "0",
        "originMsgId": "ID7",
        "originTopic": "T",
        "unitMode": "false",
        "maxReconsumeTimes": "16",
        "bname": "broker-a",
    }


@pytest.mark.case("T76")
def test_the_offset_waits_for_a_message_that_could_not_be_sent_back() -> None:
    bench = Bench(lambda messages, _context: LATER if messages[0].queue_offset == 1 else DONE)
    del bench.engine.answers[RequestCode.CONSUMER_SEND_MSG_BACK]
    bench.receive(0, 1, 2)
    assert bench.committed == 1
    bench.engine.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _: ok()
    assert bench.engine.run_scheduled()[-1] == 5000
    assert bench.committed == 3
    head = bench.sent_back()[-1]
    assert head == (1, 0)


def test_a_message_that_stays_here_counts_its_attempts() -> None:
    seen: list[int] = []

    def listen(messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext) -> object:
        seen.append(messages[0].reconsume_times)
        return LATER

    bench = Bench(listen)
    del bench.engine.answers[RequestCode.CONSUMER_SEND_MSG_BACK]
    bench.receive(0)
    bench.engine.run_scheduled()
    bench.engine.run_scheduled()
    assert seen == [0, 1, 2]


def test_results_for_a_queue_that_went_away_are_thrown_away() -> None:
    def listen(messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext) -> object:
        bench.state.dropped = True
        return LATER

    bench = Bench(listen)
    bench.receive(0)
    assert bench.committed == -1
    assert bench.sent_back() == []
    bench.receive(1)
    assert bench.state.count == 2


@pytest.mark.case("T75")
def test_a_message_stuck_for_longer_than_the_timeout_is_sent_back_with_level_3() -> None:
    swept: list[int] = []

    def listen(messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext) -> object:
        bench.clock.now_ms += 15 * MINUTE_MS
        swept.append(bench.consumer.sweep([bench.state]))
        bench.clock.now_ms += 1
        swept.append(bench.consumer.sweep([bench.state]))
        return LATER

    bench = Bench(listen)
    bench.receive(4)
    assert swept == [0, 1]
    # The listener failed as well, but its message was no longer here.
    assert bench.sent_back() == [(4, 3)]
    assert bench.committed == 5


@pytest.mark.case("T75")
def test_one_sweep_sends_back_sixteen_heads_at_most_and_none_that_did_not_begin() -> None:
    bench = Bench(lambda _messages, _context: DONE)
    began = [message(offset) for offset in range(20)]
    for each in began:
        each.properties["CONSUME_START_TIME"] = str(bench.clock.now_ms - 16 * MINUTE_MS)
    bench.state.put([*began, message(20)])
    assert bench.consumer.sweep([bench.state]) == 16
    assert bench.consumer.sweep([bench.state]) == 4
    assert bench.consumer.sweep([bench.state]) == 0
    assert bench.committed == 20


def test_a_sweep_that_cannot_send_back_keeps_the_message() -> None:
    bench = Bench(lambda _messages, _context: DONE)
    stuck = message(0)
    stuck.properties["CONSUME_START_TIME"] = "1"
    bench.state.put([stuck])
    del bench.engine.answers[RequestCode.CONSUMER_SEND_MSG_BACK]
    assert bench.consumer.sweep([bench.state]) == 0
    assert bench.state.holds(stuck)


def test_the_listener_sees_when_its_call_began() -> None:
    seen: list[str] = []

    def listen(messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext) -> object:
        seen.append(messages[0].properties["CONSUME_START_TIME"])
        return DONE

    bench = Bench(listen)
    bench.receive(0)
    assert seen == [str(bench.clock.now_ms)]


def test_a_copy_is_published_to_the_retry_topic_when_the_broker_refuses_to_take_it_back() -> None:
    bench = Bench(lambda _messages, _context: LATER)
    del bench.engine.answers[RequestCode.CONSUMER_SEND_MSG_BACK]
    bench.engine.queues[f"%RETRY%{GROUP}"] = queues_of(f"%RETRY%{GROUP}", 1)
    bench.engine.answers[RequestCode.SEND_MESSAGE_V2] = lambda _: ok()
    bench.receive(0)
    assert len(bench.engine.called(RequestCode.SEND_MESSAGE_V2)) == 1
    assert bench.committed == 1


def test_calls_beyond_the_rate_of_their_topic_wait_without_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pacing, "monotonic", lambda: 100.0)
    seen: list[int] = []

    def listen(messages: Sequence[MessageExt], _: ConsumeConcurrentlyContext) -> object:
        seen.extend(m.queue_offset for m in messages)
        return DONE

    bench = Bench(listen)
    bench.consumer._pace.limit("T", 2)
    bench.receive(0, 1, 2)
    assert (seen, bench.consumer.unfinished) == ([0], 2)
    assert [one.delay_ms for one in bench.engine.scheduled] == [500.0, 1000.0]
    for one in list(bench.engine.scheduled):
        one.task()
    assert (seen, bench.consumer.unfinished, bench.committed) == ([0, 1, 2], 0, 3)


def test_messages_wait_for_a_full_batch_as_long_as_is_set() -> None:
    seen: list[list[int]] = []

    def listen(messages: Sequence[MessageExt], _: ConsumeConcurrentlyContext) -> object:
        seen.append([m.queue_offset for m in messages])
        return DONE

    config = PushConsumerConfig(
        consume_message_batch_max_size=2, consume_message_batch_max_wait=5000
    )
    bench = Bench(listen, config)
    bench.receive(0)
    assert (seen, bench.consumer.unfinished) == ([], 1)
    bench.receive(1, 2)
    assert (seen, bench.committed) == ([[0, 1]], 2)
    late = bench.engine.scheduled[-1]
    assert late.delay_ms == 5000
    late.task()
    assert (seen, bench.consumer.unfinished, bench.committed) == ([[0, 1], [2]], 0, 3)

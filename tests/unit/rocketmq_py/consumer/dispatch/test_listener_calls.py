"""One call of a listener: the room of its bodies, the stamp of its start, deliveries on a pool."""

from __future__ import annotations

import gc
import zlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.core.broker_offsets import BrokerOffsets
from rocketmq_py.consumer.core.delivery import Delivery
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.core.progress import OffsetProgress
from rocketmq_py.consumer.dispatch.listener_calls import MINUTE_MS, NO_ROOM_WAIT_MS
from rocketmq_py.consumer.dispatch.pool import LOCAL_RETRY_WAIT_MS, PoolDispatch
from rocketmq_py.consumer.listener import ConsumeConcurrentlyStatus, DeliveryListener, listening_of
from rocketmq_py.consumer.listening import handler_of
from rocketmq_py.consumer.send_back import NoRetries, SendBack
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.errors import DeliveryEndedError, MQClientException, UnsupportedOperationError
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.sysflag import COMPRESSED
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import (
    GROUP,
    FakeClock,
    FakeEngine,
    InlinePool,
    message,
    ok,
)

QUEUE = MessageQueue("T", "broker-a", 0)
ROOM = 1_000


class Bench:
    """A pool whose listener settles by itself."""

    def __init__(self, listener: object = None, *, broadcasting: bool = False) -> None:
        self.engine = FakeEngine()
        self.engine.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _: ok()
        self.config = PushConsumerConfig(
            consume_timeout=1, decompressed_body_max_bytes=ROOM, decompressed_total_max_bytes=ROOM
        )
        calls = ConsumerCalls(self.engine, GROUP, self.config)
        self.offsets = BrokerOffsets(self.engine, calls)
        self.clock = FakeClock()
        self.held: list[Delivery] = []
        listening = listening_of(listener or DeliveryListener(self.held.append))
        retries = (
            NoRetries(GROUP, "each once") if broadcasting else SendBack(GROUP, calls, self.config)
        )
        self.pool = PoolDispatch(
            group=GROUP,
            engine=self.engine,
            settings=self.config,
            progress=OffsetProgress(self.offsets, retries, lambda _: 0),
            handler=handler_of(listening, GROUP, lambda: 0),
            clock=self.clock,
        )
        self.pool.pool = InlinePool()
        self.lane = Lane(QUEUE, 0, fetched_at=0.0)

    def receive(self, *messages: int | MessageExt) -> None:
        cached = [message(one) if isinstance(one, int) else one for one in messages]
        self.lane.put(cached)
        self.pool.deliver(self.lane, cached)

    def levels(self) -> list[str]:
        commands = self.engine.called(RequestCode.CONSUMER_SEND_MSG_BACK)
        return [command.ext_fields["delayLevel"] for command in commands]

    @property
    def committed(self) -> int:
        return self.offsets.in_memory(QUEUE)


def packed(offset: int, size: int) -> MessageExt:
    made = message(offset, body=zlib.compress(bytes(size)))
    made.sys_flag = COMPRESSED
    return made


# --- room ---------------------------------------------------------------------------------------


def test_the_room_of_bodies_is_kept_as_long_as_the_program_has_its_delivery() -> None:
    bench = Bench()
    bench.receive(packed(0, ROOM), packed(1, ROOM))
    assert [len(one.message.body) for one in bench.held] == [ROOM]
    assert bench.pool.calls.bodies.held == ROOM
    assert bench.lane.size > ROOM
    bench.held.pop().ack()
    gc.collect()
    assert bench.pool.calls.bodies.held == 0
    assert bench.engine.run_scheduled() == [NO_ROOM_WAIT_MS]
    assert [one.message.queue_offset for one in bench.held] == [1]


def test_a_listener_that_returns_a_status_gives_its_room_back_whatever_it_does() -> None:
    def raising(_messages: object, _context: object) -> ConsumeConcurrentlyStatus:
        raise SystemExit

    bench = Bench(raising)
    bench.receive(packed(0, ROOM), packed(1, ROOM))
    assert bench.pool.calls.bodies.held == 0
    assert bench.levels() == ["0", "0"]


def test_the_start_of_a_call_is_stamped() -> None:
    bench = Bench()
    bench.receive(0)
    started = bench.held[0].message.properties[Prop.CONSUME_START_TIME]
    assert started == str(bench.clock.now_ms)
    bench.clock.now_ms += 5
    assert bench.pool.calls.age_ms(bench.held[0].message) == 5
    assert bench.pool.calls.age_ms(message(1)) == -1


def test_a_listener_may_change_its_list() -> None:
    def clearing(messages: list[MessageExt], _context: object) -> ConsumeConcurrentlyStatus:
        messages.clear()
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    bench = Bench(clearing)
    bench.receive(0, 1)
    assert bench.committed == 2


# --- deliveries ---------------------------------------------------------------------------------


def test_deliveries_are_settled_in_any_order_and_the_offset_waits_for_the_first() -> None:
    bench = Bench()
    bench.receive(0, 1, 2)
    bench.held[2].ack().result(0)
    bench.held[1].ack().result(0)
    assert bench.committed == 0
    bench.held[0].ack().result(0)
    assert bench.committed == 3


@pytest.mark.parametrize(
    ("say", "level"),
    [
        (lambda one: one.nack(), "0"),
        (lambda one: one.nack(timedelta(seconds=31)), "5"),
        (lambda one: one.dead(), "-1"),
    ],
)
def test_what_comes_again_is_sent_back_in_background(
    say: Callable[[Delivery], Any], level: str
) -> None:
    bench = Bench()
    bench.receive(0)
    ended = say(bench.held[0])
    assert not ended.done()  # whoever settles, perhaps an event loop, waits for no broker
    bench.engine.run_tasks()
    ended.result(0)
    assert bench.levels() == [level]
    assert bench.committed == 1


def test_who_settles_learns_that_no_broker_took_the_message_and_it_is_handed_over_again() -> None:
    bench = Bench()
    bench.engine.answers.clear()
    bench.receive(0)
    ended = bench.held[0].nack()
    bench.engine.run_tasks()
    assert isinstance(ended.exception(0), MQClientException)
    assert bench.engine.run_scheduled() == [LOCAL_RETRY_WAIT_MS]
    assert [one.attempt for one in bench.held] == [1, 2]
    bench.held[1].ack()
    assert bench.committed == 1


def test_a_listener_that_raises_before_it_settles_gets_the_message_again() -> None:
    def listen(delivery: Delivery) -> None:
        if delivery.message.queue_offset == 1:
            delivery.ack()
        raise LookupError("theirs")

    bench = Bench(listen)
    bench.receive(0, 1)
    bench.engine.run_tasks()
    assert bench.levels() == ["0"]
    assert bench.committed == 2


def test_in_broadcasting_a_listener_that_raises_passes_its_message_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def listen(_delivery: Delivery) -> None:
        raise LookupError("theirs")

    bench = Bench(listen, broadcasting=True)
    bench.receive(0)
    bench.engine.run_tasks()
    assert bench.committed == 1
    assert "each once" in caplog.text


def test_in_broadcasting_a_delivery_can_only_be_handled() -> None:
    bench = Bench(broadcasting=True)
    bench.receive(0)
    for say in (bench.held[0].nack, bench.held[0].dead):
        with pytest.raises(UnsupportedOperationError):
            say()
    bench.held[0].ack()
    assert bench.committed == 1


def test_a_delivery_that_is_not_settled_is_taken_back_after_consume_timeout() -> None:
    bench = Bench()
    bench.receive(0)
    bench.clock.now_ms += MINUTE_MS + 1
    assert bench.pool.sweep([bench.lane]) == 1
    assert bench.levels() == ["3"]
    assert bench.committed == 1
    with pytest.raises(DeliveryEndedError, match="consume_timeout"):
        bench.held[0].ack()
    assert bench.committed == 1


def test_a_delivery_of_a_queue_that_has_gone_cannot_be_settled() -> None:
    bench = Bench()
    bench.receive(0)
    bench.lane.dropped = True
    with pytest.raises(DeliveryEndedError, match="does not have the queue"):
        bench.held[0].ack()
    assert bench.committed == -1

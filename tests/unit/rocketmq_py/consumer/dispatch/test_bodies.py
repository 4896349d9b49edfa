from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Sequence
from typing import Any

import pytest
from lz4 import frame as lz4
from zstandard import ZstdCompressor

from rocketmq_py.client.queue_requests import pull_answer
from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.core.broker_offsets import BrokerOffsets
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.core.progress import OffsetProgress
from rocketmq_py.consumer.core.receive import receive
from rocketmq_py.consumer.dispatch.pool import PoolDispatch
from rocketmq_py.consumer.listener import ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus
from rocketmq_py.consumer.listening import ConcurrentHandler
from rocketmq_py.consumer.send_back import SendBack
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.send import SendMessageRequestHeader
from rocketmq_py.protocol.message_codec import encode_batch
from rocketmq_py.protocol.sysflag import INNER_BATCH, NEED_UNWRAP
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import (
    GROUP,
    FakeClock,
    FakeEngine,
    InlinePool,
    ok,
    pulled,
    queues_of,
    record,
    refusal,
)

QUEUE = MessageQueue("T", "broker-a", 0)
DONE = ConsumeConcurrentlyStatus.CONSUME_SUCCESS
KIB = 1024
ZLIB, LZ4, ZSTD = 0x301, 0x101, 0x201
PACK = {ZLIB: zlib.compress, LZ4: lz4.compress, ZSTD: ZstdCompressor().compress}
RETRY = f"%RETRY%{GROUP}"


class Bench:
    """A consumer whose listener notes what it gets, and the queue that its messages are from."""

    def __init__(self, **settings: int) -> None:
        self.engine = FakeEngine()
        self.engine.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _: ok()
        self.engine.answers[RequestCode.SEND_MESSAGE_V2] = lambda _: ok()
        self.engine.queues[RETRY] = queues_of(RETRY, 1)
        self.config = PushConsumerConfig(consume_message_batch_max_size=32)
        for name, value in settings.items():  # the body's bound first, as a user must
            setattr(self.config, name, value)
        calls = ConsumerCalls(self.engine, GROUP, self.config)
        self.offsets = BrokerOffsets(self.engine, calls)
        self.consumer = PoolDispatch(
            group=GROUP,
            engine=self.engine,
            settings=self.config,
            progress=OffsetProgress(self.offsets, SendBack(GROUP, calls, self.config), lambda _: 0),
            handler=ConcurrentHandler(GROUP, self.listen),
            clock=FakeClock(),
        )
        self.consumer.pool = InlinePool()
        self.state = Lane(QUEUE, 0, fetched_at=0.0)
        self.calls: list[list[bytes]] = []
        self.most_at_once = 0
        self.size_in_listener = 0
        self.status: object = DONE

    def listen(self, messages: Sequence[MessageExt], _: ConsumeConcurrentlyContext) -> Any:
        self.calls.append([message.body for message in messages])
        self.most_at_once = max(self.most_at_once, sum(len(one.body) for one in messages))
        self.size_in_listener = self.state.size
        return self.status

    def take(self, *records: bytes) -> list[MessageExt]:
        """Take an answer of these records, as the pull loop does."""
        answer = pull_answer(pulled(b"".join(records), next_offset=99))
        received = receive(answer, QUEUE, asked_offset=0, group=GROUP)
        assert received.problem is None
        self.state.put(received.messages)
        return received.messages

    def deliver(self, *records: bytes) -> None:
        self.consumer.deliver(self.state, self.take(*records))

    def run_scheduled(self) -> None:
        waiting, self.engine.scheduled = self.engine.scheduled, []
        for handle in waiting:
            handle.task()

    @property
    def sent_back(self) -> list[int]:
        return [
            int(command.ext_fields["offset"]) // 100
            for command in self.engine.called(RequestCode.CONSUMER_SEND_MSG_BACK)
        ]


def packed(offset: int, body: bytes, kind: int = ZLIB) -> bytes:
    return record(offset, body=PACK[kind](body), sys_flag=kind)


@pytest.mark.parametrize("kind", PACK)
def test_what_was_pulled_takes_no_more_memory_than_on_the_wire(kind: int) -> None:
    bench = Bench()
    wire = [packed(offset, bytes(1 << 20), kind) for offset in range(32)]
    bench.take(*wire)
    assert bench.state.size <= sum(map(len, wire))


@pytest.mark.parametrize("kind", PACK)
def test_the_listener_gets_bodies_as_they_were_sent(kind: int) -> None:
    bench = Bench()
    bench.deliver(record(0, body=b"plain"), packed(1, b"text " * 2000, kind))
    assert bench.calls == [[b"plain", b"text " * 2000]]
    assert bench.offsets.in_memory(QUEUE) == 2


def test_a_listener_never_holds_more_than_the_bound_of_the_consumer() -> None:
    bench = Bench(decompressed_body_max_bytes=100 * KIB, decompressed_total_max_bytes=256 * KIB)
    bench.deliver(*(packed(offset, bytes(100 * KIB)) for offset in range(5)))
    assert [len(call) for call in bench.calls] == [2]
    bench.run_scheduled()
    bench.run_scheduled()
    assert [len(call) for call in bench.calls] == [2, 2, 1]
    assert bench.most_at_once <= 256 * KIB
    assert bench.offsets.in_memory(QUEUE) == 5


def test_messages_for_which_there_is_no_room_wait_and_no_thread_does() -> None:
    bench = Bench(decompressed_body_max_bytes=100 * KIB, decompressed_total_max_bytes=100 * KIB)
    entered, leave = threading.Event(), threading.Event()

    def listen(messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext) -> Any:
        if not entered.is_set():
            entered.set()
            assert leave.wait(30)
        return bench.listen(messages, context)

    bench.consumer.calls._handler = ConcurrentHandler(GROUP, listen)
    first, second = bench.take(packed(0, bytes(100 * KIB)), packed(1, bytes(100 * KIB)))
    holder = threading.Thread(target=bench.consumer.deliver, args=(bench.state, [first]))
    holder.start()
    assert entered.wait(30)
    bench.consumer.deliver(bench.state, [second])
    assert bench.calls == []
    assert "CONSUME_START_TIME" not in second.properties
    bench.run_scheduled()
    assert bench.calls == []
    leave.set()
    holder.join(30)
    bench.run_scheduled()
    assert len(bench.calls) == 2


def test_that_messages_wait_is_logged_with_the_setting(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(decompressed_body_max_bytes=10, decompressed_total_max_bytes=10)
    with bench.consumer.calls.bodies.reserved(10):
        bench.deliver(packed(0, b"x"))
        for _ in range(998):
            bench.run_scheduled()
        assert len(caplog.messages) == 1
        assert "10 bytes are decompressed" in caplog.messages[0]
        assert "decompressed_total_max_bytes 10" in caplog.messages[0]
        bench.run_scheduled()
        bench.run_scheduled()
        assert len(caplog.messages) == 2


def test_plain_messages_pass_while_there_is_no_room() -> None:
    bench = Bench(decompressed_body_max_bytes=10, decompressed_total_max_bytes=10)
    with bench.consumer.calls.bodies.reserved(10):
        bench.deliver(record(0, body=bytes(100)))
    assert bench.calls == [[bytes(100)]]


def test_decompressed_bytes_count_in_the_flow_control_while_a_listener_has_them() -> None:
    bench = Bench()
    bench.deliver(packed(0, bytes(300 * KIB)))
    assert bench.size_in_listener > 300 * KIB
    assert bench.state.size == 0


@pytest.mark.parametrize("kind", PACK)
def test_a_body_over_its_bound_is_sent_back_and_the_log_names_the_setting(
    kind: int, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(decompressed_body_max_bytes=1000)
    with caplog.at_level(logging.WARNING):
        bench.deliver(record(0), packed(1, bytes(1001), kind), packed(2, bytes(1000), kind))
    assert bench.calls == [[b"body", bytes(1000)]]
    assert bench.sent_back == [1]
    assert bench.offsets.in_memory(QUEUE) == 3
    (line,) = [one.getMessage() for one in caplog.records if "1000 bytes" in one.getMessage()]
    assert "decompressed_body_max_bytes" in line
    assert "dead letters" in line


def test_a_body_that_cannot_be_decompressed_is_sent_back_and_holds_up_no_other() -> None:
    bench = Bench()
    bench.deliver(record(0, body=b"no zlib", sys_flag=ZLIB), record(1))
    assert bench.calls == [[b"body"]]
    assert bench.sent_back == [0]
    assert bench.offsets.in_memory(QUEUE) == 2


def test_ack_index_counts_the_messages_that_the_listener_was_shown() -> None:
    bench = Bench(decompressed_body_max_bytes=1000)

    def listen(_: Sequence[MessageExt], context: ConsumeConcurrentlyContext) -> Any:
        context.ack_index = 0
        return DONE

    bench.consumer.calls._handler = ConcurrentHandler(GROUP, listen)
    bench.deliver(packed(0, bytes(1001)), packed(1, b"first"), packed(2, b"second"))
    assert sorted(bench.sent_back) == [0, 2]


def test_a_message_that_cannot_be_sent_back_is_kept_compressed_and_tried_again() -> None:
    bench = Bench()
    bench.engine.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _: refusal(1)
    bench.engine.answers[RequestCode.SEND_MESSAGE_V2] = lambda _: refusal(14)
    bench.status = ConsumeConcurrentlyStatus.RECONSUME_LATER
    bench.deliver(packed(0, bytes(300 * KIB)))
    assert 0 < bench.state.size < KIB
    assert bench.consumer.calls.bodies.held == 0
    bench.status = DONE
    bench.run_scheduled()
    assert bench.calls == [[bytes(300 * KIB)]] * 2
    assert bench.offsets.in_memory(QUEUE) == 1


def test_a_message_that_is_published_again_travels_as_it_was_stored() -> None:
    bench = Bench()
    bench.engine.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _: refusal(1)
    bench.status = ConsumeConcurrentlyStatus.RECONSUME_LATER
    bench.deliver(packed(0, bytes(300 * KIB), LZ4))
    (command,) = bench.engine.called(RequestCode.SEND_MESSAGE_V2)
    header = SendMessageRequestHeader.from_ext_v2(command.ext_fields)
    assert header.sys_flag == LZ4
    assert lz4.decompress(command.body) == bytes(300 * KIB)


def test_a_listener_that_raises_gives_its_room_back() -> None:
    bench = Bench()

    def listen(*_: object) -> Any:
        raise OSError

    bench.consumer.calls._handler = ConcurrentHandler(GROUP, listen)
    bench.deliver(packed(0, bytes(300 * KIB)))
    assert bench.consumer.calls.bodies.held == 0
    assert bench.state.size == 0


@pytest.mark.parametrize("kind", PACK)
def test_many_threads_together_keep_the_bound(kind: int) -> None:
    bench = Bench(decompressed_body_max_bytes=64 * KIB, decompressed_total_max_bytes=200 * KIB)
    bodies = bench.consumer.calls.bodies
    messages = bench.take(*(packed(offset, bytes(60 * KIB), kind) for offset in range(40)))
    lock, now, most = threading.Lock(), 0, 0

    def one(message: MessageExt) -> None:
        nonlocal now, most
        while True:
            batch = bodies.unpacked([message])
            with lock:
                now += batch.size
                most = max(most, now, bodies.held)
            with lock:
                now -= batch.size
            bodies.release(batch.size)
            if not batch.waiting:
                return

    threads = [threading.Thread(target=one, args=(message,)) for message in messages]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert 60 * KIB <= most <= 200 * KIB
    assert bodies.held == 0


# --- batches that are one record ---


def batch_of(offset: int, size: int, count: int = 1) -> bytes:
    body = zlib.compress(encode_batch([(0, bytes(size), b"")] * count))
    return record(
        offset,
        body=body,
        sys_flag=INNER_BATCH | NEED_UNWRAP | ZLIB,
        properties={"INNER_NUM": str(count), "INNER_BASE": str(offset)},
    )


def test_a_compressed_batch_that_would_fit_no_answer_is_sent_back_as_it_is() -> None:
    bench = Bench()
    bench.deliver(batch_of(0, 17 << 20), record(1))
    assert bench.calls == [[b"body"]]
    assert bench.sent_back == [0]
    assert bench.offsets.in_memory(QUEUE) == 2


def test_compressed_batches_of_one_answer_together_grow_no_larger_than_an_answer_can_be() -> None:
    records = b"".join(batch_of(offset, 6 << 20) for offset in range(4))
    received = receive(
        pull_answer(pulled(records, next_offset=4)), QUEUE, asked_offset=0, group=GROUP
    )
    assert (received.stopped_at, received.problem) == (2, None)
    assert sum(len(one.body) for one in received.messages) <= 16 << 20
    rest = receive(
        pull_answer(pulled(b"".join(batch_of(one, 6 << 20) for one in (2, 3)), next_offset=4)),
        QUEUE,
        asked_offset=2,
        group=GROUP,
    )
    assert [one.queue_offset for one in rest.messages] == [2, 3]


def test_a_batch_that_is_none_is_sent_back_once_and_holds_up_no_other() -> None:
    bench = Bench()
    odd = record(0, body=b"none", sys_flag=INNER_BATCH | NEED_UNWRAP)
    bench.deliver(odd, record(1))
    assert bench.calls == [[b"body"]]
    assert bench.sent_back == [0]

"""Clients in a process that may start no more threads: they say so, and go on when it may again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
    MQClientException,
    threads,
)
from rocketmq_py.client import instance
from rocketmq_py.client.background import GrowingPool, Timer, WorkerPool
from rocketmq_py.transport.io_thread import IoThread

WAIT_S = 30


class Limit:
    """The system's: while `refuses` says so of its name, a thread of a client does not start."""

    def __init__(self) -> None:
        self.refuses: Callable[[str], bool] = lambda _: False
        self.refused: list[str] = []
        self.hit = threading.Event()

    def of_all(self) -> None:
        self.refuses = lambda name: name.startswith(("rocketmq-", "test-"))

    def of_all_but(self, part: str) -> None:
        self.refuses = lambda name: name.startswith(("rocketmq-", "test-")) and part not in name

    def of_first(self, count: int) -> None:
        self.refuses = lambda _: len(self.refused) < count

    def lift(self) -> None:
        self.refuses = lambda _: False


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Limit]:
    made, start = Limit(), threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if made.refuses(thread.name):
            made.refused.append(thread.name)
            made.hit.set()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    for module in ("rocketmq_py.client.background", "rocketmq_py.transport.io_thread"):
        monkeypatch.setattr(f"{module}.RETRY_MS", 1)
    threads._shortage.reset()
    yield made
    made.lift()
    threads._shortage.reset()


@pytest.fixture
def timer() -> Iterator[Timer]:
    made = Timer("timer-of-test")
    made.start(WAIT_S)
    yield made
    made.close(WAIT_S)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=["T"], inproc=False) as made:
        yield made


def test_tasks_wait_for_a_thread_and_run_when_one_can_be_started(
    limit: Limit, timer: Timer
) -> None:
    pool, ran = WorkerPool("test-pool", 2, schedule_after=timer.schedule_after), threading.Event()
    limit.of_all()
    assert pool.submit(ran.set)
    assert limit.hit.wait(WAIT_S)
    assert not ran.is_set()
    limit.lift()
    assert ran.wait(WAIT_S)
    assert pool.close(WAIT_S)


def test_a_pool_with_fewer_threads_than_it_wants_gets_them_later(
    limit: Limit, timer: Timer
) -> None:
    pool = WorkerPool("test-pool", 2, schedule_after=timer.schedule_after)
    entered, leave, second = threading.Event(), threading.Event(), threading.Event()

    def block() -> None:
        entered.set()
        leave.wait(WAIT_S)

    assert pool.submit(block)
    assert entered.wait(WAIT_S)
    limit.of_all()
    assert pool.submit(second.set)
    assert limit.hit.wait(WAIT_S)
    limit.lift()
    assert second.wait(WAIT_S)
    leave.set()
    assert pool.close(WAIT_S)


def test_a_pool_for_callbacks_goes_on_too(limit: Limit, timer: Timer) -> None:
    pool, ran = GrowingPool("test-callbacks", 1, timer), threading.Event()
    limit.of_first(3)
    assert pool.submit(ran.set)
    assert ran.wait(WAIT_S)
    assert len(limit.refused) == 3
    assert pool.close(WAIT_S)


def test_threads_that_are_wanted_early_may_be_missing(limit: Limit, timer: Timer) -> None:
    pool = WorkerPool("test-pool", 4, schedule_after=timer.schedule_after)
    limit.of_all()
    pool.start(4)
    limit.lift()
    ran = threading.Event()
    assert pool.submit(ran.set)
    assert ran.wait(WAIT_S)
    assert pool.close(WAIT_S)


class Pipe:
    """The readable end of a socket pair."""

    def __init__(self) -> None:
        import socket

        self.near, self.far = socket.socketpair()
        self.was_read = threading.Event()

    def fileno(self) -> int:
        return self.near.fileno()

    def on_readable(self) -> None:
        self.near.recv(100)
        self.was_read.set()


def test_the_io_thread_reads_what_came_while_it_could_not_be_started(
    limit: Limit, timer: Timer
) -> None:
    io, pipe = IoThread("test-io", schedule_after=timer.schedule_after), Pipe()
    limit.of_all()
    io.add(pipe)
    pipe.far.send(b"x")
    assert limit.hit.wait(WAIT_S)
    limit.lift()
    assert pipe.was_read.wait(WAIT_S)
    io.forget(pipe.fileno())
    io.close(WAIT_S)
    pipe.near.close()
    pipe.far.close()


def test_a_timer_waits_a_moment_for_its_thread(limit: Limit) -> None:
    limit.of_first(2)
    timer, ran = Timer("test-timer"), threading.Event()
    timer.start(WAIT_S)
    timer.schedule_after(0, ran.set)
    assert ran.wait(WAIT_S)
    timer.close(WAIT_S)


def test_a_timer_without_a_thread_gets_it_with_its_next_task(limit: Limit) -> None:
    limit.of_first(1)
    timer, ran = Timer("test-timer"), threading.Event()
    timer.schedule_after(0, int)
    timer.schedule_after(0, ran.set)
    assert ran.wait(WAIT_S)
    timer.close(WAIT_S)


def test_a_client_that_gets_no_thread_at_all_does_not_start_and_says_what_to_look_at(
    limit: Limit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance, "THREAD_WAIT_S", 0.0)
    limit.of_all()
    producer = DefaultMQProducer("G", namesrv_addr="127.0.0.1:1")
    with pytest.raises(MQClientException, match=r"rocketmq-client-timer cannot be started.*ulimit"):
        producer.start()
    producer.shutdown()


def test_a_consumer_without_threads_says_so_once_and_receives_when_there_are_some(
    limit: Limit, broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    arrived = threading.Event()

    def listen(messages: list[MessageExt], _: Any) -> ConsumeConcurrentlyStatus:
        arrived.set()
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
    consumer.subscribe("T")
    consumer.register_message_listener(listen)
    told = threading.Event()

    def note(line: logging.LogRecord) -> bool:
        if _is_told(line):
            told.set()
        return True

    caplog.handler.addFilter(note)
    with caplog.at_level(logging.WARNING):
        limit.of_all_but("timer")
        consumer.start()
        broker.send("T", b"x")
        assert told.wait(WAIT_S)
        assert not arrived.is_set()
        limit.lift()
        assert arrived.wait(WAIT_S)
    lines = [line for line in caplog.records if _is_told(line)]
    assert [line.levelname for line in lines] == ["WARNING"]
    assert "ulimit -u" in lines[0].getMessage()
    consumer.shutdown()


def _is_told(line: logging.LogRecord) -> bool:
    return "cannot be started" in line.getMessage()


def test_a_pulled_message_waits_for_a_listener_thread(limit: Limit, broker: EmbeddedBroker) -> None:
    arrived = threading.Event()

    def listen(messages: list[MessageExt], _: Any) -> ConsumeConcurrentlyStatus:
        arrived.set()
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
    consumer.subscribe("T")
    consumer.register_message_listener(listen)
    with consumer:
        limit.refuses = lambda name: name.startswith("rocketmq-consume")
        broker.send("T", b"x")
        assert limit.hit.wait(WAIT_S)
        limit.lift()
        assert arrived.wait(WAIT_S)


@pytest.mark.parametrize("missing", ["io", "callback", "answer", "background", "async-sender"])
def test_a_producer_goes_on_whichever_thread_was_missing(
    limit: Limit, broker: EmbeddedBroker, missing: str
) -> None:
    limit.refuses = lambda name: missing in name and len(limit.refused) < 3
    with DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr, send_msg_timeout=60_000) as one:
        called = threading.Event()
        future = one.send_async(Message("T", b"a"))
        future.add_done_callback(lambda _: called.set())
        assert future.result(WAIT_S).msg_id
        assert called.wait(WAIT_S)
        assert one.send(Message("T", b"b")).msg_id


def test_the_shortage_is_told_once_a_minute_and_its_end_once(
    limit: Limit, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    monkeypatch.setattr(threads, "monotonic", lambda: now[0])
    limit.of_all()
    for second in range(0, 121, 10):
        now[0] = second
        assert not threads.started(threading.Thread(target=int, name="test-one"))
        threads.tell_of_shortage()
    assert len([line for line in caplog.messages if "cannot be started" in line]) == 3
    caplog.clear()
    limit.lift()
    assert threads.started(threading.Thread(target=int, name="test-one"))
    threads.tell_of_shortage()
    threads.tell_of_shortage()
    assert caplog.messages == ["threads can be started again, after 120.0 s"]

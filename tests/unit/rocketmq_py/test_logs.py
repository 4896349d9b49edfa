"""Handlers and filters of the application that raise: nothing of ours ends by it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from socket import socketpair
from typing import Final

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.clocks.clock import WallClock
from embedded_broker.clocks.driver import ClockDriver
from embedded_broker.clocks.session import Session
from embedded_broker.door import Door
from embedded_broker.lifecycle.flusher import Flusher
from embedded_broker.remoting.socket_loop import SocketLoop
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
)
from rocketmq_py.client.background import Timer, WorkerPool
from rocketmq_py.clock import SystemClock
from rocketmq_py.logs import get_logger, shielded
from rocketmq_py.transport.io_thread import IoThread

GUARD_S: Final = 20.0
PACKAGES: Final = ("rocketmq_py", "embedded_broker")


class Raising(logging.Handler):
    """A handler of an application with a bug, which no `handleError` catches."""

    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self.error = error
        self.seen = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.seen += 1
        raise self.error(record.getMessage())


@pytest.fixture(params=[True, False], ids=["raiseExceptions", "quiet"])
def raising(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Raising]:
    """A handler at both packages that raises whatever is logged."""
    monkeypatch.setattr(logging, "raiseExceptions", request.param)
    handler = Raising(RuntimeError)
    for name in PACKAGES:
        logging.getLogger(name).addHandler(handler)
    yield handler
    for name in PACKAGES:
        logging.getLogger(name).removeHandler(handler)


def _fail() -> None:
    raise ValueError("a bug")


def test_a_loop_of_sockets_goes_on(raising: Raising) -> None:
    loop, done = SocketLoop(), threading.Event()

    def both() -> None:
        loop.after_this(_fail)
        loop.after_this(done.set)
        _fail()

    loop.call_soon(_fail)
    loop.call_later(0.001, both)
    thread = threading.Thread(target=loop.run)
    thread.start()
    assert done.wait(GUARD_S)
    loop.stop()
    thread.join(GUARD_S)
    assert not thread.is_alive()
    assert raising.seen >= 3
    loop.close()


def test_a_flusher_goes_on(raising: Raising) -> None:
    door, done = Door(), threading.Event()

    def begin(everything: bool) -> list[object]:
        raise ValueError("a bug")

    flusher = Flusher(door, begin, done.set, lambda: None)  # type: ignore[arg-type]
    flusher.start()
    flusher.do(_fail)
    flusher.wait_other()
    flusher.request()
    flusher.do(done.set)
    assert done.wait(GUARD_S)
    flusher.close()
    assert raising.seen >= 1


def test_the_driver_of_the_clocks_goes_on(raising: Raising) -> None:
    driver, timers, done = ClockDriver(Door()), Session(SystemClock()), threading.Event()
    driver.add(WallClock(), [timers], visible=False)
    timers.at(0, _fail)
    timers.at(1, done.set)
    driver.start()
    assert done.wait(GUARD_S)
    assert raising.seen >= 1
    driver.close()


def test_timer_and_pools_of_a_client_go_on(raising: Raising) -> None:
    timer, pool, done = Timer("a-timer"), WorkerPool("a-pool", 1), threading.Event()
    timer.schedule_after(0, _fail)
    timer.schedule_after(1, done.set)
    assert done.wait(GUARD_S)
    done.clear()
    pool.submit(_fail)
    pool.submit(done.set)
    assert done.wait(GUARD_S)
    assert raising.seen >= 2
    assert pool.close(GUARD_S)
    timer.close(GUARD_S)


def test_the_io_thread_of_a_client_goes_on(raising: Raising) -> None:
    io, done = IoThread("an-io"), threading.Event()
    pairs = [socketpair(), socketpair()]

    class Reader:
        def __init__(self, number: int) -> None:
            self.number = number

        def fileno(self) -> int:
            return pairs[self.number][0].fileno()

        def on_readable(self) -> None:
            pairs[self.number][0].recv(1)
            if not self.number:
                _fail()
            done.set()

    for number in (0, 1):
        io.add(Reader(number))
        pairs[number][1].send(b"x")
    assert done.wait(GUARD_S)
    done.clear()
    pairs[1][1].send(b"x")
    assert done.wait(GUARD_S)
    for number in (0, 1):
        io.forget(pairs[number][0].fileno())
    io.close(GUARD_S)
    for pair in pairs:
        for one in pair:
            one.close()
    assert raising.seen >= 1


def test_clients_and_a_broker_work_although_every_line_of_theirs_raises(raising: Raising) -> None:
    done = threading.Event()
    bodies: list[bytes] = []

    class Listener:
        def consume_message(
            self, messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
        ) -> ConsumeConcurrentlyStatus:
            bodies.extend(message.body for message in messages)
            if len(bodies) == 1:
                raise ValueError("a bug of the application")
            if b"second" in bodies:
                done.set()
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    with EmbeddedBroker(topics=["T"], inproc=False) as broker:
        consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
        consumer.subscribe("T", "*")
        consumer.register_message_listener(Listener())
        producer = DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr)
        with producer, consumer:
            producer.send(Message("T", b"first"))
            broker.wait_for(lambda _: len(bodies) >= 1, timeout=GUARD_S)
            producer.send(Message("T", b"second"))
            assert done.wait(GUARD_S)
    assert raising.seen >= 1


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_what_a_handler_raises_is_shown_where_logging_shows_such(
    error: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger, handler = get_logger("rocketmq_py.of_a_test"), Raising(error)
    logger.addHandler(handler)
    ended: list[str] = []

    def work() -> None:
        logger.error("what happened")
        ended.append("as it should")

    for is_shown in (True, False):
        monkeypatch.setattr(logging, "raiseExceptions", is_shown)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(GUARD_S)
        told = capsys.readouterr().err
        assert ("what happened" in told) is is_shown
        assert ("test_logs.py" in told) is is_shown
    logger.removeHandler(handler)
    assert ended == ["as it should"] * 2


def test_a_filter_that_raises_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    logger = get_logger("rocketmq_py.of_another_test")

    def refuse(_: logging.LogRecord) -> bool:
        raise RuntimeError("a bug of a filter")

    logger.addFilter(refuse)
    logger.error("what happened")
    assert "a bug of a filter" in capsys.readouterr().err


def test_an_end_of_the_program_that_is_meant_passes_on_its_main_thread() -> None:
    logger, handler = get_logger("rocketmq_py.of_a_third_test"), Raising(KeyboardInterrupt)
    logger.addHandler(handler)
    with pytest.raises(KeyboardInterrupt):
        logger.error("what happened")


def test_a_logger_stays_the_one_that_the_application_knows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = "rocketmq_py.of_a_fourth_test"
    logger = get_logger(name)
    assert logger is logging.getLogger(name) is shielded(logger)
    logger.warning("what happened to %s", "somebody")
    assert caplog.records[-1].funcName == ("test_a_logger_stays_the_one_that_the_application_knows")
    assert caplog.messages == ["what happened to somebody"]

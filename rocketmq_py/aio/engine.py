"""The producer of threads that an asyncio producer stands on.

It adds what another face needs: its name in errors, calls that block on threads of their own, and a
probe for the clock of a test. Must not know event loops.
"""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Final, TypeVar

import rocketmq_py.producer.requesting  # noqa: F401 - else a loop waits while it is loaded
from rocketmq_py.errors import TooManySendsError
from rocketmq_py.message import Message, MessageBatch
from rocketmq_py.producer.halves import AskedHalf, BegunHalf, Halves
from rocketmq_py.producer.producer import DefaultMQProducer
from rocketmq_py.producer.selection import MessageQueueSelector
from rocketmq_py.producer.sending import PromptCallback
from rocketmq_py.send_result import LocalTransactionState, MessageQueue, SendResult

Result = TypeVar("Result")

LARGE_BODY: Final = 32_768
"""Bytes of a body that is made ready on another thread: to compress it takes a millisecond."""


class ThreadedProducer(DefaultMQProducer):
    """A `DefaultMQProducer` behind another face."""

    _halves: Halves | None = None

    def __repr__(self) -> str:
        return f"aio.Producer({self.producer_group!r}, {self._life.state})"

    def add_probe(self, probe: Callable[[], str | None]) -> None:
        """Ask ``probe``, too, whether something is still worked on, until the end."""
        instance = self._running().instance
        instance.add_probe(probe)
        self._life.at_end(lambda _: instance.remove_probe(probe))

    def in_background(self, call: Callable[[], Result]) -> Future[Result]:
        """Make a call that may block, on a thread that it holds up alone; a shutdown waits for it.

        Raises `TooManySendsError` when too many such calls wait already.
        """
        engine = self._running()
        if engine.instance.has_callbacks_waiting:
            raise TooManySendsError("too many calls wait for a thread: wait for their results")
        future: Future[Result] = Future()
        engine.sender.enter(future)
        future.add_done_callback(engine.sender.leave)
        engine.instance.submit_callback(_run, call, future)
        return future

    @property
    def halves(self) -> Halves:
        """The half messages of its transactions, once it runs."""
        halves = self._halves
        if halves is None:
            halves = self._halves = Halves(self._running(), [])
            self.add_probe(halves.is_busy)
        return halves

    def begin_half(self, message: Message, timeout_ms: int) -> Future[BegunHalf]:
        """Store a message unseen, without waiting; see `Halves.begin`."""
        self._running()
        halves = self.halves
        if not takes_long(message):
            return halves.begin(message, timeout_ms=timeout_ms)
        return self.in_background(lambda: halves.begin(message, timeout_ms=timeout_ms).result())

    def roll_back(self, begun: Future[BegunHalf]) -> None:
        """Roll back what is stored for a task that was cancelled; a shutdown waits for it."""
        sender = self._running().sender
        sender.enter(begun)

        def stored(_: Future[BegunHalf]) -> None:
            try:
                if begun.exception() is None and begun.result().state is None:
                    begun.result().end(LocalTransactionState.ROLLBACK_MESSAGE)
            finally:
                sender.leave(begun)

        begun.add_done_callback(stored)

    def answer_by(self, ask: Callable[[AskedHalf], object]) -> None:
        """Give ``ask`` the half messages that brokers ask about, until the end."""
        self.halves.answer_by(ask, self._life)

    def introduce(self) -> None:
        """Let brokers know this producer before they ask, also when it sends nothing. May block."""
        self._running().warm_up([self.config.create_topic_key])

    def send_in_background(
        self,
        message: Message,
        callback: PromptCallback,
        *,
        timeout: int,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: object = None,
    ) -> Future[SendResult]:
        """As `send_async`, but begun on a thread: to make the message ready takes long."""
        sent: Future[SendResult] = Future()
        sent.set_running_or_notify_cancel()
        sent.add_done_callback(partial(_tell, callback))
        begin = partial(
            self.send_async,
            message,
            PromptCallback(sent.set_result, sent.set_exception),
            timeout=timeout,
            queue=queue,
            selector=selector,
            arg=arg,
        )
        self.in_background(begin).add_done_callback(partial(_tell_failure, sent))
        return sent


def takes_long(message: object) -> bool:
    """Whether to make a message ready would keep a loop; what is no message is refused soon."""
    if isinstance(message, MessageBatch):
        return True
    return isinstance(message, Message) and len(message.body) >= LARGE_BODY


def _run(call: Callable[[], Result], future: Future[Result]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - who waits for it is told
        future.set_exception(error)
    else:
        future.set_result(result)


def _tell_failure(sent: Future[SendResult], begun: Future[Future[SendResult]]) -> None:
    """Let who waits for a send know that it was never begun."""
    error = begun.exception()
    if error is not None:
        sent.set_exception(error)


def _tell(callback: PromptCallback, sent: Future[SendResult]) -> None:
    error = sent.exception()
    if isinstance(error, Exception):
        callback.told(None, error)
    else:
        callback.told(sent.result(), None)

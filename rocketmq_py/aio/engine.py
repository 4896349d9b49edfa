"""The producer of threads that an asyncio producer stands on.

Its settings are those of the face in front of it. It has what such a face needs: calls that do not
block, threads for those that do, and books for the clock of a test. Must not know event loops.
"""

from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import Final, TypeVar

import rocketmq_py.producer.requesting  # noqa: F401 - else a loop waits while it is loaded
from rocketmq_py.client.activity import Book
from rocketmq_py.client.hooks import RPCHook
from rocketmq_py.errors import TooManySendsError
from rocketmq_py.message import Message, MessageBatch, MessageExt
from rocketmq_py.producer.config import ProducerConfig
from rocketmq_py.producer.halves import AskedHalf, BegunHalf, Halves
from rocketmq_py.producer.life import ProducerLife
from rocketmq_py.producer.selection import Choice
from rocketmq_py.producer.sending import PromptCallback
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.send_result import LocalTransactionState, MessageQueue, SendResult

Result = TypeVar("Result")

LARGE_BODY: Final = 32_768
"""Bytes of a body that is made ready on another thread: to compress it takes a millisecond."""


class ThreadedProducer(ProducerLife):
    """A producer of threads behind another face: ``config`` is this face, which has the settings.

    ``group`` gives its name; ``fix`` is called when the start has read all that.
    """

    def __init__(
        self,
        config: ProducerConfig,
        group: Callable[[], str],
        topics: tuple[str, ...],
        rpc_hooks: tuple[RPCHook, ...],
        fix: Callable[[], None],
    ) -> None:
        self._config = config
        self._group = group
        self.producer_group = group()
        self._topics = topics
        self._rpc_hooks = rpc_hooks
        self._tell_fixed = fix
        self._halves: Halves | None = None
        self._prepare()

    def __repr__(self) -> str:
        return f"aio.Producer({self._group()!r}, {self._life.state})"

    def start(self, *, check: bool = False) -> None:
        """Get ready to send, as the group that the face has now."""
        if self._life.state == "new":
            self.producer_group = self._group()
        super().start(check=check)

    @property
    def config(self) -> ProducerConfig:
        """The settings."""
        return self._config

    def _fix(self) -> None:
        self._tell_fixed()

    def use_name_servers(self, addresses: str) -> None:
        """Use other name servers from now on, if it runs."""
        self._life.check_process()
        self._use_name_servers(addresses)

    def open_book(self, what: str, is_over: Callable[[], bool]) -> Book:
        """Give a book of work that the clock of a test waits for, until the end."""
        activity = self._running().instance.activity
        book = activity.open(f"producer {self.producer_group}", what, is_over)
        self._life.at_end(lambda _: activity.close(book))
        return book

    # --- calls that do not block -----------------------------------------------------------

    def send_async(
        self, message: Message, callback: PromptCallback, timeout_ms: int, choose: Choice | None
    ) -> Future[SendResult]:
        """Begin a send."""
        return self._running().send_async(message, timeout_ms, callback, choose)

    def request_async(
        self, message: Message, timeout_ms: int, choose: Choice | None
    ) -> Future[MessageExt]:
        """Begin a request, whose future gets the reply."""
        return self._running().requester.request(message, timeout_ms, choose)

    # --- calls that block ------------------------------------------------------------------

    def send_oneway(self, message: Message, choose: Choice | None) -> None:
        """Write one request, expecting nothing."""
        engine = self._running()
        engine.sender.send_oneway(engine.kernel.prepare(message), choose)

    def recall_message(self, topic: str, handle: str | RecallHandle | None) -> str:
        """Take back a timer message."""
        return self._running().recall(topic, handle)

    def fetch_publish_message_queues(self, topic: str) -> list[MessageQueue]:
        """Return the writable queues of a topic."""
        return list(self._running().kernel.queues(topic))

    # --- on threads of their own -----------------------------------------------------------

    def in_background(self, call: Callable[[], Result]) -> Future[Result]:
        """Make a call that may block, on a thread that it holds up alone; a shutdown waits for it.

        Raises `TooManySendsError` when too many such calls wait already.
        """
        engine = self._running()
        if engine.instance.has_callbacks_waiting:
            raise TooManySendsError("too many calls wait for a thread: wait for their results")
        future: Future[Result] = Future()
        unfinished = engine.sender.unfinished
        unfinished.enter(future)
        future.add_done_callback(unfinished.leave)
        engine.instance.submit_callback(_run, partial(copy_context().run, call), future)
        return future

    @property
    def halves(self) -> Halves:
        """The half messages of its transactions, once it runs."""
        halves = self._halves
        if halves is None:
            halves = self._halves = Halves(self._running(), self._end_hooks)
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
        unfinished = self._running().sender.unfinished
        unfinished.enter(begun)

        def stored(_: Future[BegunHalf]) -> None:
            try:
                if begun.exception() is None and begun.result().state is None:
                    begun.result().end(LocalTransactionState.ROLLBACK_MESSAGE)
            finally:
                unfinished.leave(begun)

        begun.add_done_callback(stored)

    def answer_by(self, ask: Callable[[AskedHalf], object]) -> None:
        """Give ``ask`` the half messages that brokers ask about, until the end."""
        self.halves.answer_by(ask, self._life)

    def introduce(self) -> None:
        """Let brokers know this producer before they ask, also when it sends nothing. May block."""
        self._running().warm_up([self.config.create_topic_key])

    def send_in_background(
        self, message: Message, callback: PromptCallback, timeout_ms: int, choose: Choice | None
    ) -> Future[SendResult]:
        """As `send_async`, but begun on a thread: to make the message ready takes long."""
        sent: Future[SendResult] = Future()
        sent.set_running_or_notify_cancel()
        sent.add_done_callback(partial(_tell, callback))
        teller = PromptCallback(sent.set_result, sent.set_exception)
        begin = partial(self.send_async, message, teller, timeout_ms, choose)
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

"""The asyncio producer: `DefaultMQProducer` with calls that are awaited.

A call is begun on the loop's thread, by the same code as of every producer; what may block, or
would keep the loop for long, is begun on another thread. Must not know how a send is driven; that
is ``producer/sending.py``. Read on: ``calls.py`` for how a call is made.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from typing import ClassVar, Final, NoReturn, Self, overload

from attrs import define, field, setters

from rocketmq_py.aio.calls import LoopCalls, Waiting
from rocketmq_py.aio.checks import Checks, TransactionCheck
from rocketmq_py.aio.engine import ThreadedProducer, takes_long
from rocketmq_py.aio.home import Home, running_loop, to_its_end
from rocketmq_py.aio.transaction import Transaction
from rocketmq_py.client.hooks import (
    CheckForbiddenHook,
    EndTransactionHook,
    RPCHook,
    SendMessageHook,
    as_hooks,
)
from rocketmq_py.client.life import PATIENCE_S, checked_patience
from rocketmq_py.config import as_texts, explained, setting
from rocketmq_py.errors import IllegalStateError
from rocketmq_py.message import Message, MessageExt
from rocketmq_py.producer.batch import make_batch
from rocketmq_py.producer.config import ProducerConfig
from rocketmq_py.producer.selection import MessageQueueSelector, choice_of
from rocketmq_py.producer.validation import checked_timeout
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.protocol.names import DEFAULT_PRODUCER_GROUP
from rocketmq_py.send_result import MessageQueue, SendResult

_MILLISECOND: Final = timedelta(milliseconds=1)


def _a_check(_owner: object, _setting: object, value: object) -> None:
    if value is not None and not callable(value):
        kind = type(value).__name__
        raise TypeError(f"transaction_check is a coroutine function, not {kind}")


@explained
@define(eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class Producer(ProducerConfig):
    """Sends messages to topics from one event loop, and never blocks it.

    ``producer_group``, ``topics``, ``rpc_hooks``, settings and `of` are those of
    `DefaultMQProducer`; the same engine does the work on threads of its own. A producer belongs to
    the loop that uses it first; any other gets `IllegalStateError`. Hooks and sources of
    credentials run where a send begins, which is mostly the loop's thread: they must not block.

    ``transaction_check`` is a coroutine function that gets a message and says what became of its
    transaction (see `transaction`), as a `LocalTransactionState`. It runs in the loop.

    Use it in an ``async with`` block, or await `start` and `shutdown`. A ``with`` block does the
    same for a program that has no loop yet::

        async with aio.Producer("shop", namesrv_addr="127.0.0.1:9876") as producer:
            await producer.send(Message("Orders", b"cancel 42", delay=timedelta(minutes=30)))

    While too much is in flight (``client_async_permits``, ``client_async_bytes``,
    ``async_sender_queue``), a call waits for room, no longer than its time-out. A task that awaits
    each send keeps their order. Cancelling a task does not take its message back: see
    `cancelled_send`.
    """

    FIXED_BY_START: ClassVar[Mapping[str, str]] = {
        **ProducerConfig.FIXED_BY_START,
        "producer_group": "",
        "transaction_check": "",
    }

    producer_group: str = DEFAULT_PRODUCER_GROUP
    _topics: tuple[str, ...] = field(default=(), alias="topics", kw_only=True, converter=as_texts)
    _rpc_hooks: tuple[RPCHook, ...] = field(
        default=(), alias="rpc_hooks", kw_only=True, converter=as_hooks
    )
    transaction_check: TransactionCheck | None = field(
        default=None, kw_only=True, metadata=setting(_a_check)
    )

    def __attrs_post_init__(self) -> None:
        self._threaded = ThreadedProducer(
            self, lambda: self.producer_group, self._topics, self._rpc_hooks, self._fix
        )
        self._home = Home(self)
        self._calls: LoopCalls | None = None
        self._checks: Checks | None = None

    # --- life ------------------------------------------------------------------------------

    async def start(self, *, check: bool = False) -> None:
        """Get ready to send, as `DefaultMQProducer.start`; cancelling it ends what it began."""
        self._home.take()
        try:
            await asyncio.to_thread(self._threaded.start, check=check)
            if self.transaction_check is not None:
                self._here()
                await asyncio.to_thread(self._threaded.introduce)
        except asyncio.CancelledError:
            asyncio.get_running_loop().run_in_executor(None, self._threaded.shutdown, 0)
            raise

    async def shutdown(self, timeout: float | timedelta = PATIENCE_S) -> None:
        """Stop sending: sends in flight get up to ``timeout`` seconds, then `ClientClosedError`.

        What waits for room ends at once. May be called again, and from any loop. It goes on when
        the task that awaits it is cancelled.
        """
        patience = checked_patience(timeout)
        self._end_waiting()
        await to_its_end(self._threaded.shutdown, patience)

    async def __aenter__(self) -> Self:
        """Start, unless it is running already."""
        if not self._threaded.is_running:
            await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.shutdown()

    def __enter__(self) -> Self:
        """Start, unless it is running already, where there is no loop yet: this blocks."""
        if running_loop() is not None:
            raise IllegalStateError(f"{self!r} would block this event loop: write async with")
        self._threaded.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end_waiting()
        self._threaded.shutdown()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a producer cannot be pickled: pickle ProducerConfig.of(producer) and start one there"
        )

    def __repr__(self) -> str:
        return repr(self._threaded)

    @property
    def is_running(self) -> bool:
        """Whether it is started and not yet shut down; never in a forked child."""
        return self._threaded.is_running

    @property
    def config(self) -> ProducerConfig:
        """The settings, which are the producer itself; `ProducerConfig.of` makes a copy of them."""
        return self

    def update_name_server_address(self, addresses: str | Sequence[str]) -> None:
        """Use other name servers from now on (``host:port;host:port``, or a list of them)."""
        self._assign("namesrv_addr", addresses)
        self._threaded.use_name_servers(self.namesrv_addr)

    def register_send_message_hook(self, hook: SendMessageHook) -> None:
        """Show every attempt to ``hook``: before it on the loop's thread, so it must not block."""
        self._threaded.register_send_message_hook(hook)

    def register_check_forbidden_hook(self, hook: CheckForbiddenHook) -> None:
        """Let ``hook`` forbid sends, on the loop's thread."""
        self._threaded.register_check_forbidden_hook(hook)

    def register_end_transaction_hook(self, hook: EndTransactionHook) -> None:
        """Show the outcome of every transaction to ``hook`` before the broker is told."""
        self._threaded.register_end_transaction_hook(hook)

    @property
    def client_id(self) -> str:
        """Name of this client at brokers; `NotStartedError` before the start."""
        return self._threaded.client_id

    # --- sending ---------------------------------------------------------------------------

    @overload
    async def send(
        self,
        message: Message,
        *,
        timeout: int | timedelta | None = None,
        queue: MessageQueue | None = None,
    ) -> SendResult: ...

    @overload
    async def send(
        self,
        message: Message,
        *,
        timeout: int | timedelta | None = None,
        selector: MessageQueueSelector,
        arg: object = None,
    ) -> SendResult: ...

    async def send(
        self,
        message: Message,
        *,
        timeout: int | timedelta | None = None,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: object = None,
    ) -> SendResult:
        """Send, and wait until a broker has taken the message.

        ``timeout``, in ms or as a timedelta, covers the wait for room and all attempts (default
        ``send_msg_timeout``). With ``queue`` or ``selector`` (called with all queues, the message
        and ``arg``; on the loop's thread, except while the route of the topic is not known) there
        is one attempt only. Raises what `DefaultMQProducer.send_async` gives as an outcome, and
        `SendTimeoutError` when there was no room in time.
        """
        calls, threaded = self._here(), self._threaded
        send = threaded.send_in_background if takes_long(message) else threaded.send_async
        choose = choice_of(queue, selector, message, arg)

        def begin(waiting: Waiting, left_ms: int) -> Future[SendResult]:
            return send(message, waiting, left_ms, choose)

        return await calls.made(begin, self._budget_ms(timeout), message)

    async def send_batch(
        self,
        messages: Iterable[Message],
        *,
        timeout: int | timedelta | None = None,
        queue: MessageQueue | None = None,
    ) -> SendResult:
        """Send several messages in one request, as `DefaultMQProducer.send_batch` does."""
        self._here()
        return await self.send(make_batch(messages), timeout=timeout, queue=queue)

    @overload
    async def send_oneway(self, message: Message, *, queue: MessageQueue | None = None) -> None: ...

    @overload
    async def send_oneway(
        self, message: Message, *, selector: MessageQueueSelector, arg: object = None
    ) -> None: ...

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: object = None,
    ) -> None:
        """Write the message to a broker's connection: nobody says whether it arrived.

        Raises for state, validation, route and connection. A selector runs on another thread.
        """
        calls, threaded = self._here(), self._threaded
        choose = choice_of(queue, selector, message, arg)
        send = partial(threaded.send_oneway, message, choose)
        await calls.made(
            lambda waiting, _: waiting.watch(threaded.in_background(send)),
            self._budget_ms(None),
            message,
        )

    @overload
    async def request(
        self,
        message: Message,
        *,
        timeout: int | timedelta | None = None,
        queue: MessageQueue | None = None,
    ) -> MessageExt: ...

    @overload
    async def request(
        self,
        message: Message,
        *,
        timeout: int | timedelta | None = None,
        selector: MessageQueueSelector,
        arg: object = None,
    ) -> MessageExt: ...

    async def request(
        self,
        message: Message,
        *,
        timeout: int | timedelta | None = None,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: object = None,
    ) -> MessageExt:
        """Send a message and wait for a consumer's reply to it; return the reply.

        ``timeout``, in ms or as a timedelta, covers all of it. Raises what
        `DefaultMQProducer.request` raises.
        """
        calls, threaded = self._here(), self._threaded
        choose = choice_of(queue, selector, message, arg)

        def begin(waiting: Waiting, left_ms: int) -> Future[MessageExt]:
            return waiting.watch(threaded.request_async(message, left_ms, choose))

        return await calls.made(begin, self._budget_ms(timeout), message)

    def transaction(
        self, message: Message, *, timeout: int | timedelta | None = None
    ) -> Transaction:
        """Deliver a message only if a block of code succeeds: ``async with`` this.

        The message is stored where no consumer sees it, then the block runs. Its end commits, and
        an exception, also a cancellation, rolls back. The block gets the half message and may end
        it by itself (``half.end``). ``timeout``, in ms or as a timedelta, is for storing.

        Entering it raises `MQClientException` when the message is not stored safely, and
        `DelayConflictError` for a delay; then the block does not run. Leaving it raises when the
        broker could not be told of the commit: the same may be repeated (``half.end``). A program
        that dies in the block leaves it to the broker, which asks the producers of the group: they
        answer by ``transaction_check``. It drops the message when none does.
        """
        return Transaction(self._here, self._threaded, message, self._budget_ms(timeout))

    async def recall(self, topic: str, recall_handle: str | RecallHandle | None) -> str:
        """Take back a timer message that is not due yet; return its id.

        ``recall_handle`` is `SendResult.recall_handle`. Raises what
        `DefaultMQProducer.recall_message` raises.
        """
        calls, threaded = self._here(), self._threaded
        recall = partial(threaded.recall_message, topic, recall_handle)
        return await calls.made(
            lambda waiting, _: waiting.watch(threaded.in_background(recall)), self._budget_ms(None)
        )

    async def fetch_publish_message_queues(self, topic: str) -> list[MessageQueue]:
        """Return the writable queues of a topic."""
        calls, threaded = self._here(), self._threaded
        fetch = partial(threaded.fetch_publish_message_queues, topic)
        return await calls.made(
            lambda waiting, _: waiting.watch(threaded.in_background(fetch)), self._budget_ms(None)
        )

    # --- inside ----------------------------------------------------------------------------

    def _here(self) -> LoopCalls:
        """Give the calls of this loop; whatever forbids calls here is raised."""
        calls = self._calls
        if calls is not None and calls.loop is running_loop():
            return calls
        self._threaded.check_running()
        loop = self._home.take()
        calls = self._calls = LoopCalls(
            loop, self._threaded.open_book("awaited calls", loop.is_closed)
        )
        if self.transaction_check is not None:
            self._checks = Checks(self.transaction_check, self._threaded, calls.outcomes)
            self._threaded.answer_by(self._checks.ask)
        return calls

    def _end_waiting(self) -> None:
        """Let no call wait for room any more, and no question be answered."""
        if self._calls is None:
            return
        ends = [self._calls.room.close]
        if self._checks is not None:
            ends.append(self._checks.cancel)
        for end in ends:
            if self._calls.loop is running_loop():
                end()
            else:
                self._calls.outcomes.call(end)

    def _budget_ms(self, timeout: int | timedelta | None) -> int:
        if timeout is None:
            return self.send_msg_timeout
        if isinstance(timeout, timedelta):
            timeout = timeout // _MILLISECOND
        return checked_timeout(timeout)

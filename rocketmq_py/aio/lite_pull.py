"""The asyncio lite pull consumer: a task asks it for messages when it wants some.

What a poll commits, seeks and positions are those of every consumer that is asked for messages
(``../consumer/polling.py``); here are the calls that are awaited. Read on: ``consumer.py`` for the
consumer whose messages come by themselves.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NoReturn

from attrs import define, field, setters

from rocketmq_py.aio.group import LOOP_BLOCK, GroupFace, LoopMember
from rocketmq_py.aio.home import Home
from rocketmq_py.client.hooks import RPCHook, as_hooks
from rocketmq_py.client.life import Remedy
from rocketmq_py.clock import Clock, a_clock
from rocketmq_py.config import explained
from rocketmq_py.consumer.dispatch.bodies import Unpacked
from rocketmq_py.consumer.dispatch.inbox import Batch, Inbox
from rocketmq_py.consumer.dispatch.on_loop import LOOK_EVERY_MS
from rocketmq_py.consumer.dispatch.pool import NOT_READY
from rocketmq_py.consumer.listener import MessageSelector
from rocketmq_py.consumer.polling import PollingConsumer, QueueListener
from rocketmq_py.consumer.settings import LitePullConsumerConfig
from rocketmq_py.errors import ClientClosedError
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.names import DEFAULT_CONSUMER_GROUP
from rocketmq_py.send_result import MessageQueue

if TYPE_CHECKING:
    from rocketmq_py.client.instance import ClientInstance


class Polled(LoopMember[Inbox, LitePullConsumerConfig], PollingConsumer):
    """A member of a group that tasks of an event loop ask for messages."""

    _REMEDY: ClassVar[Remedy] = Remedy(LOOP_BLOCK, "iterate over consumer.batches() there")

    def join(self, is_over: Callable[[], bool]) -> None:
        """Join the group; may block. ``is_over``: whether the event loop has closed."""
        self.consumer_group, self._is_over = self._group(), is_over
        self._start()

    def _watch(self, engine: "ClientInstance") -> None:
        super()._watch(engine)

        def look() -> None:
            if self._is_over():
                watch.cancel()
                self.leave_without_loop(engine)

        watch = engine.schedule_every(LOOK_EVERY_MS, LOOK_EVERY_MS, look)
        self._life.at_end(lambda _: watch.cancel())

    async def polled(self, timeout: int | timedelta | None) -> list[MessageExt]:
        """Wait for messages without blocking the loop; see `LitePullConsumer.poll`."""
        poll = self._begin_poll(timeout)
        while (batch := await _asked(poll.inbox, poll.left_s)) is not None:
            messages = self._handed_over(batch, await self._unpacked(poll.inbox, batch))
            if messages:
                return messages
        return self._came_to_nothing()

    async def _unpacked(self, inbox: Inbox, batch: Batch) -> Unpacked:
        """Decompress on another thread what must be; a task that is cancelled puts all back."""
        if not any(one.sys_flag & NOT_READY for one in batch.messages):
            return self._bodies.unpacked(batch.messages)
        loop = asyncio.get_running_loop()
        unpacking = loop.run_in_executor(None, self._bodies.unpacked, batch.messages)
        try:
            return await asyncio.shield(unpacking)
        except asyncio.CancelledError:
            inbox.put_back(batch)  # at once: what lies behind it must not come first
            unpacking.add_done_callback(lambda done: self._bodies.release(done.result().size))
            raise


async def _asked(inbox: Inbox, left_s: float) -> Batch | None:
    """Wait so long for the next messages; a task that is cancelled takes none away."""
    asked = inbox.ask()
    loop = asyncio.get_running_loop()
    is_there = asyncio.Event()

    def tell(_: Future[Batch | None]) -> None:
        with suppress(RuntimeError):  # the loop has closed, and nobody waits
            loop.call_soon_threadsafe(is_there.set)

    asked.add_done_callback(tell)
    try:
        async with asyncio.timeout(left_s):
            await is_there.wait()
    except TimeoutError:
        return inbox.give_up(asked)
    except BaseException:
        found = inbox.give_up(asked)
        if found is not None:
            inbox.put_back(found)
        raise
    return asked.result()


@explained
@define(eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class LitePullConsumer(GroupFace[Polled], LitePullConsumerConfig):
    """Receives messages of a group when a task asks for them by `poll`, and never blocks the loop.

    ``consumer_group``, ``clock``, ``rpc_hooks``, settings, `of` and what they promise are those of
    `DefaultLitePullConsumer`: **delivery is at least once**, what a `poll` returned is committed by
    the next one (`auto_commit`), or by `commit`. One task polls at a time: a second one would
    commit what the first still works on. A consumer belongs to the loop that uses it first; any
    other gets `IllegalStateError`.

    ::

        async with aio.LitePullConsumer("reports", namesrv_addr="127.0.0.1:9876") as consumer:
            consumer.subscribe("Orders", "paid")
            async for messages in consumer.batches():
                await book(messages)
    """

    FIXED_BY_START: ClassVar[Mapping[str, str]] = {
        **LitePullConsumerConfig.FIXED_BY_START,
        "consumer_group": "",
    }

    consumer_group: str = DEFAULT_CONSUMER_GROUP
    _clock: Clock = field(default=None, alias="clock", kw_only=True, converter=a_clock)
    _rpc_hooks: tuple[RPCHook, ...] = field(
        default=(), alias="rpc_hooks", kw_only=True, converter=as_hooks
    )

    def __attrs_post_init__(self) -> None:
        self._home = Home(self)
        self._member = Polled(
            "aio.LitePullConsumer", self, lambda: self.consumer_group, self._clock, self._rpc_hooks
        )

    # --- which queues ----------------------------------------------------------------------

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read these queues and no others, as `DefaultLitePullConsumer.assign`; never blocks."""
        self._member.assign(queues)

    def set_sub_expression_for_assign(
        self, topic: str, expression: str | MessageSelector | None
    ) -> None:
        """Select messages of a topic whose queues are assigned after this call."""
        self._member.set_sub_expression_for_assign(topic, expression)

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that this consumer reads now, sorted."""
        return self._member.assignment()

    async def fetch_message_queues(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues of a topic; NoRouteError when nobody knows it."""
        return await asyncio.to_thread(self._member.fetch_message_queues, topic)

    def register_topic_message_queue_change_listener(
        self, topic: str, listener: QueueListener
    ) -> None:
        """Call ``listener(topic, queues)`` on the loop's thread when the queues have changed.

        They are looked at every `topic_metadata_check_interval`.
        """
        if not callable(listener):
            raise TypeError(f"a listener is called with (topic, queues): {listener!r} cannot be")
        loop = self._home.take()

        def tell(topic: str, queues: frozenset[MessageQueue]) -> None:
            loop.call_soon_threadsafe(partial(listener, topic, queues))

        self._member.register_topic_message_queue_change_listener(topic, tell)

    # --- messages --------------------------------------------------------------------------

    async def poll(self, timeout: int | timedelta | None = None) -> list[MessageExt]:
        """Return messages of one queue, the oldest that wait; [] when none came in time.

        ``timeout`` in ms, or a timedelta; default: `poll_timeout_millis`. With `auto_commit` what
        earlier polls returned is committed first. A task that is cancelled takes no message away.
        Raises `NotStartedError` and `ClientClosedError`.
        """
        self._home.take()
        return await self._member.polled(timeout)

    async def batches(
        self, timeout: int | timedelta | None = None
    ) -> AsyncIterator[list[MessageExt]]:
        """Poll for ever: give what each poll returns, unless it is nothing.

        Ends when the consumer is shut down. ``timeout`` as of `poll`.
        """
        while self.is_running:
            try:
                messages = await self.poll(timeout)
            except ClientClosedError:
                return
            if messages:
                yield messages

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Return nothing of these queues until `resume`; MQClientException for one not assigned."""
        self._member.pause(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Return messages of these queues again; MQClientException for one not assigned."""
        self._member.resume(queues)

    # --- offsets ---------------------------------------------------------------------------

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit what polls have returned, or these offsets, as `DefaultLitePullConsumer.commit`.

        Never blocks: the brokers are told within a moment, and at the shutdown.
        """
        self._member.commit(offsets)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the committed offset of a queue; None: there is none. Raises RocketMQError."""
        return await asyncio.to_thread(self._member.committed, queue)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at an offset, as `DefaultLitePullConsumer.seek`."""
        await asyncio.to_thread(self._member.seek, queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the first offset that can be read."""
        await asyncio.to_thread(self._member.seek_to_begin, queue)

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on behind the last message."""
        await asyncio.to_thread(self._member.seek_to_end, queue)

    async def offset_for_timestamp(self, queue: MessageQueue, timestamp: int | datetime) -> int:
        """Return the offset of a store time: epoch ms, or an aware datetime."""
        return await asyncio.to_thread(self._member.offset_for_timestamp, queue, timestamp)

    # --- life ------------------------------------------------------------------------------

    def _joining(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        return partial(self._member.join, loop.is_closed)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a consumer cannot be pickled: pickle LitePullConsumerConfig.of(consumer) and start "
            "one there"
        )

    @property
    def config(self) -> LitePullConsumerConfig:
        """The settings, which are the consumer itself; `LitePullConsumerConfig.of` makes a copy."""
        return self

"""How is a listener called, and what follows from its answer.

`ConcurrentConsumer` cuts pulled messages into batches, decompresses them, runs the listener on its
pool, sends back what failed and lets the offset move. It must not know where messages come from.
Facts:
`org.apache.rocketmq.client.impl.consumer.ConsumeMessageConcurrentlyService`.
"""

import logging
from collections.abc import Iterable, Sequence
from functools import partial

from attrs import define, field

from rocketmq_py.client.background import WorkerPool
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.clock import Clock
from rocketmq_py.consumer.bodies import Bodies, Unpacked
from rocketmq_py.consumer.listener import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFunction,
)
from rocketmq_py.consumer.offsets import OffsetStore
from rocketmq_py.consumer.process_queue import PullState
from rocketmq_py.consumer.send_back import FIRST_RETRY_LEVEL, SendBack
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.errors import BodyError
from rocketmq_py.logs import get_logger
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.properties import Prop

logger = get_logger(__name__)

LOCAL_RETRY_WAIT_MS = 5_000
NO_ROOM_WAIT_MS = 50
"""After so long it is looked again whether listeners have given decompressed bodies back."""
LOG_EVERY = 1000
"""One of so many waits is logged."""
LEVEL_OF_ATTEMPT = 0
"""The delay level that a broker replaces by that of the attempt."""
SWEEP_HEADS_MAX = 16
"""Stuck messages of one queue that one sweep sends back at most."""
MINUTE_MS = 60_000

Batch = Sequence[MessageExt]


@define(eq=False, repr=False, kw_only=True)
class ConcurrentConsumer:
    """Listener calls of one consumer.

    `clock` stamps the start of each call and tells the sweep how old it is.
    """

    _group: str
    _engine: ClientInstance
    _config: PushConsumerConfig
    _offsets: OffsetStore
    _send_back: SendBack
    _consume: ConsumeFunction
    _clock: Clock
    _told: set[str] = field(factory=set, init=False)
    _waits: int = field(default=0, init=False)
    bodies: Bodies = field(init=False)
    pool: WorkerPool = field(init=False)

    @bodies.default
    def _own_bodies(self) -> Bodies:
        return Bodies(self._config)

    @pool.default
    def _own_pool(self) -> WorkerPool:
        return WorkerPool(
            f"rocketmq-consume-{self._group}",
            self._config.consume_thread_min,
            schedule_after=self._engine.schedule_after,
        )

    def deliver(self, state: PullState, messages: Batch) -> None:
        """Queue listener calls for messages that are in the process queue already."""
        size = self._config.consume_message_batch_max_size
        self.pool.submit_all(
            partial(self._run, state, tuple(messages[at : at + size]))
            for at in range(0, len(messages), size)
        )

    def sweep(self, states: Iterable[PullState]) -> int:
        """Send back messages whose listener call takes longer than `consume_timeout`.

        The listener may still run; if it succeeds later, the message has come twice. Blocks for
        the calls to the broker. Returns how many were sent back.
        """
        limit_ms = self._config.consume_timeout * MINUTE_MS
        swept = 0
        for state in states:
            for _ in range(SWEEP_HEADS_MAX):
                head = state.process_queue.head()
                if head is None or self._age_ms(head) <= limit_ms:
                    break
                if not self._send_back.send(head, FIRST_RETRY_LEVEL):
                    break
                logger.warning(
                    "group %s: message %s of %s took over %d min, sent back",
                    self._group,
                    head.msg_id,
                    state.queue,
                    self._config.consume_timeout,
                )
                swept += 1
                self._finish(state, (head,))
        return swept

    def close(self, timeout: float) -> bool:
        """Drop what waits and wait for running listeners; False when one still runs."""
        return self.pool.close(timeout, drop=True)

    def _run(self, state: PullState, messages: Batch) -> None:
        if state.dropped:
            return
        with self.bodies.unpacked(messages) as batch:
            if batch.size:
                state.process_queue.grow(batch.size)
            try:
                self._consume_batch(state, batch)
            finally:
                if batch.size:
                    state.process_queue.grow(-batch.size)

    def _consume_batch(self, state: PullState, batch: Unpacked) -> None:
        if batch.waiting:
            self._wait_for_room(state, batch.waiting)
        failed: list[tuple[MessageExt, int]] = []
        for message, error in batch.refused:
            self._tell_refused(state, message, error)
            failed.append((message, LEVEL_OF_ATTEMPT))
        messages = batch.messages
        succeeded = 0
        if messages:
            started = str(self._clock.now_ms)
            for message in messages:
                message.properties[Prop.CONSUME_START_TIME] = started
            context = ConsumeConcurrentlyContext(state.queue)
            status = self._status(list(batch.shown), context)  # a listener may change its list
            if status is ConsumeConcurrentlyStatus.CONSUME_SUCCESS:
                succeeded = max(0, min(context.ack_index + 1, len(messages)))
            level = context.delay_level_when_next_consume
            failed += [(message, level) for message in messages[succeeded:]]
        if state.process_queue.dropped:  # while the listener ran
            logger.info("result of %d messages of %s discarded", len(messages), state.queue)
            return
        done = list(messages[:succeeded])
        kept = []
        for message, level in failed:
            if not state.process_queue.holds(message):
                continue  # the sweep has sent it back while the listener ran
            if self._send_back.send(message, level):
                done.append(message)
            else:
                message.reconsume_times += 1
                kept.append(message)
        if kept:
            self._again_later(state, tuple(kept))
        self._finish(state, done)

    def _wait_for_room(self, state: PullState, messages: Batch) -> None:
        if self._waits % LOG_EVERY == 0:
            logger.warning(
                "group %s: %d messages of %s wait: %d bytes are decompressed for listeners, "
                "decompressed_total_max_bytes %d",
                self._group,
                len(messages),
                state.queue,
                self.bodies.held,
                self._config.decompressed_total_max_bytes,
            )
        self._waits += 1
        self._engine.schedule_after(NO_ROOM_WAIT_MS, partial(self.deliver, state, messages))

    def _tell_refused(self, state: PullState, message: MessageExt, error: BodyError) -> None:
        logger.warning(
            "group %s: message %s of topic %s, queue %s, offset %d, attempt %d cannot be "
            "decompressed, so no listener gets it; it comes again later, and after %d attempts it "
            "goes to the dead letters: %s",
            self._group,
            message.msg_id,
            message.topic,
            state.queue,
            message.queue_offset,
            message.reconsume_times + 1,
            self._config.reconsume_times_max + 1,
            error,
        )

    def _status(self, messages: list[MessageExt], context: ConsumeConcurrentlyContext) -> object:
        """Call the listener; anything but a status counts as RECONSUME_LATER."""
        try:
            # A listener of a foreign program may return anything, whatever its annotation says.
            status: object = self._consume(messages, context)
        except BaseException:
            # SystemExit too: a listener must not be able to take a thread away.
            logger.warning(
                "group %s: the listener raised for %s; it comes again later",
                self._group,
                _named(messages, context),
                exc_info=True,
            )
            return ConsumeConcurrentlyStatus.RECONSUME_LATER
        if isinstance(status, ConsumeConcurrentlyStatus):
            return status
        self._tell_once(status, messages, context)
        return ConsumeConcurrentlyStatus.RECONSUME_LATER

    def _tell_once(
        self, status: object, messages: Batch, context: ConsumeConcurrentlyContext
    ) -> None:
        kind = type(status).__name__
        level = logging.DEBUG if kind in self._told else logging.WARNING
        self._told.add(kind)
        logger.log(
            level,
            "group %s: the listener returned %s instead of a ConsumeConcurrentlyStatus for %s; "
            "it comes again later: return ConsumeConcurrentlyStatus.CONSUME_SUCCESS",
            self._group,
            "None" if status is None else f"a {kind}",
            _named(messages, context),
        )

    def _again_later(self, state: PullState, messages: tuple[MessageExt, ...]) -> None:
        # If the client closes first, the offset is still below them: they come again elsewhere.
        self._engine.schedule_after(LOCAL_RETRY_WAIT_MS, partial(self.deliver, state, messages))

    def _finish(self, state: PullState, messages: Iterable[MessageExt]) -> None:
        offset = state.process_queue.remove(messages)
        if offset < 0 or state.process_queue.dropped:
            return
        self._offsets.update(state.queue, offset)
        if state.process_queue.count == 0:
            self._offsets.persist_soon(state.queue)

    def _age_ms(self, message: MessageExt) -> int:
        started = message.properties.get(Prop.CONSUME_START_TIME)
        return -1 if started is None else self._clock.now_ms - int(started)


def _named(messages: Batch, context: ConsumeConcurrentlyContext) -> str:
    """Name the messages of a listener call in a log line: the first, and how many more."""
    first, more = messages[0], len(messages) - 1
    others = f", and {more} more" if more else ""
    return (
        f"message {first.msg_id} of topic {first.topic}, queue {context.message_queue}, "
        f"attempt {first.reconsume_times + 1}{others}"
    )

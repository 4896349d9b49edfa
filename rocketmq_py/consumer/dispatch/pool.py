"""Listener calls on a pool of threads, side by side and in any order.

`PoolDispatch` cuts fetched messages into batches, and settles each by what the listener says. It
must not know where messages come from. Facts:
`org.apache.rocketmq.client.impl.consumer.ConsumeMessageConcurrentlyService`.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from functools import partial

from attrs import define, field

from rocketmq_py.consumer.core.delivery import SETTLED
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.core.outcome import AS_ATTEMPT, DONE, Done, Later, Outcome
from rocketmq_py.consumer.dispatch.gathering import Gatherer
from rocketmq_py.consumer.dispatch.listener_calls import (
    MINUTE_MS,
    NO_ROOM_WAIT_MS,
    DispatchSettings,
    ListenerDispatch,
    Verdict,
)
from rocketmq_py.consumer.dispatch.pacing import Pace
from rocketmq_py.logs import get_logger
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.sysflag import COMPRESSED, WRAPPED

logger = get_logger(__name__)

SWEEP_HEADS_MAX = 16
"""Stuck messages of one queue that one sweep sends back at most."""
SWEPT = Later(level=3)
"""A message that is stuck comes again after the level of a first retry."""
LOCAL_RETRY_WAIT_MS = 5_000
LOG_EVERY = 1000
"""One of so many waits is logged."""
NOT_READY = COMPRESSED | WRAPPED
"""Flags of a body that is worked on before a listener gets it."""


class PoolCall(partial[object]):
    """One listener call that waits for a worker: of a function of a lane and its messages."""

    @property
    def is_plain(self) -> bool:
        """Whether its bodies are as the listener gets them, so that it begins at once."""
        _, messages = self.args
        return not any(one.sys_flag & NOT_READY for one in messages)


@define(eq=False, repr=False, kw_only=True)
class PoolDispatch(ListenerDispatch[DispatchSettings]):
    """Listener calls of one consumer."""

    _pace: Pace = field(factory=Pace)
    _waits: int = field(default=0, init=False)
    _paced: set[PoolCall] = field(factory=set, init=False)
    _gatherer: Gatherer = field(init=False)

    @_gatherer.default
    def _own_gatherer(self) -> Gatherer:
        return Gatherer(
            self._engine.schedule_after, lambda lane, batch: self._submit(lane, [batch])
        )

    def deliver(self, lane: Lane, messages: Sequence[MessageExt]) -> None:
        """Queue listener calls for messages that are in their lane already."""
        settings = self._settings
        batches = self._gatherer.batches(
            lane,
            messages,
            settings.consume_message_batch_max_size,
            settings.consume_message_batch_max_wait,
        )
        self._submit(lane, batches)

    @property
    def unfinished(self) -> int:
        """Listener calls that wait or run, those that wait for more messages or a rate included."""
        return self.pool.unfinished + len(self._paced) + self._gatherer.lanes

    def _submit(self, lane: Lane, batches: Iterable[tuple[MessageExt, ...]]) -> None:
        calls = (PoolCall(self._run, lane, batch) for batch in batches)
        self.pool.submit_all(one for one in calls if not self._pace or self._may_begin(one))

    def _may_begin(self, call: PoolCall) -> bool:
        """Say whether the rate of its topic lets a call begin now; else it begins later."""
        _, messages = call.args
        wait_s = self._pace.wait_s(messages[0].topic, len(messages))
        if wait_s:
            self._paced.add(call)
            self._engine.schedule_after(wait_s * 1000, partial(self._begin, call))
        return not wait_s

    def _begin(self, call: PoolCall) -> None:
        self.pool.submit(call)
        self._paced.discard(call)

    def sweep(self, lanes: Iterable[Lane]) -> int:
        """Take back messages that are not settled `consume_timeout` minutes after their call began.

        The listener may still run; if it succeeds later, the message has come twice. Blocks for
        the calls to the broker. Returns how many were taken back.
        """
        limit_ms = self._settings.consume_timeout * MINUTE_MS
        swept = 0
        for lane in lanes:
            for _ in range(SWEEP_HEADS_MAX):
                head = lane.head()
                if head is None or self.calls.age_ms(head) <= limit_ms:
                    break
                if self._progress.settle(lane, [head], SWEPT):
                    break
                logger.warning(
                    "group %s: message %s of %s took over %d min, sent back",
                    self._group,
                    head.msg_id,
                    lane.queue,
                    self._settings.consume_timeout,
                )
                swept += 1
        return swept

    def _run(self, lane: Lane, messages: Sequence[MessageExt]) -> None:
        if lane.dropped:
            return
        messages = self._progress.claim(lane, messages)
        if not messages:
            return
        batch, said = self.calls.call(lane, messages, self._settle_for_program)
        if batch.waiting:
            self._wait_for_room(lane, batch.waiting)
        if batch.refused:
            self._settle(lane, [one for one, _ in batch.refused], AS_ATTEMPT)
        if isinstance(said, Verdict):
            done, failed = batch.messages[: said.done], batch.messages[said.done :]
            if done:
                self._settle(lane, done, DONE)
            if failed:
                self._settle(lane, failed, said.rest)

    def _settle(
        self, lane: Lane, messages: Sequence[MessageExt], outcome: Outcome
    ) -> Sequence[MessageExt]:
        """Settle messages; those that no broker takes back have another call here, later.

        Returns these.
        """
        if lane.dropped:  # while the listener ran
            logger.info("result of %d messages of %s discarded", len(messages), lane.queue)
            return ()
        kept = self._progress.settle(lane, messages, outcome)
        if kept:
            for message in kept:
                message.reconsume_times += 1
            # If the client closes first, the offset is still below them: they come elsewhere.
            again = partial(self.deliver, lane, tuple(kept))
            self._engine.schedule_after(LOCAL_RETRY_WAIT_MS, again)
        return kept

    def _settle_for_program(
        self, lane: Lane, messages: Sequence[MessageExt], outcome: Outcome
    ) -> Future[None]:
        """Settle at once what needs no broker, and the rest in background."""
        if isinstance(outcome, Done):
            self._settle(lane, messages, outcome)
            return SETTLED
        return self.calls.settle(partial(self._settle, lane, messages, outcome))

    def _wait_for_room(self, lane: Lane, messages: Sequence[MessageExt]) -> None:
        if self._waits % LOG_EVERY == 0:
            logger.warning(
                "group %s: %d messages of %s wait: %d bytes are decompressed for listeners, "
                "decompressed_total_max_bytes %d",
                self._group,
                len(messages),
                lane.queue,
                self.calls.bodies.held,
                self._settings.decompressed_total_max_bytes,
            )
        self._waits += 1
        self._engine.schedule_after(NO_ROOM_WAIT_MS, partial(self.deliver, lane, messages))

"""What settling a popped message does: an ack, or another time until it comes again.

`Receipts` is the progress of popped lanes. A message is kept hidden from the moment its listener
may have it until it is settled, and what comes too late is thrown away. It must not know listeners.
Facts: ``ConsumeMessagePopConcurrentlyService`` (``processConsumeResult``, ``checkNeedAckOrDelay``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from attrs import define, field

from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.core.acks import Acks
from rocketmq_py.consumer.core.outcome import (
    AS_ATTEMPT,
    DEAD,
    LEVEL_OF_ATTEMPT,
    Dead,
    Done,
    Hold,
    Later,
    Outcome,
)
from rocketmq_py.consumer.core.pop_calls import (
    CALL_TIMEOUT_MS,
    PopCalls,
    Receipt,
    read_invisible_time,
)
from rocketmq_py.consumer.core.pop_lane import PopLane
from rocketmq_py.consumer.core.rebalance import Unguarded
from rocketmq_py.consumer.core.receipts import (
    ReceiptKeeper,
    delay_after_last_s,
    renewals_within,
    retry_delay_s,
)
from rocketmq_py.logs import get_logger

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rocketmq_py.client.instance import ClientInstance
    from rocketmq_py.clock import Clock
    from rocketmq_py.consumer.core.lane import Lane
    from rocketmq_py.consumer.core.progress import Retries
    from rocketmq_py.consumer.core.receipts import HeldReceipt
    from rocketmq_py.message import MessageExt
    from rocketmq_py.send_result import MessageQueue

logger = get_logger(__name__)

RENEWAL_S: Final = 2 * CALL_TIMEOUT_MS / 1000
"""A renewal that is under way has ended by then."""
LEAST_MS: Final = 1
NO_LIMIT: Final = sys.maxsize
"""So often messages in order are renewed: those behind one that fails wait as long as it does."""
LAST_ACKS_S: Final = 1.0
"""So long the end of a consumer waits for the answers to its acks."""
MINUTE_MS: Final = 60_000


class ReceiptSettings(Protocol):
    """How long messages are hidden, and how often they are tried; see `PushConsumerConfig`."""

    pop_invisible_time: int
    consume_timeout: int

    @property
    def reconsume_times_max(self) -> int:
        """Attempts after the first one."""


@define(eq=False, repr=False, kw_only=True)
class Receipts(Unguarded):
    """The progress of popped lanes, and their `Ownership`. Safe from any thread.

    ``dead_letters`` puts a message among them. ``clock`` says how old a message is, ``now`` whether
    the time of its receipt is over. ``in_order``: what is not handled stays here, hidden, and is
    settled as `Done` or `Dead` only. ``as_proxy``: messages that wait for their listener are kept
    hidden, too, and those that failed too often are dead letters, as a proxy does it.
    """

    _engine: ClientInstance
    _group: str
    _calls: PopCalls
    _settings: ReceiptSettings
    _dead_letters: Retries
    _clock: Clock
    _now: Callable[[], float] = monotonic
    _in_order: bool = False
    _as_proxy: bool = False
    _attempts: dict[MessageQueue, str] = field(factory=dict, init=False)
    acks: Acks = field(init=False)
    keeper: ReceiptKeeper = field(init=False)

    @acks.default
    def _own_acks(self) -> Acks:
        return Acks(self._engine, self._group, self._calls)

    @keeper.default
    def _own_keeper(self) -> ReceiptKeeper:
        invisible_ms = self._settings.pop_invisible_time
        most = renewals_within(self._settings.consume_timeout * MINUTE_MS, invisible_ms)
        return ReceiptKeeper(
            self._engine,
            self._calls,
            invisible_ms,
            renewals_max=NO_LIMIT if self._in_order else most,
            now=self._now,
        )

    def begin(self, queue: MessageQueue) -> PopLane:
        """Begin wherever the broker is."""
        keep = self.keeper.register if self._as_proxy else None
        return PopLane(queue, self._now, self._attempts if self._in_order else None, keep)

    def plan(self, message: MessageExt, delay_ms: int | None) -> tuple[Outcome, int]:
        """Take any number of milliseconds."""
        later = AS_ATTEMPT if delay_ms is None else Later(delay_ms=delay_ms)
        return later, self._again_ms(message, later) or 0

    def claim(self, lane: PopLane, messages: Sequence[MessageExt]) -> Sequence[MessageExt]:
        """Keep messages hidden for their listener; those whose time is over are left out."""
        claimed, over = lane.claim(messages, self.keeper.register)
        if over:
            logger.info(
                "group %s: %d messages of %s waited for longer than pop_invisible_time (%d ms): "
                "no listener gets them here, they come again",
                self._group,
                len(over),
                lane.queue,
                self._settings.pop_invisible_time,
            )
        return claimed

    def settle(
        self, lane: PopLane, messages: Sequence[MessageExt], outcome: Outcome
    ) -> list[MessageExt]:
        """Ack what is done, and hide the rest until it is to come again.

        In order what no broker takes as a dead letter stays; otherwise nothing does.
        """
        if lane.dropped:
            return []
        kept: list[MessageExt] = []
        for message, held in lane.take(messages):
            if held.is_over(self._now()):
                logger.info(
                    "group %s: result of message %s of %s discarded: its invisible time is over",
                    self._group,
                    message.msg_id,
                    lane.queue,
                )
                lane.remove([message])
                continue
            delay_ms = self._delay_ms(message, outcome)
            if delay_ms is None:
                held.done().add_done_callback(partial(self._ack, lane, message))
            elif self._in_order:
                lane.untake(message)
                kept.append(message)
            else:
                self._hide(lane, message, held, delay_ms)
        return kept

    def end(self) -> None:
        """Wait a moment for the acks under way, and renew nothing more."""
        if not self.acks.wait(LAST_ACKS_S):
            logger.warning(
                "group %s: acks have no answer after %g s, so messages that were handled may come "
                "again",
                self._group,
                LAST_ACKS_S,
            )
        self.keeper.close()

    def given_back(self, lane: Lane) -> None:
        """Let messages come to others when their time is over."""
        lane.release()

    def _ack(self, lane: PopLane, message: MessageExt, receipt: Future[Receipt]) -> None:
        self.acks.put(receipt.result(), partial(lane.remove, [message]))

    def _hide(self, lane: PopLane, message: MessageExt, held: HeldReceipt, delay_ms: int) -> None:
        """Let a message come again after a delay; waits for the broker."""
        try:
            receipt = held.done().result(RENEWAL_S)
            answer = self._calls.ask_invisible_time(receipt, delay_ms).result(RENEWAL_S)
            if read_invisible_time(answer, receipt) is None:
                logger.debug("group %s: message %s came again before", self._group, message.msg_id)
        except Exception as error:  # noqa: BLE001 - of hooks and peers too; the message comes again
            what = f"group {self._group}: hiding message {message.msg_id} for {delay_ms} ms"
            self._engine.unreachable.failed(lane.queue.broker_name, what, error)
        finally:
            lane.remove([message])

    def _delay_ms(self, message: MessageExt, outcome: Outcome) -> int | None:
        """Say how long a message stays hidden; None: it is acked, and does not come again."""
        if isinstance(outcome, Done):
            return None
        if isinstance(outcome, Dead) or (self._as_proxy and self._had_its_last(message)):
            outcome = DEAD
            done = self._dead_letters.arrange(message, outcome)
            return None if done else self._again_ms(message, AS_ATTEMPT)
        return self._again_ms(message, outcome)

    def _again_ms(self, message: MessageExt, outcome: Later | Hold) -> int | None:
        """Say after how long a message comes again that was not handled."""
        if self._had_its_last(message) and not self._as_proxy:
            return self._delay_after_last_ms(message)
        if outcome.delay_ms is not None:
            return max(LEAST_MS, outcome.delay_ms)
        level = outcome.level if isinstance(outcome, Later) else LEVEL_OF_ATTEMPT
        return 1000 * retry_delay_s(message.reconsume_times, level)

    def _had_its_last(self, message: MessageExt) -> bool:
        return message.reconsume_times >= self._settings.reconsume_times_max

    def _delay_after_last_ms(self, message: MessageExt) -> int | None:
        age_s = max(0, self._clock.now_ms - message.born_timestamp) / 1000
        delay_s = delay_after_last_s(age_s)
        if delay_s is None:
            logger.warning(
                "group %s: message %s of topic %s, sent %d s ago, is given up after %d attempts",
                self._group,
                message.msg_id,
                message.topic,
                age_s,
                message.reconsume_times + 1,
            )
            return None
        return 1000 * delay_s

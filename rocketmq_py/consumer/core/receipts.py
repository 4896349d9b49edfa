"""Receipts of popped messages while listeners work: renewed in time, and when a failure returns.

A message that was popped comes to somebody else when its invisible time ends. `ReceiptKeeper` asks
for more time at half of it, again and again, as long as the listener works, up to a limit; each
renewal makes a new receipt, and only the newest counts. `retry_delay_s` and `delay_after_last_s`
say when a message that failed comes again. This module must not know listeners or queues. Facts:
``ConsumeMessagePopConcurrentlyService``; Java's push consumer does not renew, its proxy does.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Final

from attrs import frozen

from rocketmq_py.client.background import TimerHandle
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.core.pop_calls import PopCalls, Receipt, read_invisible_time
from rocketmq_py.protocol.command import RemotingCommand

RETRY_DELAYS_S: Final = (
    10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200,
)  # fmt: skip
"""How long a message that failed stays hidden, by the number of former deliveries."""
LAST_AGE_S: Final = 2 * RETRY_DELAYS_S[-1]
"""A message that failed too often is given up when it is older than that."""
ASK_AGAIN_MS: Final = 1_000
"""The least time between a renewal that failed and the next one."""


def retry_delay_s(reconsume_times: int, level: int = 0) -> int:
    """Say how long a message that failed stays hidden, in seconds.

    ``level`` is what the listener wants, 0 leaves it to the number of former deliveries; 1 is
    thirty seconds, as for Java. Dead letters (-1) are none of this table: ValueError.

    >>> retry_delay_s(0), retry_delay_s(2), retry_delay_s(99), retry_delay_s(5, level=1)
    (10, 60, 7200, 30)
    """
    if level < 0 or reconsume_times < 0:
        raise ValueError(f"level {level} after {reconsume_times} deliveries has no delay")
    return RETRY_DELAYS_S[min(level or reconsume_times, len(RETRY_DELAYS_S) - 1)]


def delay_after_last_s(age_s: float) -> int | None:
    """Say how long a message that failed too often stays hidden; None: it is acked, given up.

    That depends on its age since it was sent, so that each delivery comes later than the one
    before.

    >>> delay_after_last_s(0), delay_after_last_s(65), delay_after_last_s(14_000)
    (10, 120, 7200)
    >>> delay_after_last_s(14_401) is None
    True
    """
    if age_s > LAST_AGE_S:
        return None
    later = (delay for delay in RETRY_DELAYS_S if delay > age_s)
    return next(later, RETRY_DELAYS_S[-1])


def renewals_within(span_ms: int, invisible_ms: int) -> int:
    """Say how many renewals, each at half of its time, keep a message hidden for a span.

    >>> [renewals_within(span, 60_000) for span in (0, 60_000, 60_001, 900_000)]
    [0, 0, 1, 28]
    """
    beyond = max(0, span_ms - invisible_ms)
    return -(-beyond // max(1, invisible_ms // 2))


@frozen(eq=False)
class _Terms:
    """What all receipts of one keeper have in common."""

    engine: ClientInstance
    calls: PopCalls
    invisible_ms: int
    now: Callable[[], float]
    forget: "Callable[[HeldReceipt], object]"


class HeldReceipt:
    """The receipt of a message that somebody works on. Every call is safe from any thread.

    ``receipt`` is the newest one that is known, ``expires_at`` when its time ends, in seconds of
    `rocketmq_py.clock.monotonic`.
    """

    __slots__ = (
        "_is_done",
        "_lock",
        "_renewals",
        "_settled",
        "_terms",
        "_timer",
        "expires_at",
        "receipt",
    )

    def __init__(
        self, terms: _Terms, receipt: Receipt, expires_at: float, renewals_max: int
    ) -> None:
        self._terms = terms
        self.receipt = receipt
        self.expires_at = expires_at
        self._renewals = renewals_max
        self._lock = threading.Lock()
        self._is_done = False
        self._settled: Future[Receipt] | None = None  # while a renewal is under way
        self._timer: TimerHandle | None = None

    def is_over(self, now: float) -> bool:
        """Whether somebody else may have the message by now, so that work on it is in vain."""
        return now >= self.expires_at

    def done(self) -> Future[Receipt]:
        """Renew no longer; give the receipt that counts.

        It is in the future at once, or when the renewal that is under way has its answer, which
        takes no longer than a call may take. Idempotent.
        """
        with self._lock:
            self._is_done = True
            timer, self._timer = self._timer, None
            settled = self._settled
            if settled is None:
                settled = Future()
                settled.set_result(self.receipt)
        if timer is not None:
            timer.cancel()
        self._terms.forget(self)
        return settled

    def give_back(self) -> None:
        """Renew no longer, and let others have the message soon. Waits for no broker."""
        give_back = self._terms.calls.give_back
        self.done().add_done_callback(lambda receipt: give_back(receipt.result()))

    def renew_at_half(self) -> None:
        """Ask for more time when half of a whole invisible time is left."""
        left_ms = (self.expires_at - self._terms.now()) * 1000
        self._renew_in(left_ms - self._terms.invisible_ms / 2)

    def _renew_in(self, delay_ms: float) -> None:
        with self._lock:
            if not self._is_done and self._renewals > 0:
                schedule = self._terms.engine.schedule_after
                self._timer = schedule(max(0.0, delay_ms), self._renew_on_pool)

    def _renew_on_pool(self) -> None:
        # The timer thread must not wait for a route.
        if not self._terms.engine.submit_background(self._renew):
            self._renew_in(ASK_AGAIN_MS)

    def _renew(self) -> None:
        now = self._terms.now()
        with self._lock:
            if self._is_done or self.is_over(now):
                return
            self._renewals -= 1
            self._timer = None
            self._settled = Future()
        answer: Future[RemotingCommand]
        try:
            answer = self._terms.calls.ask_invisible_time(self.receipt, self._terms.invisible_ms)
        except Exception as error:  # noqa: BLE001 - of a hook; somebody may wait for the receipt
            answer = Future()
            answer.set_exception(error)
        answer.add_done_callback(partial(self._answered, now))

    def _answered(self, asked_at: float, answer: Future[RemotingCommand]) -> None:
        # Reading is not for the thread that gets answers, unless the client ends.
        if not self._terms.engine.submit(self._read, asked_at, answer):
            self._read(asked_at, answer)

    def _read(self, asked_at: float, answer: Future[RemotingCommand]) -> None:
        """Take the new receipt, or the end of it; or try again, when nobody knows which counts."""
        try:
            fresh = read_invisible_time(answer.result(), self.receipt)
        except Exception as error:  # noqa: BLE001 - as above, and what hooks and peers do else
            what = f"keeping message {self.receipt.offset} of {self.receipt.topic} hidden"
            broker_name = self.receipt.handle.broker_name
            self._terms.engine.unreachable.failed(broker_name, what, error)
            self._settle()
            left_ms = (self.expires_at - self._terms.now()) * 1000
            self._renew_in(max(ASK_AGAIN_MS, left_ms / 2))
            return
        if fresh is None:
            self.expires_at = asked_at
            self._settle()
            return
        self.receipt = fresh
        self.expires_at = asked_at + self._terms.invisible_ms / 1000
        self._settle()
        self.renew_at_half()

    def _settle(self) -> None:
        with self._lock:
            settled, self._settled = self._settled, None
        if settled is not None and settled.set_running_or_notify_cancel():
            settled.set_result(self.receipt)


class ReceiptKeeper:
    """Renews the receipts of one consumer's messages. Every method may be called by any thread.

    ``invisible_ms``: how long each pop and each renewal hides a message. ``renewals_max``: how
    often one message is renewed at most; then its time ends as if nobody worked on it. It keeps
    as many receipts as its consumer has messages, which the consumer bounds.
    """

    def __init__(
        self,
        engine: ClientInstance,
        calls: PopCalls,
        invisible_ms: int,
        *,
        renewals_max: int,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._held: set[HeldReceipt] = set()
        self._terms = _Terms(engine, calls, invisible_ms, now, self._held.discard)
        self._renewals_max = renewals_max

    @property
    def held(self) -> int:
        """How many messages are worked on."""
        return len(self._held)

    def register(self, receipt: Receipt, popped_at: float) -> HeldReceipt:
        """Keep a message hidden until `HeldReceipt.done`.

        ``popped_at``: when the answer of its pop came, by the monotonic clock. The broker's clock,
        which the receipt speaks of, may show another time than that of this machine.
        """
        expires_at = popped_at + self._terms.invisible_ms / 1000
        held = HeldReceipt(self._terms, receipt, expires_at, self._renewals_max)
        self._held.add(held)
        held.renew_at_half()
        return held

    def close(self) -> None:
        """Renew nothing any more; what is not acked comes again when its time is over."""
        for held in self._held.copy():
            held.done()

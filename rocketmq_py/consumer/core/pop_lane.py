"""One assignment whose messages are popped: those that are here, each with its own receipt.

A `PopLane` holds a message from the pop until its broker has confirmed what became of it. It knows
no offsets: its messages may be of any queue of the broker, and of retry topics. One in order is of
one queue, of which its broker gives nothing else until what it gave is acked. It must not know
brokers or listeners: `intake` puts, `pop_progress` claims and removes. Facts:
``PopProcessQueue``, ``ConsumerOrderInfoManager``.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar
from uuid import uuid4

from attrs import define

from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.core.pop_calls import Receipt
from rocketmq_py.consumer.core.receipts import HeldReceipt
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.pop_handles import PopHandle
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.send_result import MessageQueue

Keep = Callable[[Receipt, float], HeldReceipt]
"""Keeps a message hidden that was popped at a monotonic second."""


@define(eq=False)
class _Delivered:
    """One delivery of a message; `held` from the moment a listener may have it."""

    message: MessageExt
    size: int
    popped_at: float
    held: HeldReceipt | None = None
    is_settled: bool = False


class PopLane(Lane):
    """Popped messages of one assignment; every method may be called by any thread.

    `count` and `size` include messages that are settled and not yet confirmed by their broker, so
    they bound the acks under way, too. ``next_offset`` counts the messages that were popped.
    ``attempts`` makes it a lane in order: the name of the next pop of each queue. A pop whose
    answer was lost gets the same messages again under the same name, also from a later lane of
    the queue, and nobody else gets them before they are visible again. ``keep``, if given, keeps
    messages hidden from the moment they are here; else `claim` begins with that.
    """

    __slots__ = ("_attempts", "_deliveries", "_keep", "_now")

    is_popped: ClassVar = True

    def __init__(
        self,
        queue: MessageQueue,
        now: Callable[[], float],
        attempts: dict[MessageQueue, str] | None = None,
        keep: Keep | None = None,
    ) -> None:
        super().__init__(queue, 0, fetched_at=now())
        self._now = now
        self._attempts = attempts
        self._keep = keep
        self._deliveries: dict[str, _Delivered] = {}  # by handle, the oldest first

    @property
    def in_order(self) -> bool:
        """Whether the broker gives nothing more until what it gave is acked."""
        return self._attempts is not None

    @property
    def attempt_id(self) -> str | None:
        """Name of the next pop, of a lane in order."""
        if self._attempts is None:
            return None
        return self._attempts.setdefault(self.queue, uuid4().hex)

    def end_attempt(self) -> None:
        """Give the next pop a name of its own: the answer of the last one is here."""
        if self._attempts is not None:
            self._attempts.pop(self.queue, None)

    def put(self, messages: Iterable[MessageExt]) -> None:
        """Keep messages, whose handles are their property ``POP_CK``.

        A broker that has lost its last seconds may give a handle once more: the same message.
        """
        now = self._now()
        with self._lock:
            for message in messages:
                handle = _handle(message)
                known = self._deliveries.get(handle)
                if known is not None:
                    if not known.is_settled:
                        continue
                    self._forget(handle, known)  # its ack may be lost
                self._deliveries[handle] = one = _Delivered(message, len(message.body), now)
                if self._keep is not None:
                    self._hold(one, self._keep)
                self.count += 1
                self.size += len(message.body)

    def claim(
        self, messages: Sequence[MessageExt], keep: Keep
    ) -> tuple[list[MessageExt], list[MessageExt]]:
        """Divide messages into those that a listener may have and those whose time is over.

        The first are kept hidden by ``keep`` from now on, the others are forgotten. In order
        nothing that was popped with one of these, or before, may come before it comes again.
        """
        claimed: list[MessageExt] = []
        over: list[MessageExt] = []
        with self._lock:
            if self.dropped:
                return [], []
            now = self._now()
            for message in messages:
                one = self._deliveries.get(_handle(message))
                if one is None or one.is_settled:
                    continue
                if one.held is None:
                    self._hold(one, keep)
                if one.held is None or one.held.is_over(now):
                    over.append(message)
                else:
                    claimed.append(message)
            if over and self.in_order:
                until = max(self._deliveries[_handle(one)].popped_at for one in over)
                over = [
                    one.message
                    for one in self._deliveries.values()
                    if one.popped_at <= until and not one.is_settled
                ]
        self.remove(over)
        return [one for one in claimed if self.holds(one)] if over else claimed, over

    def _hold(self, one: _Delivered, keep: Keep) -> None:
        receipt = Receipt.of(self.queue.topic, PopHandle.parse(_handle(one.message)))
        if receipt is not None:
            one.held = keep(receipt, one.popped_at)

    def take(self, messages: Iterable[MessageExt]) -> list[tuple[MessageExt, HeldReceipt]]:
        """Settle claimed messages: give each with its receipt, once. They count until `remove`."""
        taken: list[tuple[MessageExt, HeldReceipt]] = []
        with self._lock:
            for message in messages:
                one = self._deliveries.get(_handle(message))
                if one is not None and one.held is not None and not one.is_settled:
                    one.is_settled = True
                    taken.append((one.message, one.held))
        return taken

    def untake(self, message: MessageExt) -> None:
        """Let a message that was taken be unsettled again: nothing could be done with it."""
        with self._lock:
            self._deliveries[_handle(message)].is_settled = False

    def remove(self, messages: Iterable[MessageExt]) -> int:
        """Forget messages, and keep them hidden no longer; there is no offset to commit: -1."""
        gone: list[_Delivered] = []
        with self._lock:
            for message in messages:
                handle = _handle(message)
                one = self._deliveries.get(handle)
                if one is not None and one.message is message:
                    gone.append(one)
                    self._forget(handle, one)
        _release(gone)
        return -1

    def _forget(self, handle: str, one: _Delivered) -> None:
        del self._deliveries[handle]
        self.count -= 1
        self.size -= one.size

    def release(self) -> None:
        """Keep no message hidden any longer: the lane is dropped.

        In order what is not settled is given back: all of the queue would wait for it.
        """
        with self._lock:
            held = list(self._deliveries.values())
        if self.in_order:
            for one in held:
                if one.held is not None and not one.is_settled:
                    one.held.give_back()
        else:
            _release(held)

    def holds(self, message: MessageExt) -> bool:
        """Whether the message is not settled yet."""
        one = self._deliveries.get(_handle(message))
        return one is not None and not one.is_settled

    def head(self) -> MessageExt | None:
        """Return the message that is here the longest and not settled."""
        with self._lock:
            unsettled = (one for one in self._deliveries.values() if not one.is_settled)
            first = next(unsettled, None)
            return None if first is None else first.message

    @property
    def max_span(self) -> int:
        """Nothing: acks need no order."""
        return 0


def _handle(message: MessageExt) -> str:
    return message.properties.get(Prop.POP_CK, "")


def _release(deliveries: Iterable[_Delivered]) -> None:
    for one in deliveries:
        if one.held is not None:
            one.held.done()

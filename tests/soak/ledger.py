"""What was sent, what became of it, and what came: is every promise kept?

A message is forgotten when nothing can go wrong with it any more, so that the ledger of a long run
stays small. Must not know clients: senders and listeners tell it.
"""

from __future__ import annotations

import threading
from collections import Counter
from itertools import count

from attrs import define

from rocketmq_py import SendResult
from rocketmq_py.clock import monotonic

EARLY_S = 0.01
"""A message that comes so long before its time does not: two clocks measured it."""

ERROR_LENGTH = 200
REFUSALS_MAX = 10
"""So many are told at a time: the others say the same."""


@define
class Sent:
    """One message, from before its send until it came."""

    number: int
    due_at: float
    at: float
    came_at: float = 0.0
    told: str = ""
    """Where it is stored, or why it is not."""


class Ledger:
    """Every method may be called by any thread; times are seconds since the ledger began."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        """What must never happen, in sentences."""
        self._began = monotonic()
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._open: dict[int, Sent] = {}
        self._waiting: dict[int, Sent] = {}
        self._refused: dict[int, Sent] = {}
        self._refusals: list[str] = []

    @property
    def now(self) -> float:
        return monotonic() - self._began

    def sending(self, delay_s: float) -> int:
        """Give the number of a message that is sent now."""
        with self._lock:
            number, now = next(self._numbers), self.now
            self._open[number] = Sent(number, now + delay_s, now)
            return number

    def stored(self, number: int, result: SendResult) -> None:
        """Note that a broker has acknowledged the message: it must come."""
        with self._lock:
            sent = self._open.pop(number)
            self.counts[f"acknowledged {result.send_status.name}"] += 1
            queue = result.message_queue
            place = f"{queue.broker_name} queue {queue.queue_id} offset {result.queue_offset}"
            sent.told = f"{result.msg_id} acknowledged at {self.now:.1f} s by {place}"
            if not sent.came_at:
                self._waiting[number] = sent

    def failed(self, number: int, error: BaseException) -> None:
        """Note the error of a send: unless the message is possibly stored, it must not come."""
        possibly = getattr(error, "possibly_stored", False)
        with self._lock:
            sent = self._open.pop(number)
            self.counts[f"{type(error).__name__}{', possibly stored' if possibly else ''}"] += 1
            if possibly:
                return
            if not isinstance(error, TimeoutError) and len(self._refusals) < REFUSALS_MAX:
                sent.told = f"{type(error).__name__} at {self.now:.3f} s: {error}"
                self._refusals.append(_line(sent))
            sent.told = f"refused at {self.now:.1f} s: {str(error)[:ERROR_LENGTH]}"
            self._refused[number] = sent
            if sent.came_at:
                self._came_though_refused(sent)

    def came(self, number: int) -> None:
        """Note that a listener has got the message."""
        with self._lock:
            now = self.now
            sent = self._waiting.pop(number, None) or self._open.get(number)
            if sent is not None and not sent.came_at:
                self.counts["came"] += 1
                sent.came_at = now
                if now < sent.due_at - EARLY_S:
                    self.wrong.append(f"{_line(sent)}: came early, at {now:.3f} s")
                return
            self.counts["came again, or possibly stored"] += 1
            refused = self._refused.get(number)
            if refused is not None:
                refused.came_at = now
                self._came_though_refused(refused)

    def missing(self, until: float) -> list[str]:
        """The acknowledged messages that were due by then and did not come, in sentences."""
        with self._lock:
            late = [sent for sent in self._waiting.values() if sent.due_at <= until]
            return [f"{_line(sent)}: did not come" for sent in late]

    def refusals(self) -> list[str]:
        """The sends that failed at once since the last call, in sentences."""
        with self._lock:
            told, self._refusals = self._refusals, []
            return told

    def _came_though_refused(self, sent: Sent) -> None:
        self.wrong.append(f"{_line(sent)}: came all the same, at {sent.came_at:.1f} s")


def _line(sent: Sent) -> str:
    due = f", due at {sent.due_at:.3f} s" if sent.due_at > sent.at else ""
    return f"message {sent.number}, sent at {sent.at:.3f} s{due}, {sent.told}"

"""Limits of all connections of a port together; those of a single one are in tcp_connection.py.

Answers: how many bytes of answers wait for slow readers, how many of requests have arrived in part,
and which connection is ended when that is too much: the one with the most, until enough is free.
Bytes that several connections wait for count once. Must not know: what is asked, how bytes travel.
Used on the thread of the sockets only. Read on: ``tcp_connection.py``, which counts.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from attrs import define, field

from embedded_broker.remoting.rate_limited_log import RateLimitedLog
from embedded_broker.settings.config import BrokerConfig
from rocketmq_py.clock import monotonic_ns
from rocketmq_py.logs import get_logger

logger = get_logger(__name__)

_LOOK_PART: Final = 64
"""Who has read meanwhile is looked up once for each such part of the limit that was added."""
UNREAD: Final = "unreadAnswersMaxBytes"
UNFINISHED: Final = "unfinishedRequestsMaxBytes"
CONNECTIONS: Final = "maxConnections"


SPARE: Final = 64 * 1024 * 1024
"""When so much less is held up than before, memory is worth giving back."""


def _nothing() -> None:
    """Nobody gives memory back."""


class Holder(Protocol):
    """A connection, as far as its bytes go."""

    unfinished: int
    """Bytes of a request that has not arrived as a whole."""
    noted: int
    """Bytes of answers that only it waits for, as they were counted last."""
    full_since_ns: int
    """Since when it has not taken what was written; 0 for one that does, or waits its turn."""

    def count_unread(self) -> int:
        """Give the bytes of answers that only it waits for, now."""

    def long_answers(self) -> Sequence[bytes]:
        """Give the long answers that it waits for and others may, too."""

    def abort(self) -> None:
        """End at once."""


@define(slots=True)
class _Long:
    """A long answer and how many wait for it."""

    size: int
    holders: int = 0


@define(eq=False)
class ConnectionLimits:
    """The bytes of all connections and their two limits.

    `unread` is never less than what truly waits: what readers have taken meanwhile is found out
    when the limit is passed.
    """

    unread_max: int = 1 << 28
    unfinished_max: int = 1 << 28
    connections_max: int = 10_000
    unread: int = field(default=0, init=False)
    unfinished: int = field(default=0, init=False)
    on_spare: Callable[[], None] = field(default=_nothing, init=False)
    """Called when much less is held up than before."""
    closed: int = field(default=0, init=False)
    """How many connections were ended for the sake of the others."""
    _slow: dict[Holder, None] = field(factory=dict, init=False)
    _partial: dict[Holder, None] = field(factory=dict, init=False)
    _long: dict[int, _Long] = field(factory=dict, init=False)
    _look_at: int = field(default=0, init=False)
    _highest: int = field(default=0, init=False)
    _closings: RateLimitedLog = field(factory=lambda: RateLimitedLog(logger), init=False)

    def read_settings(self, config: BrokerConfig) -> None:
        """Take over the limits of the options."""
        self.unread_max, self.unfinished_max = config.int(UNREAD), config.int(UNFINISHED)
        self.connections_max = config.int(CONNECTIONS)

    # -- answers that are not read ----------------------------------------------------------

    def note_unread(self, holder: Holder, size: int) -> None:
        """Note that so many bytes wait for a connection alone; may end the greediest ones."""
        self._count(holder, size)
        if self.unread > self.unread_max and self.unread >= self._look_at:
            self._relieve_unread()

    def hold(self, answer: bytes) -> None:
        """Note that one more connection waits for a long answer; ``note_unread`` follows."""
        found = self._long.get(id(answer))
        if found is None:
            found = self._long[id(answer)] = _Long(len(answer))
            self.unread += found.size
        found.holders += 1

    def release(self, answer: bytes) -> None:
        """Note that a connection waits for it no more."""
        found = self._long[id(answer)]
        found.holders -= 1
        if not found.holders:
            del self._long[id(answer)]
            self.unread -= found.size

    def _count(self, holder: Holder, size: int) -> None:
        self.unread += size - holder.noted
        holder.noted = size
        if size or holder.long_answers():
            self._slow[holder] = None
        else:
            self._slow.pop(holder, None)
        self._note_spare()

    def _note_spare(self) -> None:
        now = self.unread + self.unfinished
        if now > self._highest:
            self._highest = now
        elif self._highest - now >= SPARE:
            self._highest = now
            self.on_spare()

    def _relieve_unread(self) -> None:
        for holder in list(self._slow):
            self._count(holder, holder.count_unread())
        self._look_at = self.unread + self.unread_max // _LOOK_PART
        if self.unread > self.unread_max:
            self._look_at = 0
            now_ns = monotonic_ns()
            some = sorted(self._slow, key=lambda one: self._greed(one, now_ns), reverse=True)
            self._end_greediest(
                some, self._share, lambda: self.unread, self.unread_max, "unread", UNREAD
            )

    def _greed(self, holder: Holder, now_ns: int) -> tuple[int, int]:
        """Give how much it holds up for how long; of two that take what they get, how much."""
        share, since_ns = self._share(holder), holder.full_since_ns
        return share * (now_ns - since_ns) if since_ns else 0, share

    def _share(self, holder: Holder) -> int:
        """Give the bytes that wait for a connection; of what many wait for, its share."""
        shares = [self._long[id(one)] for one in holder.long_answers()]
        return holder.noted + sum(one.size // one.holders for one in shares)

    # -- requests that are not complete ---------------------------------------------------------

    def note_unfinished(self, holder: Holder, size: int) -> None:
        """Note that so many bytes of a request have arrived; may end the greediest ones."""
        self.unfinished += size - holder.unfinished
        holder.unfinished = size
        if size:
            self._partial[holder] = None
        else:
            self._partial.pop(holder, None)
        self._note_spare()
        if self.unfinished > self.unfinished_max:
            some = sorted(self._partial, key=lambda one: one.unfinished, reverse=True)
            self._end_greediest(
                some,
                lambda one: one.unfinished,
                lambda: self.unfinished,
                self.unfinished_max,
                "of an unfinished request",
                UNFINISHED,
            )

    # -- the end ----------------------------------------------------------------------------

    def forget(self, holder: Holder) -> None:
        """Count nothing more of a connection that has ended; idempotent."""
        self._count(holder, 0)
        self.unfinished -= holder.unfinished
        holder.unfinished = 0
        self._partial.pop(holder, None)
        self._note_spare()

    def _end_greediest(
        self,
        holders: Sequence[Holder],
        size_of: Callable[[Holder], int],
        total: Callable[[], int],
        most: int,
        what: str,
        setting: str,
    ) -> None:
        """End connections in this order until an eighth of the limit is free."""
        before, enough = total(), most - most // 8
        for holder in holders:
            if total() <= enough:
                return
            self.closed += 1
            self._closings.warn(
                f"closing {holder!r}: {size_of(holder)} bytes {what}; all connections together "
                f"have {before}, at most {most} ({setting})"
            )
            holder.abort()

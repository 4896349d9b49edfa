"""Change of a pending timer to another time.

Answers: what is stored when a timer is recalled, or moved to another time, in either engine. Must
not know: requests, connections, and what an engine makes of it. A recall stores a mark that removes
the timer. A move stores a copy with the new time, then the mark that removes the old one, both in
one write: nothing is lost in between. If a power loss takes the mark alone, the copy is among the
last messages of its topic and says whom it replaces, so `finish` stores the mark again.

Read on: `timer/wheel/change.py` and `timer/slices/change.py` for the marks and copies of an engine.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from embedded_broker.errors import StoreError
from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.put_values import InnerMessage, PutStatus
from embedded_broker.timer.outcomes import MoveOutcome, RecallOutcome
from embedded_broker.timer.recall import PendingCopy, mark_message
from embedded_broker.timer.request import victim_root
from rocketmq_py.clock import Clock
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.properties import Prop

_LOG = get_logger(__name__)


_LOOKED_BACK: Final = 256
"""So many messages of the timer topic are looked at for a move that was not finished."""
_OF_ONE_COPY: Final = frozenset(
    {
        Prop.TIMER_ROLL_TIMES,
        Prop.TIMER_ROOT_OFFSET,
        Prop.TIMER_SRC_OFFSET,
        Prop.TIMER_ENQUEUE_MS,
        Prop.TIMER_DEQUEUE_MS,
    }
)


class Changes(ABC):
    """Recalls and moves of the timers of one store."""

    def __init__(self, store: MessageStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.unfinished: MessageRecord | None = None
        """A moved copy whose mark is missing: `finish` it when messages are accepted."""

    @abstractmethod
    def look_for_unfinished(self) -> None:
        """Find out whether an earlier life ended between a moved copy and its mark."""

    def _unfinished_among(
        self, read: Callable[[int], MessageRecord | None], begin: int, end: int
    ) -> MessageRecord | None:
        """Give the last moved copy among these queue offsets that no mark follows.

        Messages may have come behind it: a life can end before its first step.
        """
        marked: set[int] = set()
        for number in range(end - 1, max(begin, end - _LOOKED_BACK) - 1, -1):
            record = read(number)
            properties = {} if record is None else record.properties
            victim = victim_root(properties)
            if victim is None:
                continue
            if Prop.TIMER_DEL_UNIQKEY in properties:
                marked.add(victim)
            elif Prop.TIMER_ROOT_OFFSET not in properties and victim not in marked:
                return record
        return None

    @abstractmethod
    def _copies(self, unique_key: str, topic: str | None = None) -> list[PendingCopy]: ...

    @abstractmethod
    def _replacement(self, copy: PendingCopy, due_ms: int) -> InnerMessage:
        """Build the copy with the new time."""

    def recall(self, unique_key: str, topic: str | None) -> RecallOutcome:
        """Take back every waiting timer with this id; exact, until the release itself.

        Raises StoreError when the disk refuses before anything is taken back.
        """
        outcome = RecallOutcome.UNKNOWN
        is_refused = False
        for copy in self._copies(unique_key, topic):
            if copy.marked_by is not None:
                continue
            if not copy.waits:
                if outcome is RecallOutcome.UNKNOWN:
                    outcome = RecallOutcome.ALREADY_DUE
            elif self._put(self._mark(copy)):
                outcome = RecallOutcome.RECALLED
            else:
                is_refused = True
        if is_refused and outcome is not RecallOutcome.RECALLED:
            raise StoreError(f"timer {unique_key!r} is not recalled: the store refuses to write")
        return outcome

    def move(self, unique_key: str, due_ms: int, topic: str | None) -> MoveOutcome:
        """Give every waiting timer with this id another time; a past one is now.

        Raises StoreError when the disk refuses; the timers not yet moved wait as before.
        """
        refused = f"timer {unique_key!r} keeps its time: the store takes no message"
        # Else a timer whose mark is missing would be moved along with the copy that replaces it.
        if not self.finish():
            raise StoreError(refused)
        outcome = MoveOutcome.UNKNOWN
        for copy in self._copies(unique_key, topic):
            if copy.marked_by is not None:
                continue
            if not copy.waits:
                if outcome is MoveOutcome.UNKNOWN:
                    outcome = MoveOutcome.ALREADY_DUE
                continue
            if not self._put_pair(self._replacement(copy, due_ms), self._mark(copy)):
                raise StoreError(refused)
            outcome = MoveOutcome.MOVED
        return outcome

    def finish(self) -> bool:
        """Remove what the unfinished copy replaces; False when the store takes no message."""
        moved = self.unfinished
        if moved is None:
            return True
        victim = victim_root(moved.properties)
        for copy in self._copies(moved.properties.get(Prop.UNIQ_KEY, "")):
            waits = copy.root == victim and copy.marked_by is None and copy.waits
            if waits and not self._put(self._mark(copy)):
                return False
        self.unfinished = None
        return True

    def _put_pair(self, moved: InnerMessage, mark: InnerMessage) -> bool:
        """Store both in one write, or one after the other if no file has room for both."""
        result = self._store.put(moved, mark)
        if result.status is not PutStatus.MESSAGE_ILLEGAL:
            return result.ok
        result = self._store.put(moved)
        if not result.ok:
            return False
        if not self._put(mark):
            self.unfinished = self._store.record(result.commit_log_offset)
        return True

    def _mark(self, copy: PendingCopy) -> InnerMessage:
        return mark_message(copy, now_ms=self._clock.now_ms)

    def _put(self, message: InnerMessage) -> bool:
        result = self._store.put(message)
        if not result.ok:
            _LOG.warning("the mark of a timer was not stored: %s", result.remark)
        return result.ok


def moved_copy(copy: PendingCopy, *, due_ms: int, out_ms: int) -> InnerMessage:
    """Build the copy of a timer that is due at another time.

    It begins a life of its own: its rolls are counted anew.
    """
    record = copy.record
    properties = {
        name: value for name, value in record.properties.items() if name not in _OF_ONE_COPY
    }
    properties[Prop.TIMER_OUT_MS] = str(out_ms)
    properties[Prop.TIMER_DUE_MS] = str(due_ms)
    properties[Prop.TIMER_DEL_OFFSET] = str(copy.root)
    return InnerMessage.copy_of(record, record.topic, record.queue_id, properties)

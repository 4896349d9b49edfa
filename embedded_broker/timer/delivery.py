"""Delivery of a due message by a timer engine: where, what the answer means, when to try again.

Answers: which answers of a put say that the message is stored, which that it never will be and
which that trying again helps; how an answer that comes later is waited for; and how long an engine
waits after a failure. Must not know: engines, timers, levels. The table of answers is that of
`org.apache.rocketmq.store.timer.TimerMessageStore.doPut`. After
`org.apache.rocketmq.broker.failover.EscapeBridge` a master puts into its own store, and a slave
that acts as master sends to the master of another broker: `escape` of `TimerMessageStore` and of
`ScheduleMessageService` takes a bridge of the second kind (`ha/escape.py`).

Waits run on the session clock where there is one, so that a message clock that stands still cannot
block a retry.

Read on: `wheel/release.py` and `slices/fire.py`, which put what is due, and
`levels/unanswered_puts.py` for the delay levels, which wait for late answers in their own way.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Final

from attrs import define

from embedded_broker.clocks.timeline import Deadline
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.commit_log import CommitLog
from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.put_values import InnerMessage, PutResult, PutStatus
from embedded_broker.timer.request import source_offset
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.properties import Prop, decode_properties

_SOURCE: Final = Prop.TIMER_SRC_OFFSET.encode()
_WINDOW: Final = 1 << 20
"""Bytes of the commit log that are looked through at once."""
NEVER_ENQUEUED_MS: Final = 2**63 - 1
"""TIMER_ENQUEUE_MS of a message that is released without having waited in an engine's files."""
DISK_RETRY_MS: Final = 500
"""The wait when the store itself takes no message."""
_ATTEMPTS: Final = 3
"""How often a put is tried when timerEnableRetryUntilSuccess is off."""
_UNKNOWN_ERROR_WAIT_MS: Final = 50
_LOOK_EVERY_MS: Final = 1000
_LOOKS_MOST: Final = 4
"""`checkDequeueLatch`: the first second, two with nothing but this put at work, one to be sure."""

HOPELESS: Final = frozenset(
    {
        PutStatus.MESSAGE_ILLEGAL,
        PutStatus.PROPERTIES_SIZE_EXCEEDED,
        PutStatus.WHEEL_TIMER_NOT_ENABLE,
        PutStatus.WHEEL_TIMER_MSG_ILLEGAL,
    }
)
SOON_BETTER: Final = frozenset(
    {
        PutStatus.SERVICE_NOT_AVAILABLE,
        PutStatus.OS_PAGE_CACHE_BUSY,
        PutStatus.CREATE_MAPPED_FILE_FAILED,
    }
)


class Release(Enum):
    """How a run of releases ended."""

    DRAINED = auto()
    OUT_OF_TIME = auto()
    BLOCKED = auto()


class LatePut:
    """A put whose answer is not there yet; whoever made it calls `finish` once, under the door.

    `is_promised`: the answer comes, however late; nobody gives the message up before.
    """

    __slots__ = ("_waiter", "is_promised", "result")

    def __init__(self, *, is_promised: bool = False) -> None:
        self.is_promised = is_promised
        self.result: PutResult | None = None
        """The answer; None until it came."""
        self._waiter: Callable[[], None] | None = None

    def finish(self, result: PutResult) -> None:
        """Give the answer. A second one is ignored: the first has been acted upon."""
        if self.result is not None:
            return
        self.result = result
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter()

    def when_done(self, call: Callable[[], None]) -> None:
        """Call this when the answer comes; only the last one asked for is kept."""
        self._waiter = call


Bridge = Callable[[InnerMessage], PutResult | LatePut]
"""Takes a message and answers, at once or later. It must not wait: it runs under the door."""


@define(slots=True)
class _Lane:
    """A put whose answer has not come, and how often it was looked for."""

    put: LatePut
    looks: int = 0

    @property
    def is_open(self) -> bool:
        put = self.put
        return put.result is None and (put.is_promised or self.looks < _LOOKS_MOST)


class Delivery:
    """Puts the due messages of one engine, one after the other.

    A put that fails is tried again after `retry_wait_ms`; meanwhile nothing else is put, so the
    order stays and nothing piles up in memory. `lost` counts by reason what is given up,
    `soon_ms` is the wait where trying again helps.
    """

    def __init__(
        self, store: MessageStore, config: BrokerConfig, lost: Counter[str], *, soon_ms: int
    ) -> None:
        self._store = store
        self._config = config
        self._lost = lost
        self._soon_ms = soon_ms
        self._attempts = 0
        self._lanes: dict[int, _Lane] = {}
        self.escape: Bridge | None = None
        """Where messages are put; None is this broker's own store."""
        self.is_stopping = False
        """Whether nothing more is put; answers that are missing are still taken."""
        self.keeps_hops = False
        """Whether what hops is kept in memory instead of being put: this store takes nothing."""
        self.on_answer: Callable[[], None] = _nobody_waits
        """Called when an answer comes that a put waits for."""
        self.retry_wait_ms = 0
        """How long to wait before the next put; 0 when nothing failed."""

    @property
    def is_waiting(self) -> bool:
        """Whether the answer of a put is missing."""
        return bool(self._lanes)

    def waits_for(self, source: int) -> bool:
        """Say whether the answer to the put of this message is missing."""
        return source in self._lanes

    @property
    def is_at_home(self) -> bool:
        """Whether messages go straight into this broker's own store."""
        return self.escape is None and not self._lanes

    def done_with_one(self) -> None:
        """Note that a message needs no more puts: the next one has all its attempts."""
        self._attempts = 0

    def put(self, message: InnerMessage, source: int) -> bool | None:
        """Put a copy of the message at `source` and judge the answer.

        True when it is stored, False when it is given up and counted, None to try again later.
        """
        if self.is_stopping and source not in self._lanes:
            self.retry_wait_ms = _UNKNOWN_ERROR_WAIT_MS
            return None
        if self.escape is None:
            result: PutResult | None = self._store.put(message)
        else:
            result = self._put_by_bridge(self.escape, message, source)
        if result is None:
            if source in self._lanes:
                return None
            return self._drop("never answered")
        status = result.status
        if status.is_stored:
            return True
        self._attempts += 1
        if status in HOPELESS:
            return self._drop("refused")
        if status in SOON_BETTER:
            keeps_trying = self._config.flag("timerEnableRetryUntilSuccess")
            if self._attempts >= _ATTEMPTS and not keeps_trying:
                return self._drop("gave up")
            self.retry_wait_ms = self._soon_ms
            return None
        if self._config.flag("timerSkipUnknownError"):
            return self._drop("unknown error")
        self.retry_wait_ms = _UNKNOWN_ERROR_WAIT_MS
        return None

    def _put_by_bridge(
        self, bridge: Bridge, message: InnerMessage, source: int
    ) -> PutResult | None:
        """Ask the bridge, or look whether it has answered; None when not.

        After the fourth look the lane is gone as well: nothing more is expected of it.
        """
        lane = self._lanes.get(source)
        if lane is None:
            answer = bridge(message)
            if not isinstance(answer, LatePut):
                return answer
            lane = self._lanes[source] = _Lane(answer)
        if lane.is_open:
            lane.put.when_done(self.on_answer)
            self.retry_wait_ms = _LOOK_EVERY_MS
            return None
        del self._lanes[source]
        return lane.put.result

    def look_for_answers(self) -> bool:
        """Look once more for missing answers; False if the next put has to wait for one.

        The fourth look is the last one (`TimerMessageStore.checkDequeueLatch`).
        """
        self.retry_wait_ms = 0
        for lane in self._lanes.values():
            lane.looks += 1
            if lane.is_open:
                self.retry_wait_ms = _LOOK_EVERY_MS
                return False
        return True

    def _drop(self, reason: str) -> bool:
        self._lost[reason] += 1
        return False


def _nobody_waits() -> None:
    """Do nothing with an answer."""


def released_copy(
    record: MessageRecord, topic: str, queue_id: int, *, enqueue_ms: int, now_ms: int
) -> InnerMessage:
    """Make the message that a release puts: it names its source, which proves the delivery."""
    properties = dict(record.properties)
    added = {
        Prop.TIMER_ENQUEUE_MS: str(enqueue_ms),
        Prop.TIMER_DEQUEUE_MS: str(now_ms),
        Prop.TIMER_SRC_OFFSET: str(record.commit_log_offset),
    }
    encoded: bytes | None = None
    before = record.properties_bytes
    if added.keys().isdisjoint(properties) and before.endswith(b"\x02"):
        tail = "".join([f"{name}\x01{value}\x02" for name, value in added.items()])
        encoded = before + tail.encode()
    properties.update(added)
    return InnerMessage.copy_of(record, topic, queue_id, properties, encoded)


def released_since(log: CommitLog, start: int) -> Iterator[tuple[int, str, dict[str, str]]]:
    """Give source, topic and properties of every copy that was released or rolled since `start`.

    After a stop they prove what needs no release any more.
    """
    for offset in _records_with(_SOURCE, log, start):
        for _, _, topic, _, _, _, _, encoded in log.scan_parts(offset, offset + 1, check_crc=False):
            if _SOURCE in encoded:
                properties = decode_properties(encoded)
                source = source_offset(properties)
                if source is not None:
                    yield source, topic, properties


def _records_with(name: bytes, log: CommitLog, start: int) -> Iterator[int]:
    """Give the offsets of the records with a name among their bytes, from the one at `start` on.

    Nearly every record lacks it: the bytes are searched, and of other records only the size is
    read.
    """
    for begin, part in log.files.chunks(max(start, log.min_offset), log.max_offset):
        at = end = 0
        given = -1
        for found in _places_of(name, part):
            while end <= found:
                at, size = end, int.from_bytes(part[end : end + 4], "big", signed=True)
                if size <= 0:
                    return
                end = at + size
            if at != given:  # once, however often it has the name
                given = at
                yield begin + at


def _places_of(name: bytes, part: memoryview) -> Iterator[int]:
    for begin in range(0, len(part), _WINDOW):
        window = bytes(part[begin : begin + _WINDOW + len(name) - 1])
        at = window.find(name)
        while at >= 0:
            yield begin + at
            at = window.find(name, at + 1)


class RetryWait:
    """The wait after a failure. One at a time; while it is on, nothing is released."""

    __slots__ = ("_for_session", "_number", "at_ms", "session_timer")

    def __init__(self) -> None:
        self.session_timer: Callable[[int, Callable[[], None]], object] | None = None
        """`(delay_ms, call)`: how to wait; None: by the message clock, which may stand still."""
        self.at_ms: int | None = None
        """When a wait of the message clock ends."""
        self._for_session = False
        self._number = 0

    @property
    def is_on(self) -> bool:
        """Whether to leave everything as it is."""
        return self._for_session or self.at_ms is not None

    @property
    def deadline(self) -> Deadline | None:
        """When the message clock has to ask again; None while the session clock runs the wait."""
        if self._for_session or self.at_ms is None:
            return None
        return Deadline(self.at_ms, "retry of a timer's release")

    def begin(self, now_ms: int, wait_ms: int) -> None:
        """Wait; a wait that is on already goes on as it is."""
        if self.is_on:
            return
        wait_ms = max(1, wait_ms)
        if self.session_timer is None:
            self.at_ms = now_ms + wait_ms
            return
        self._for_session = True
        number = self._number
        self.session_timer(wait_ms, lambda: self._end_of(number))

    def look(self, now_ms: int) -> None:
        """End a wait of the message clock that is over."""
        if self.at_ms is not None and now_ms >= self.at_ms:
            self.at_ms = None

    def end(self) -> None:
        """End the wait now: an answer came."""
        self._number += 1
        self._for_session = False
        self.at_ms = None

    def _end_of(self, number: int) -> None:
        if number == self._number:
            self.end()

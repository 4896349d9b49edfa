"""What must be true: every timer that was accepted, and what became of it.

Answers: which timers wait, judged by the commit log alone: each new record is read once, in
order, and either fits or is a violation. Nothing is taken from the engine's memory. After a crash
the records behind the log's new end never happened. Must not know: how the broker works inside.

Read on: `audit.py` for the checks that look at everything, `story.py` for when they are made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from attrs import define, field

from embedded_broker.store.message_store import MessageStore
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop


class Violation(Exception):  # noqa: N818 - what it is
    """The broker broke the promise, or the simulation expects too much."""


@define(slots=True)
class Request:
    """One message that a client asked to store; `copies` is how often it was sent."""

    topic: str
    queue_id: int
    body: bytes
    properties: Mapping[str, str]
    key: str
    level: int = 0
    handle: str | None = None
    recalled: bool = False


@define(slots=True)
class Timer:
    """One accepted timer; offsets say where in the commit log something happened to it."""

    request: Request
    root: int
    due_ms: int
    out_ms: int
    copies: list[int] = field(factory=list)
    released_at: int | None = None
    marks: list[int] = field(factory=list)
    moved: bool = False
    """Whether somebody gave it this time while it waited; then it lies where there was room."""
    replaced_by: int | None = None
    """Offset of the copy with another time; the mark that removes this one follows it."""

    @property
    def waits(self) -> bool:
        return self.released_at is None and not self.marks


class Event(NamedTuple):
    """One record of the commit log."""

    offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    digest: int


@define(slots=True)
class Levelled:
    """One accepted message of a delay level, and where its copies lie."""

    request: Request
    due_ms: int
    copies: list[int] = field(factory=list)
    released_in: int = -1
    """Number of the life that delivered it last."""


class Truth:
    """The model of one run; survives every life of the broker."""

    def __init__(
        self, precision_ms: int, release_precision_ms: int, timer_topic: str = TIMER_TOPIC
    ) -> None:
        self.timer_topic = timer_topic
        self.precision_ms = precision_ms
        self.release_precision_ms = release_precision_ms
        self.requests: dict[str, Request] = {}
        self.timers: dict[int, Timer] = {}
        self.levels: dict[int, Levelled] = {}
        self.events: list[Event] = []
        self.end = 0
        self.acked: dict[int, str] = {}
        """Commit-log offsets that a client was told of."""
        self.seen: Counter[str] = Counter()
        """How many records of each kind there were, lost ones too."""
        self.checks: Counter[str] = Counter()
        self._roots: dict[int, Timer] = {}
        self._level_of: dict[str, Levelled] = {}
        self.life = 0
        self.was_set_back = False
        """Whether the clock ever went back: levels then follow the original's correction."""

    # --- records ---------------------------------------------------------------------------------

    def observe(self, store: MessageStore) -> None:
        """Read what was appended since the last call."""
        if store.log.max_offset == self.end:
            return
        for record in store.scan(self.end):
            offset, size = record.commit_log_offset, record.size
            digest = digest_of(store, offset, size)
            self.events.append(
                Event(offset, size, record.topic, record.queue_id, record.queue_offset, digest)
            )
            self._read(record)
            self.end = offset + size

    def _read(self, record: MessageRecord) -> None:
        properties = record.properties
        source = properties.get(Prop.TIMER_SRC_OFFSET)
        if record.topic == self.timer_topic:
            if Prop.TIMER_DEL_UNIQKEY in properties:
                self._read_mark(record, source)
            elif source is None and Prop.TIMER_DEL_OFFSET in properties:
                self._read_moved(record)
            elif source is None:
                self._read_accepted(record)
            else:
                self._read_roll(record, int(source))
        elif record.topic == SCHEDULE_TOPIC:
            self._read_level(record)
        elif source is not None:
            self._read_release(record, int(source))
        else:
            self._read_direct(record)

    def _read_accepted(self, record: MessageRecord) -> None:
        request = self._request(record)
        due_ms = requested_ms(request.properties, record.store_timestamp)
        out_ms = (due_ms - 1) // self.precision_ms * self.precision_ms
        offset = record.commit_log_offset
        if due_ms <= record.store_timestamp:
            raise Violation(f"{request.key} was due at {due_ms} and yet went to the timer topic")
        if record.properties[Prop.TIMER_OUT_MS] != str(out_ms):
            raise Violation(f"{request.key} has slot {record.properties[Prop.TIMER_OUT_MS]}")
        timer = Timer(request, offset, due_ms, out_ms, [offset])
        self.timers[offset] = self._roots[offset] = timer
        self.seen["timers"] += 1

    def _read_moved(self, record: MessageRecord) -> None:
        """Take a copy with another time; what it replaces is named by its first offset."""
        request = self._request(record)
        properties = record.properties
        offset = record.commit_log_offset
        replaced = self.timers.get(int(properties[Prop.TIMER_DEL_OFFSET]))
        if replaced is None or replaced.request is not request or not replaced.waits:
            raise Violation(f"{request.key} was moved at {offset}, but nothing of it waited")
        replaced.replaced_by = offset
        due_ms, out_ms = int(properties[Prop.TIMER_DUE_MS]), int(properties[Prop.TIMER_OUT_MS])
        timer = Timer(request, offset, due_ms, out_ms, [offset], moved=True)
        self.timers[offset] = self._roots[offset] = timer
        self.seen["moved timers"] += 1

    def _read_roll(self, record: MessageRecord, source: int) -> None:
        timer = self._of(source, record, "rolled")
        if timer.released_at is not None:
            raise Violation(f"{timer.request.key} was rolled after its release")
        timer.copies.append(record.commit_log_offset)
        self._roots[record.commit_log_offset] = timer
        self.seen["rolls"] += 1

    def _read_mark(self, record: MessageRecord, source: str | None) -> None:
        if source is not None:
            self.seen["rolled marks"] += 1
            return
        properties = record.properties
        out_ms = int(properties[Prop.TIMER_OUT_MS])
        victim = properties.get(Prop.TIMER_DEL_OFFSET)
        hits = 0
        for timer in self.timers.values():
            request = timer.request
            if (
                timer.out_ms == out_ms
                and timer.released_at is None
                and properties[Prop.TIMER_DEL_UNIQKEY] == f"{request.topic}+{request.key}"
                and (victim is None or int(victim) == timer.root)
            ):
                timer.marks.append(record.commit_log_offset)
                hits += 1
        self.seen["marks"] += 1
        self.seen["marks that hit"] += hits > 0

    def _read_release(self, record: MessageRecord, source: int) -> None:
        timer = self._of(source, record, "released")
        request = timer.request
        self.checks["nothing twice"] += 1
        if timer.released_at is not None:
            raise Violation(f"{request.key} was released twice")
        self.checks["recalled stays away"] += 1
        if timer.marks:
            raise Violation(f"{request.key} was released although it was recalled")
        if timer.replaced_by is not None:
            raise Violation(f"{request.key} was released although it had got another time")
        self.checks["nothing early"] += 1
        if record.store_timestamp < timer.due_ms:
            early_ms = timer.due_ms - record.store_timestamp
            raise Violation(f"{request.key} was released {early_ms} ms early")
        timer.released_at = record.commit_log_offset
        self._same(record, request)
        self.seen["releases"] += 1

    def _read_level(self, record: MessageRecord) -> None:
        request = self._request(record)
        due_ms = record.store_timestamp + LEVELS_MS[request.level - 1]
        self.levels[record.commit_log_offset] = Levelled(request, due_ms)
        self._level_of[request.key] = self.levels[record.commit_log_offset]
        self.seen["levels"] += 1

    def _read_direct(self, record: MessageRecord) -> None:
        """Take a message of an ordinary topic that no timer of the wheel put there."""
        request = self._request(record)
        self._same(record, request)
        if request.level:
            levelled = self._level_of.get(request.key)
            if levelled is None:
                raise Violation(f"{request.key} of level {request.level} was never accepted")
            self.checks["nothing early"] += 1
            if record.store_timestamp < levelled.due_ms and not self.was_set_back:
                raise Violation(f"{request.key}, a level's message, was released early")
            if levelled.released_in == self.life:
                raise Violation(f"{request.key}, a level's message, was released twice in a life")
            levelled.released_in = self.life
            levelled.copies.append(record.commit_log_offset)
            self.seen["level releases"] += 1
            return
        due_ms = requested_ms(request.properties, record.store_timestamp)
        self.checks["nothing early"] += 1
        if due_ms > record.store_timestamp:
            raise Violation(f"{request.key} was due at {due_ms} and was not delayed")
        self.seen["immediate"] += 1

    def _request(self, record: MessageRecord) -> Request:
        key = record.properties.get(Prop.UNIQ_KEY, "")
        request = self.requests.get(key)
        if request is None:
            raise Violation(f"a record at {record.commit_log_offset} has the unknown id {key!r}")
        return request

    def _of(self, source: int, record: MessageRecord, what: str) -> Timer:
        timer = self._roots.get(source)
        at = record.commit_log_offset
        if timer is None:
            raise Violation(f"the record at {at} was {what} from {source}, where no timer lies")
        if timer.copies[-1] != source:
            raise Violation(
                f"{timer.request.key} was {what} at {at} from its copy at {source}, the newest "
                f"of {timer.copies} is another"
            )
        return timer

    def _same(self, record: MessageRecord, request: Request) -> None:
        self.checks["same content"] += 1
        kept = all(record.properties.get(name) == text for name, text in request.properties.items())
        if (
            record.topic != request.topic
            or record.queue_id != request.queue_id
            or record.body != request.body
            or not kept
        ):
            raise Violation(f"{request.key} came out changed: {record}")

    # --- crashes ---------------------------------------------------------------------------------

    def same_to(self, store: MessageStore, start: int) -> int:
        """Give where the log has something else than it had, from an offset on; else its end.

        A power loss may bring back what lay there before the last write: the first message of a
        pair that a full disk refused.
        """
        for event in self.events:
            if event.offset >= start and event.digest != digest_of(store, event.offset, event.size):
                return event.offset
        return store.log.max_offset

    def cut(self, end: int) -> None:
        """Forget what lies at or behind the log's new end."""
        while self.events and self.events[-1].offset >= end:
            self.events.pop()
        last = self.events[-1] if self.events else None
        self.end = 0 if last is None else last.offset + last.size
        self.timers = {root: one for root, one in self.timers.items() if root < end}
        self._roots = {at: one for at, one in self._roots.items() if at < end and one.root < end}
        for timer in self.timers.values():
            timer.copies = [at for at in timer.copies if at < end]
            timer.marks = [at for at in timer.marks if at < end]
            if timer.released_at is not None and timer.released_at >= end:
                timer.released_at = None
            if timer.replaced_by is not None and timer.replaced_by >= end:
                timer.replaced_by = None
        self.levels = {at: one for at, one in self.levels.items() if at < end}
        self._level_of = {one.request.key: one for one in self.levels.values()}
        for levelled in self.levels.values():
            levelled.copies = [at for at in levelled.copies if at < end]
        self.acked = {at: key for at, key in self.acked.items() if at < end}

    # --- questions -------------------------------------------------------------------------------

    def waiting(self) -> list[Timer]:
        """Give every timer that is accepted, not released and not recalled."""
        return [timer for timer in self.timers.values() if timer.waits]

    def released_by_ms(self, timer: Timer) -> int:
        """Give the time at which a running broker has released it."""
        step_ms, end_ms = self.release_precision_ms, timer.out_ms + self.precision_ms
        if timer.moved and timer.due_ms <= timer.out_ms - self.precision_ms:
            return end_ms  # every slot nearer to its time holds a mark of its id
        return min(-(-timer.due_ms // step_ms) * step_ms, end_ms)

    def check_on_time(self, now_ms: int) -> None:
        """After everything due was fired, nothing due may wait."""
        for timer in self.timers.values():
            if timer.waits and self.released_by_ms(timer) <= now_ms:
                late_ms = now_ms - self.released_by_ms(timer)
                raise Violation(
                    f"{timer.request.key} is {late_ms} ms late: due {timer.due_ms}, copies at "
                    f"{timer.copies}, now {now_ms}"
                )
        self.checks["nothing late or lost"] += 1
        for levelled in self.levels.values():
            late = not levelled.copies and levelled.due_ms <= now_ms
            if late and not self.was_set_back:
                raise Violation(f"{levelled.request.key}, a level's message, is late")


LEVELS_MS = (1000, 5000, 10000, 30000)
_SPAN_MS = {Prop.TIMER_DELAY_SEC: 1000, Prop.TIMER_DELAY_MS: 1}


def requested_ms(properties: Mapping[str, str], now_ms: int) -> int:
    """Give the time that a client asked for; `now_ms` if it asked for none."""
    for name, unit_ms in _SPAN_MS.items():
        if name in properties:
            return now_ms + int(properties[name]) * unit_ms
    for name in (Prop.TIMER_DELIVER_MS, Prop.START_DELIVER_TIME):
        if name in properties:
            return int(properties[name])
    return now_ms


def digest_of(store: MessageStore, offset: int, size: int) -> int:
    """Give what tells whether a record's bytes are the same later in this process; 0: no record."""
    view = store.read(offset, size)
    return 0 if view is None else hash(bytes(view))

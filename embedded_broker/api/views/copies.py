"""Records of one message: as it was accepted, while it waits, and as it was delivered.

Answers: how the records with one id belong together. A delayed message has a record where it waits,
one more for every hop of a long delay, and one in its topic; a message that a consumer could not
handle has another row of them for its group. Records and level offsets alone are looked at: a copy
that a timer released names its source, a level says how far it has delivered, and what another
broker released is matched in its order. Must not know: groups' progress, the door. Read on:
``trace.py``, ``embedded_broker/timer/wheel/release.py`` for what copies carry.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from attrs import define

from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.timer.request import root_offset, source_offset, victim_root
from rocketmq_py.errors import DelayValueError
from rocketmq_py.protocol.delay import effective_delay, parse_number, release_due_ms
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import (
    HALF_TOPIC,
    OP_HALF_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    is_group_topic,
)
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_MASK

_EXACT_MS: Final = 1


@define(slots=True, eq=False)
class Journey:
    """One message on its way to one topic.

    ``waiting`` is the newest record of it that waits or waited for its time, ``arrived`` the one in
    its topic, ``mark`` the recall that removed it. At least one of the first two is there.
    """

    topic: str
    order: int
    """Commit-log offset of its first record: journeys are in the order in which they began."""
    waiting: MessageRecord | None = None
    arrived: MessageRecord | None = None
    mark: MessageRecord | None = None
    accepted_ms: int | None = None
    due_ms: int | None = None
    has_left: bool = False
    """Whoever kept it waiting has delivered it, or given it up."""

    @property
    def newest(self) -> MessageRecord:
        """The record that shows where it is now."""
        found = self.arrived if self.arrived is not None else self.waiting
        if found is None:
            raise ValueError(f"a journey to {self.topic} without any record")
        return found

    @property
    def is_pending(self) -> bool:
        """Whether it still waits for its time."""
        return self.arrived is None and self.mark is None and not self.has_left


@define(slots=True, eq=False)
class Journeys:
    """Every journey of one id, each kind in the order in which it was accepted."""

    sent: list[Journey]
    """To the topics that producers chose; more than one when an id was sent twice."""
    again: list[Journey]
    """To retry topics and dead letter topics."""
    half: MessageRecord | None
    """The newest prepared transaction with the id."""
    is_half_open: bool = False
    """Whether that transaction was neither committed nor rolled back nor given up."""


def follow(parts: BrokerParts, records: Iterable[MessageRecord]) -> Journeys:
    """Put the records of one id, oldest first, together. Under the door."""
    timers: dict[int, Journey] = {}
    levels: list[Journey] = []
    rest: list[MessageRecord] = []
    marks: list[MessageRecord] = []
    sources: dict[int, Journey] = {}
    halves: list[MessageRecord] = []
    for record in records:
        properties = record.properties
        offset = record.commit_log_offset
        target = properties.get(Prop.REAL_TOPIC, "")
        if record.topic in {TIMER_TOPIC, parts.timers.topic}:
            if Prop.TIMER_DEL_UNIQKEY in properties:
                marks.append(record)
                continue
            root = root_offset(properties, offset)
            journey = timers.get(root) or _moved(timers, record) or Journey(target, root)
            timers[root] = journey
            _wait(parts, journey, record)
            sources[offset] = journey
        elif record.topic == SCHEDULE_TOPIC:
            journey = Journey(target, offset)
            _wait(parts, journey, record)
            levels.append(journey)
        elif record.topic == HALF_TOPIC:
            halves.append(record)
        elif record.topic not in {OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC}:
            rest.append(record)
    journeys = [*timers.values(), *levels]
    journeys += _arrive(rest, journeys, sources)
    _settle(parts, timers, marks)
    for journey in journeys:
        if halves and journey.newest.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT:
            # Every check stores the half message again: the first one was accepted.
            journey.accepted_ms = halves[0].store_timestamp
    journeys.sort(key=lambda journey: journey.order)
    half = halves[-1] if halves else None
    return Journeys(
        [journey for journey in journeys if not _is_again(journey)],
        [journey for journey in journeys if _is_again(journey)],
        half,
        half is not None and parts.transactions.is_open(half.queue_offset),
    )


def _moved(timers: dict[int, Journey], record: MessageRecord) -> Journey | None:
    """Take out the journey that goes on with this copy, because its time was changed."""
    victim = victim_root(record.properties)
    return None if victim is None else timers.pop(victim, None)


def _wait(parts: BrokerParts, journey: Journey, record: MessageRecord) -> None:
    """Note a record that waits; those of one journey come in their order."""
    if journey.waiting is None and Prop.TIMER_ROLL_TIMES not in record.properties:
        journey.accepted_ms = record.store_timestamp
    journey.waiting = record
    if record.topic == SCHEDULE_TOPIC:
        level = record.queue_id + 1
        journey.due_ms = parts.levels.level_deliver_ms(level, record.store_timestamp)
        journey.has_left = record.queue_offset < parts.levels.offsets().get(level, 0)
    else:
        journey.due_ms = _timer_due_ms(parts, record)


def _timer_due_ms(parts: BrokerParts, record: MessageRecord) -> int | None:
    """Give the exact time at which a timer's record is to be released."""
    properties = record.properties
    out = properties.get(Prop.TIMER_OUT_MS)
    try:
        if out is not None:
            precision_ms = parts.config.int("timerPrecisionMs")
            return release_due_ms(
                properties,
                record.store_timestamp,
                parse_number(out, Prop.TIMER_OUT_MS),
                precision_ms,
                _EXACT_MS,
            )
        delay = effective_delay(properties, start_deliver=True)
    except DelayValueError:
        return None
    return None if delay is None else delay.due_ms(record.store_timestamp)


def _arrive(
    records: Iterable[MessageRecord], journeys: list[Journey], sources: Mapping[int, Journey]
) -> list[Journey]:
    """Give the delivered records to their journeys; returns those that have no other record."""
    direct = []
    for record in records:
        properties = record.properties
        source = source_offset(properties)
        journey = None if source is None else sources.get(source)
        if journey is None or journey.topic != record.topic or journey.arrived is not None:
            waited = Prop.REAL_TOPIC in properties or Prop.TIMER_OUT_MS in properties
            journey = _of_another_broker(record, journeys) if waited else None
        if journey is None:
            # A delivered copy whose source was deleted: when it was accepted is not known.
            accepted_ms = None if source is not None else record.store_timestamp
            journey = Journey(record.topic, record.commit_log_offset, accepted_ms=accepted_ms)
            direct.append(journey)
        journey.arrived = record
    return direct


def _of_another_broker(record: MessageRecord, journeys: Iterable[Journey]) -> Journey | None:
    """Find the journey of a copy that names no source: the first due one to its topic."""
    possible = [
        journey
        for journey in journeys
        if journey.topic == record.topic
        and journey.arrived is None
        and journey.waiting is not None
        and journey.waiting.commit_log_offset < record.commit_log_offset
        and (journey.has_left or journey.waiting.topic != SCHEDULE_TOPIC)
    ]
    return min(possible, key=lambda journey: journey.due_ms or 0, default=None)


def _settle(
    parts: BrokerParts, timers: Mapping[int, Journey], marks: Iterable[MessageRecord]
) -> None:
    """Find out which timers that did not arrive were recalled, and which of them still wait."""
    open_ones: dict[str, dict[int, Journey]] = {}
    for root, journey in timers.items():
        if journey.arrived is None and journey.waiting is not None:
            journey.mark = _mark_of(marks, journey, root)
            unique_key = journey.waiting.properties.get(Prop.UNIQ_KEY)
            if journey.mark is None and unique_key is not None:
                open_ones.setdefault(unique_key, {})[root] = journey
    for unique_key, journeys in open_ones.items():
        waiting = {one.root: one.due_ms for one in parts.timers.find(unique_key)}
        for root, journey in journeys.items():
            journey.has_left = root not in waiting
            journey.due_ms = waiting.get(root, journey.due_ms)


def _mark_of(marks: Iterable[MessageRecord], journey: Journey, root: int) -> MessageRecord | None:
    """Find the recall that hits a timer: by its slot, and by the offset when it names one."""
    if journey.waiting is None:
        return None
    slot = journey.waiting.properties.get(Prop.TIMER_OUT_MS)
    for mark in marks:
        properties = mark.properties
        if properties.get(Prop.REAL_TOPIC) != journey.topic:
            continue
        victim = properties.get(Prop.TIMER_DEL_OFFSET)
        if properties.get(Prop.TIMER_OUT_MS) == slot and victim in {None, str(root)}:
            return mark
    return None


def _is_again(journey: Journey) -> bool:
    return is_group_topic(journey.topic)

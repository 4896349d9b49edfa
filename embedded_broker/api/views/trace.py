"""``broker.messages.trace(id)``: the state of a message, in general and for each group.

Answers: the state of a message in the life cycle that RocketMQ's documents describe (initialised,
scheduled, ready, in flight, acknowledged, deleted), and when it came to each. States are exact:
they follow from records, from committed offsets and from how far each group has pulled. The times
of a delivery are known for the last 10,000 of each group. Must not know: how records are found
(``embedded_broker/core/queries.py``) and put together (``copies.py``). Read on:
``embedded_broker/tables/offsets/deliveries.py``.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import Enum
from typing import Final

from attrs import field, frozen

from embedded_broker.api.views.copies import Journey, Journeys, follow
from embedded_broker.api.views.lookup import born_at, not_found
from embedded_broker.clocks.instants import instant
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.tables.offsets.deliveries import DeliveryTimes
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import dlq_topic, is_dlq_topic, retry_topic
from rocketmq_py.protocol.pop_handles import pop_retry_topic
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.tag_hash import tags_code


class MessageState(Enum):
    """The states in the life of a message."""

    INITIALISED = "initialised"
    """Stored, but not to be delivered yet: a transaction that is not committed."""
    SCHEDULED = "scheduled"
    """Accepted, and waiting for its time: a timer, a delay level, or a retry's wait."""
    READY = "ready"
    """In its topic. The group has not received it yet."""
    IN_FLIGHT = "in flight"
    """Given to a consumer of the group, which has not committed it yet, or not acked it."""
    ACKNOWLEDGED = "acknowledged"
    """Committed by the group. It can still be read again."""
    DELETED = "deleted"
    """Recalled before its time, or removed from the store at the end of its retention."""


def _shown(moment: datetime | None) -> str:
    return "-" if moment is None else moment.isoformat(timespec="milliseconds")


@frozen(kw_only=True)
class GroupTrace:
    """What happened to a message in one consumer group.

    ``attempts`` counts how often the group was given it, retries included. While a retry waits the
    state is SCHEDULED and ``retry_due_at`` is its time. A message in the dead letters is
    ACKNOWLEDGED, because it is not delivered again. ``passed_over``: the group does not get the
    message, because it wants other tags or began to consume after it.
    """

    group: str
    state: MessageState = field(repr=lambda state: state.name)
    in_flight_at: datetime | None = field(repr=_shown)
    acknowledged_at: datetime | None = field(repr=_shown)
    attempts: int
    retry_due_at: datetime | None = field(repr=_shown)
    dead_letter: bool
    passed_over: bool


@frozen(kw_only=True)
class MessageTrace:
    """The life of one message. A time is None while it lies ahead, and when it is not known.

    ``state`` is the state in the group that is furthest behind; without any group it is READY.
    ``initialised_at`` is the born time: what the broker's clock showed when the sender made the
    message. All times are those of the broker's clock. ``due_at`` is None for a message without a
    delay. While the message waits in the sliced engine it is rounded up to a second. ``queue_id``
    and ``offset`` are its place in its topic, None before it is there. ``copies`` counts the
    messages that were accepted with this id. The last one is traced.
    """

    msg_id: str
    topic: str
    queue_id: int | None = None
    offset: int | None = None
    state: MessageState = field(repr=lambda state: state.name)
    initialised_at: datetime | None = field(default=None, repr=_shown)
    accepted_at: datetime | None = field(default=None, repr=_shown)
    due_at: datetime | None = field(default=None, repr=_shown)
    ready_at: datetime | None = field(default=None, repr=_shown)
    recalled_at: datetime | None = field(default=None, repr=_shown)
    groups: dict[str, GroupTrace] = field(factory=dict)
    copies: int = 0


_ORDER: Final = tuple(MessageState)


def trace(parts: BrokerParts, message_id: str, topic: str | None = None) -> MessageTrace:
    """Tell the life of the message with a unique id or an offset id. Outside the door.

    Raises ``MessageNotFound``.
    """
    unique_id, copies, gone_from = trace_journeys(parts, message_id)
    journeys = _of_topic(copies.sent, topic) or _of_topic(copies.again, topic)
    named = parts.queries.named(message_id)
    if named is not None:
        journeys = [one for one in journeys if _holds(one, named)] or journeys
    if not journeys:
        if copies.half is not None and topic in {None, copies.half.properties.get(Prop.REAL_TOPIC)}:
            return _of_half(parts, unique_id, copies.half, is_open=copies.is_half_open)
        gone = [name for name in gone_from if topic in {None, name}]
        if gone:
            # Only the index entry is left.
            return MessageTrace(msg_id=unique_id, topic=gone[-1], state=MessageState.DELETED)
        raise not_found(message_id, topic=topic)
    journey = journeys[-1]
    groups: dict[str, GroupTrace] = {}
    arrived = journey.arrived
    if arrived is not None:
        with parts.door.quiet:
            names = groups_of(parts, journey.topic)
        for name in names:
            again = _again_for(name, arrived, unique_id, copies.again)
            with parts.door.quiet:
                groups[name] = _of_group(parts, name, arrived, again)
    return _of_journey(parts, unique_id, journey, groups, len(journeys))


def trace_journeys(parts: BrokerParts, message_id: str) -> tuple[str, Journeys, list[str]]:
    """Find everything that belongs to an id: its unique id, its copies, where it is deleted."""
    named = parts.queries.named(message_id)
    unique_id = message_id
    records: Sequence[MessageRecord] = ()
    gone_from: list[str] = []
    if named is not None:
        unique_id = named.msg_id
        records = [named]
    if named is None or Prop.UNIQ_KEY in named.properties:
        records, gone_from = parts.queries.with_id(unique_id)
    with parts.door.quiet:
        return unique_id, follow(parts, records), gone_from


def groups_of(parts: BrokerParts, topic: str) -> list[str]:
    """Name the groups that consume a topic, or did. Under the door."""
    names: dict[str, None] = {}
    for name in parts.tables.consumers.groups():
        live = parts.tables.consumers.get(name)
        if live is not None and topic in live.subscriptions:
            names[name] = None
    names |= dict.fromkeys(
        one for one in parts.tables.offsets.groups() if parts.tables.offsets.queues(one, topic)
    )
    names |= dict.fromkeys(
        one
        for one in parts.tables.deliveries.groups()
        if topic in parts.tables.deliveries.topics_of(one)
    )
    return list(names)


# --- one group -----------------------------------------------------------------------------


def _of_group(
    parts: BrokerParts, group: str, arrived: MessageRecord, again: Sequence[Journey]
) -> GroupTrace:
    """Tell what a group made of a message and of its retries. Under the door."""
    tries = [arrived, *(one.arrived for one in again if one.arrived is not None)]
    given = [one for one in tries if not is_dlq_topic(one.topic)][-1]
    state = _state_by_offsets(parts, group, given)
    passed_over = given is arrived and _is_passed_over(parts, group, arrived, state)
    if passed_over:
        state = MessageState.READY
    attempts = given.reconsume_times + (state is not MessageState.READY)
    times = DeliveryTimes(None, None)
    if state is not MessageState.READY:
        times = parts.tables.deliveries.times(
            group, given.topic, given.queue_id, given.queue_offset
        )
    acknowledged_ms = times.acknowledged_ms if state is MessageState.ACKNOWLEDGED else None
    last = again[-1] if again else None
    retry_due_ms: int | None = None
    dead = last is not None and is_dlq_topic(last.topic)
    if last is not None and last.is_pending:
        state, acknowledged_ms, retry_due_ms = MessageState.SCHEDULED, None, last.due_ms
    elif dead:
        state = MessageState.ACKNOWLEDGED
    return GroupTrace(
        group=group,
        state=state,
        in_flight_at=_instant(times.in_flight_ms),
        acknowledged_at=_instant(acknowledged_ms),
        attempts=attempts,
        retry_due_at=_instant(retry_due_ms),
        dead_letter=dead,
        passed_over=passed_over,
    )


def _state_by_offsets(parts: BrokerParts, group: str, record: MessageRecord) -> MessageState:
    """Give the state of a record in its queue. Under the door."""
    place = (group, record.topic, record.queue_id)
    if parts.pop.revive.is_hidden(*place, record.queue_offset):
        return MessageState.IN_FLIGHT
    if parts.tables.offsets.query(*place) > record.queue_offset:
        return MessageState.ACKNOWLEDGED
    first, following = (
        parts.tables.deliveries.first_offset(*place),
        parts.tables.deliveries.next_offset(*place),
    )
    if first is None or following is None or not first <= record.queue_offset < following:
        return MessageState.READY
    return MessageState.IN_FLIGHT


def _is_passed_over(
    parts: BrokerParts, group: str, record: MessageRecord, state: MessageState
) -> bool:
    """Say whether a group never gets a record. Under the door."""
    wanted = parts.consume.wanted_by(group, record.topic)
    if wanted is not None:
        code = tags_code(record.properties.get(Prop.TAGS))
        return not wanted.accepts((record.commit_log_offset, record.size, code), record.properties)
    first = parts.tables.deliveries.first_offset(group, record.topic, record.queue_id)
    return state is MessageState.READY and first is not None and record.queue_offset < first


def _again_for(
    group: str, arrived: MessageRecord, unique_id: str, journeys: Sequence[Journey]
) -> list[Journey]:
    """Choose the retries and dead letters that a group made of this very record."""
    topics = {retry_topic(group), dlq_topic(group)}
    topics |= {pop_retry_topic(arrived.topic, group, v2=v2) for v2 in (False, True)}
    origins = {None, unique_id, arrived.offset_msg_id}
    return [
        one
        for one in journeys
        if one.topic in topics
        and one.order > arrived.commit_log_offset
        and one.newest.properties.get(Prop.ORIGIN_MESSAGE_ID) in origins
    ]


# --- the message itself --------------------------------------------------------------------


def _of_journey(
    parts: BrokerParts, unique_id: str, journey: Journey, groups: dict[str, GroupTrace], copies: int
) -> MessageTrace:
    arrived, mark = journey.arrived, journey.mark
    if journey.is_pending:
        state = MessageState.SCHEDULED
    elif arrived is None:
        state = MessageState.DELETED
    else:
        states = [one.state for one in groups.values() if not one.passed_over]
        state = min(states, key=_ORDER.index, default=MessageState.READY)
    return MessageTrace(
        msg_id=unique_id,
        topic=journey.topic,
        queue_id=None if arrived is None else arrived.queue_id,
        offset=None if arrived is None else arrived.queue_offset,
        state=state,
        initialised_at=born_at(parts, journey.newest),
        accepted_at=_instant(journey.accepted_ms),
        due_at=_instant(journey.due_ms),
        ready_at=None if arrived is None else instant(arrived.store_timestamp),
        recalled_at=None if mark is None else instant(mark.store_timestamp),
        groups=groups,
        copies=copies,
    )


def _of_half(
    parts: BrokerParts, unique_id: str, half: MessageRecord, *, is_open: bool
) -> MessageTrace:
    """Tell of a transaction that was prepared and not committed; rolled back, it is deleted."""
    return MessageTrace(
        msg_id=unique_id,
        topic=half.properties.get(Prop.REAL_TOPIC, half.topic),
        state=MessageState.INITIALISED if is_open else MessageState.DELETED,
        initialised_at=born_at(parts, half),
        accepted_at=instant(half.store_timestamp),
        copies=1,
    )


def _of_topic(journeys: Sequence[Journey], topic: str | None) -> list[Journey]:
    return [one for one in journeys if topic is None or one.topic == topic]


def _holds(journey: Journey, record: MessageRecord) -> bool:
    """Say whether a record belongs to a journey."""
    offsets = {
        one.commit_log_offset for one in (journey.waiting, journey.arrived) if one is not None
    }
    return record.commit_log_offset in {journey.order, *offsets}


def _instant(time_ms: int | None) -> datetime | None:
    return None if time_ms is None else instant(time_ms)

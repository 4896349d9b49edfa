"""Which stored records a test means by an id or a key.

Answers: how a unique id, an offset id or a key becomes records of the commit log. Ids are found
through the store's key index, which knows a record by its topic and key, so an id is looked for in
every topic; a store without index (``messageIndexEnable`` off) is read through. Must not know: what
the records mean for a consumer. Read on: ``embedded_broker/store/key_index.py``, ``trace.py``.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeVar

from embedded_broker.api.views.lookup import HasMessageId
from embedded_broker.clocks.timeline import Budget
from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.errors import MessageNotFound
from rocketmq_py.protocol.handles import decode_offset_id
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.properties import Prop

__all__ = [
    "Found",
    "bring_index_up",
    "id_of",
    "in_turns",
    "not_found",
    "record_at",
    "with_id",
    "with_key",
]

_ALL_TIME_MS: Final = 2**63 - 1
_RECORDS_MAX: Final = 100_000
"""Most records looked at for one id or key in one topic, the newest."""

_Item = TypeVar("_Item")
_Seen = TypeVar("_Seen")


class Found(NamedTuple):
    """The records with an id, oldest first, and in which topics only the index still knows it."""

    records: list[MessageRecord]
    gone_from: list[str]


def id_of(message: str | HasMessageId) -> str:
    """Give the id that a test passed, or that of the object that it passed."""
    message_id = message if isinstance(message, str) else getattr(message, "msg_id", None)
    if not isinstance(message_id, str):
        given = f"{type(message).__name__} {message!r}"
        raise TypeError(f"a message is named by its id as str, or by what has msg_id, not {given}")
    return message_id


def not_found(message_id: str, *, topic: str | None = None) -> MessageNotFound:
    """Make the error for an id that no record carries."""
    where = "" if topic is None else f" for topic {topic!r}"
    several = "; it names several messages: ask for them one by one" if "," in message_id else ""
    return MessageNotFound(
        f"no message {message_id!r}{where}: it was never accepted here, or the store has deleted "
        f"it and its index entry{several}"
    )


def in_turns(
    core: BrokerCore, items: Iterable[_Item], look: Callable[[_Item], _Seen | None]
) -> list[_Seen]:
    """Look at every item inside the door, which is given back whenever its time is used up.

    What ``look`` makes None is left out. Called outside the door.
    """
    seen: list[_Seen] = []
    waiting = iter(items)
    while True:
        with core.door.quiet:
            budget = Budget()
            for item in waiting:
                found = look(item)
                if found is not None:
                    seen.append(found)
                if budget.exhausted():
                    break
            else:
                return seen


def record_at(core: BrokerCore, offset_id: str) -> MessageRecord | None:
    """Give the record that an offset id names; a unique id looks the same and names none.

    Called outside the door.
    """
    try:
        _, _, log_offset = decode_offset_id(offset_id)
    except ValueError:
        return None
    with core.door.quiet:
        record = core.store.record(log_offset)
    if record is None or record.offset_msg_id != offset_id.upper():
        return None
    return record


def with_id(core: BrokerCore, unique_id: str) -> Found:
    """Find every record with this UNIQ_KEY, in all topics. Called outside the door."""

    def read(offset: int) -> MessageRecord | None:
        record = core.store.record(offset)
        return record if record and record.properties.get(Prop.UNIQ_KEY) == unique_id else None

    if not bring_index_up(core):
        return Found(_read_through(core, lambda one: one.msg_id == unique_id), [])
    with core.door.quiet:
        low = core.store.log.min_offset
        topics = {*core.topics.names(), *(topic for topic, _ in core.store.queues)}
        topics.add(core.timers.topic)
    offsets: list[int] = []
    gone_from: list[str] = []
    for topic, hits in in_turns(core, sorted(topics), lambda one: _offsets(core, one, unique_id)):
        alive = [offset for offset in hits if offset >= low]
        offsets += alive
        if len(alive) < len(hits):
            gone_from.append(topic)
    return Found(in_turns(core, sorted(set(offsets)), read), gone_from)


def with_key(core: BrokerCore, topic: str, key: str) -> list[MessageRecord]:
    """Find the records of a topic with this key or unique id, oldest first. Outside the door."""

    def carries(record: MessageRecord) -> bool:
        keys = record.properties.get(Prop.KEYS, "").split()
        return record.topic == topic and (
            key in keys or record.properties.get(Prop.UNIQ_KEY) == key
        )

    def read(offset: int) -> MessageRecord | None:
        record = core.store.record(offset)
        return record if record is not None and carries(record) else None

    if not bring_index_up(core):
        return _read_through(core, carries)
    with core.door.quiet:
        hits = _offsets(core, topic, key)
    return in_turns(core, [] if hits is None else hits[1], read)


def bring_index_up(core: BrokerCore) -> bool:
    """Index what was stored since the last time; False for a store without index.

    The long part happens outside the door, as when the flusher does it: the index has a lock.
    """
    index = core.store.index
    if index is None:
        return False
    with core.door.quiet:
        end = core.store.log.max_offset
    index.catch_up(end)
    return True


def _offsets(core: BrokerCore, topic: str, key: str) -> tuple[str, list[int]] | None:
    """Ask the index for a key in a topic. Under the door."""
    index = core.store.index
    if index is None:
        return None
    index.catch_up(core.store.log.max_offset)
    hits = index.query(topic, key, _RECORDS_MAX, 0, _ALL_TIME_MS)
    return (topic, hits) if hits else None


def _read_through(core: BrokerCore, wanted: Callable[[MessageRecord], bool]) -> list[MessageRecord]:
    """Find records without an index: every record of the log is looked at."""
    with core.door.quiet:
        position, end = core.store.log.min_offset, core.store.log.max_offset
    found: list[MessageRecord] = []
    while position < end:
        with core.door.quiet:
            budget = Budget()
            before = position
            for record in core.store.scan(position):
                position = record.commit_log_offset + record.size
                if wanted(record):
                    found.append(record)
                if budget.exhausted():
                    break
            else:
                return found
        if position == before:
            return found
    return found

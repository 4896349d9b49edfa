"""Judge of one timer-log record: whether it is as it was made from its message.

Answers: what is wrong with a record that reads as one: its slot, its predecessor, or that its
message, which the store has checked, is another one. Recovery, the inspector and tests ask here.
Must not know: chains, the wheel, what is done about it. Read on: `recovery.py`.
"""

from typing import Final, NamedTuple

from embedded_broker.store.commit_log import CommitLog
from embedded_broker.timer.request import topic_hash
from embedded_broker.timer.wheel.timer_log import MAGIC_DELETE, MAGIC_ROLL, LogEntry
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop

_REMEMBERED_MAX: Final = 1024
_REAL_TOPIC: Final = f"{Prop.REAL_TOPIC}\1".encode()
_OUT_MS: Final = f"\2{Prop.TIMER_OUT_MS}\1".encode()
_DELETES: Final = f"{Prop.TIMER_DEL_UNIQKEY}\1".encode()


class Fault(NamedTuple):
    """What is wrong with a record: the kind, and what was found."""

    kind: str
    detail: str


class RecordJudge:
    """Judges records against the messages of a commit log. Slots last `precision_ms`."""

    def __init__(self, log: CommitLog, precision_ms: int) -> None:
        self._log = log
        self._precision_ms = precision_ms
        self._hashes: dict[bytes, int] = {}
        """By what lies behind a message's slot: usually its topic and queue, which recur."""

    def fault(self, position: int, entry: LogEntry) -> Fault | None:
        """Say what is wrong with the record at a position; None when it is good.

        Of a message that has left the commit log nothing can be said.
        """
        _, previous, _, write_ms, delay_ms, offset, size, _, _ = entry
        slot_ms = write_ms + delay_ms
        if slot_ms % self._precision_ms:
            text = f"slot {slot_ms} ms with slots of {self._precision_ms} ms"
            return Fault("slot out of step", text)
        if previous >= position:
            return Fault("chain goes forward", f"previous record at {previous}")
        if 0 <= offset < self._log.min_offset:
            return None
        stored = self._log.read(offset, size)
        if stored is None:
            text = f"no message of {size} bytes at {offset} of the commit log"
            return Fault("record without message", text)
        if self._agrees(entry, slot_ms, stored.tobytes()):
            return None
        return Fault("record of another message", f"not as made from the message at {offset}")

    def _agrees(self, entry: LogEntry, slot_ms: int, stored: bytes) -> bool:
        """Say whether a record names what its message says. One of another topic is not."""
        _, _, magic, _, delay_ms, offset, size, hash_of_topic, _ = entry
        is_mark = _DELETES in stored and self._is_mark(offset, size)  # a body may have the name
        if is_mark != bool(magic & MAGIC_DELETE):
            return False
        at = stored.rfind(_OUT_MS)
        if at < 0:  # the first property, or another broker's record
            return _hash_in(stored) in {None, hash_of_topic} and (
                self._message(offset, size) is not None
            )
        out_ms, _, rest = stored[at + len(_OUT_MS) :].partition(b"\2")
        if self._hash_behind(rest, stored) not in {None, hash_of_topic} or not out_ms.isdigit():
            return False
        if int(out_ms) == slot_ms:
            return not magic & MAGIC_ROLL
        return delay_ms == 0 or (bool(magic & MAGIC_ROLL) and slot_ms < int(out_ms))

    def _is_mark(self, offset: int, size: int) -> bool:
        record = self._message(offset, size)
        return record is not None and Prop.TIMER_DEL_UNIQKEY in record.properties

    def _message(self, offset: int, size: int) -> MessageRecord | None:
        record = self._log.record(offset)
        if record is None or record.topic != TIMER_TOPIC or record.size != size:
            return None
        return record

    def _hash_behind(self, rest: bytes, stored: bytes) -> int | None:
        """Give the hash of a message's topic, None when it names none; `rest` is its end."""
        found = self._hashes.get(rest)
        if found is not None:
            return found
        found = _hash_in(stored)
        recurs = rest.startswith(_REAL_TOPIC) and len(self._hashes) < _REMEMBERED_MAX
        if found is not None and recurs:
            self._hashes[rest] = found
        return found


def _hash_in(stored: bytes) -> int | None:
    named = stored.rfind(_REAL_TOPIC)
    if named < 0:
        return None
    name, _, _ = stored[named + len(_REAL_TOPIC) :].partition(b"\2")
    return topic_hash(name.decode("utf-8", "replace"))

"""Recall handles and delete marks: which handle is valid and until when, and what recalls a timer.

Answers: which timers of an id wait, which of them a recall hits, and what the delete mark looks
like that removes them: a message of the engine's topic that goes to the slot of its victim and
names it. Must not know: requests, connections, and where an engine keeps what waits. Two callers:
request RECALL_MESSAGE (370), whose checks and message are those of
`org.apache.rocketmq.broker.processor.RecallMessageProcessor`, and `broker.timers.recall`, which
finds the copies by their unique id and works until the release itself.

Read on: `rocketmq_py/protocol/handles.py` for the handle, `wheel/change.py` and
`slices/change.py` for how an engine says which copy waits, `change.py` for the order of writing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.put_values import InnerMessage
from embedded_broker.timer.metrics import TimerMetrics
from embedded_broker.timer.request import (
    TimerRequest,
    delete_key,
    is_rootless,
    parse_request,
    root_offset,
    victim_root,
)
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.properties import Prop

RECALL_TAG: Final = "_RECALL_TAG_"
"""TAGS of every delete mark (`MessageConst.RECALL_MESSAGE_TAG` of the original)."""
_BODY: Final = b"0"
_ALL_TIME_MS: Final = 2**63 - 1
_MOST_COPIES: Final = 100_000
_ROLL_DIGITS: Final = 9


class Mark(NamedTuple):
    """One delete mark: its own first offset, and the victim's (None: every copy of the key)."""

    root: int
    victim_root: int | None

    @classmethod
    def of(cls, properties: Mapping[str, str], offset: int) -> "Mark":
        """Read a mark that lies at `offset`."""
        return cls(root_offset(properties, offset), victim_root(properties))

    def names(self, root: int) -> bool:
        """Say whether it removes the copy of its key that came first at `root`."""
        return self.victim_root is None or self.victim_root == root


class MarksOfSlots:
    """The marks among messages of a timer topic, by slot and key: a slot is read as a whole."""

    def __init__(self) -> None:
        self.slots: set[int] = set()
        self._marks: dict[tuple[int, str], list[Mark]] = {}

    def add(self, request: TimerRequest, mark: Mark) -> None:
        """Take a mark; one whose request deletes nothing is none."""
        if request.deletes is not None:
            self.slots.add(request.out_ms)
            self._marks.setdefault((request.out_ms, request.deletes), []).append(mark)

    def hit(self, request: TimerRequest, properties: Mapping[str, str], offset: int) -> bool:
        """Say whether one of them removes the timer at `offset`, when its slot is released."""
        key = delete_key(request.real_topic, properties.get(Prop.UNIQ_KEY, ""))
        root, rootless = root_offset(properties, offset), is_rootless(properties)
        return any(
            mark.names(root) or rootless for mark in self._marks.get((request.out_ms, key), ())
        )


# --- request 370 -----------------------------------------------------------------------------


def check_handle(
    handle: RecallHandle,
    *,
    topic: str,
    broker_name: str,
    now_ms: int,
    max_delay_sec: int,
) -> str | None:
    """Check a decoded handle against the request; give what is wrong with it.

    These are the last four checks of the original. Those before (recall enabled, role, permission,
    topic known) need the broker: `embedded_broker/core/recalls.py`.
    """
    if topic != handle.topic:
        return _illegal(f"topic not match, the handle is of {handle.topic}")
    if broker_name != handle.broker_name:
        return _illegal(
            f"broker service not available, the handle is of {handle.broker_name}, "
            f"this is {broker_name}"
        )
    left_ms = handle.timestamp_ms - now_ms
    if not 0 < left_ms < max_delay_sec * 1000:
        return _illegal(
            f"timestamp invalid, {left_ms} ms are left and must be more than 0 and less than "
            f"{max_delay_sec * 1000} (timerMaxDelaySec)"
        )
    return None


def delete_message(
    handle: RecallHandle,
    *,
    producer_group: str | None,
    now_ms: int,
    born_host: bytes,
) -> InnerMessage:
    """Build the message that request 370 puts; admission sends it into the victim's slot.

    It removes every copy of the id in that slot, whether it came before or after, and is never
    delivered.
    """
    properties = {
        Prop.TAGS: RECALL_TAG,
        Prop.TIMER_DEL_UNIQKEY: delete_key(handle.topic, handle.uniq_key),
        Prop.UNIQ_KEY: handle.uniq_key,
        Prop.TIMER_DELIVER_MS: str(handle.timestamp_ms),
        Prop.BORN_TIMESTAMP: str(now_ms),
        Prop.TRACE_CONTEXT: "",
    }
    if producer_group:
        properties[Prop.PGROUP] = producer_group
    return InnerMessage(
        handle.topic, 0, _BODY, properties, born_timestamp=now_ms, born_host=born_host
    )


def _illegal(what: str) -> str:
    return f"recall failed, {what}"


# --- exact recall ----------------------------------------------------------------------------


class PendingCopy(NamedTuple):
    """The newest copy of a timer in its engine's topic, and whether it still waits.

    After rolls of a real broker, which say nothing of earlier copies, `root` is the first one
    from where on the copies name it.
    """

    root: int
    request: TimerRequest
    record: MessageRecord
    waits: bool
    marked_by: int | None
    """Offset of the first mark that hits it."""

    def is_meant(self, victim: int | None) -> bool:
        """Say whether a mark of its key and slot removes it; None: one that names no victim."""
        return victim is None or victim == self.root or is_rootless(self.record.properties)


def messages_with_key(
    store: MessageStore, unique_key: str, topic: str, queue_id: int | None = None
) -> Iterator[MessageRecord]:
    """Go through the messages of a topic with this id, oldest first; `queue_id` None: all queues.

    All of them, not only as many as a client may ask for: a timer has a copy for every roll.
    """
    if store.index is None:  # messageIndexEnable is off: slow
        offsets = sorted(
            offset
            for place, queue in store.queues.items()
            if place[0] == topic and queue_id in {None, place[1]}
            for _, (offset, _, _) in queue.iterate(queue.min_offset)
        )
    else:
        store.index.catch_up(store.log.max_offset)
        offsets = store.index.query(topic, unique_key, _MOST_COPIES, 0, _ALL_TIME_MS)
    for offset in offsets:
        record = store.record(offset)
        if (
            record is not None
            and record.topic == topic
            and queue_id in {None, record.queue_id}
            and record.properties.get(Prop.UNIQ_KEY) == unique_key
        ):
            yield record


def copies_among(
    records: Iterable[MessageRecord],
    topic: str | None,
    *,
    waits: Callable[[MessageRecord, TimerRequest], bool],
    hits: Callable[[Mark, PendingCopy], bool],
) -> list[PendingCopy]:
    """Give every timer among the messages of one id, oldest first; `topic` None means any.

    `waits` says whether a newest copy is still to be released, `hits` whether a mark of its key
    and slot removes it.
    """
    newest: dict[int, tuple[MessageRecord, TimerRequest]] = {}
    marks: list[tuple[Mark, TimerRequest]] = []
    for record in records:
        request = parse_request(record.properties)
        if request is None:
            continue
        if request.deletes is not None:
            marks.append((Mark.of(record.properties, record.commit_log_offset), request))
        elif topic is None or request.real_topic == topic:
            before = _rolled_by_other(newest, record, request)
            if before is not None:
                del newest[before]
            newest[root_offset(record.properties, record.commit_log_offset)] = (record, request)
    copies = []
    for root, (record, request) in sorted(newest.items()):
        key = delete_key(request.real_topic, record.properties.get(Prop.UNIQ_KEY, ""))
        copy = PendingCopy(root, request, record, waits(record, request), None)
        marked_by = [
            mark.root
            for mark, asked in marks
            if asked.deletes == key and asked.out_ms == request.out_ms and hits(mark, copy)
        ]
        copies.append(copy._replace(marked_by=min(marked_by, default=None)))
    return copies


def _rolled_by_other(
    newest: Mapping[int, tuple[MessageRecord, TimerRequest]],
    record: MessageRecord,
    request: TimerRequest,
) -> int | None:
    """Find the copy that a real broker rolled into this one: the oldest with one roll less."""
    if not is_rootless(record.properties):
        return None
    before = Hop.of(record.properties, request).before
    return next((root for root, one in newest.items() if before == _hop(*one)), None)


def _hop(record: MessageRecord, request: TimerRequest) -> "Hop":
    return Hop.of(record.properties, request)


class Hop(NamedTuple):
    """Which timer a copy is of, and how often it was rolled: what a real broker keeps as it rolls.

    Copies of different timers are equal only when both were sent with one id for one slot.
    """

    out_ms: int
    real_topic: str
    unique_key: str
    replaced: int | None
    rolls: int

    @classmethod
    def of(cls, properties: Mapping[str, str], request: TimerRequest) -> "Hop":
        """Read it."""
        text = properties.get(Prop.TIMER_ROLL_TIMES, "0")
        is_number = text.isdecimal() and text.isascii() and len(text) <= _ROLL_DIGITS
        return cls(
            request.out_ms,
            request.real_topic,
            properties.get(Prop.UNIQ_KEY, ""),
            victim_root(properties),
            int(text) if is_number else 0,
        )

    @property
    def before(self) -> "Hop":
        """The copy that was rolled into this one."""
        return self._replace(rolls=self.rolls - 1)


def mark_message(copy: PendingCopy, *, now_ms: int) -> InnerMessage:
    """Build the mark that removes exactly this copy; it goes where the copy lies.

    It goes past admission, so also in the last moments before the release, where a recall by
    handle is refused.
    """
    out_ms, topic = copy.request.out_ms, copy.request.real_topic
    unique_key = copy.record.properties.get(Prop.UNIQ_KEY, "")
    properties = {
        Prop.TAGS: RECALL_TAG,
        Prop.TIMER_DEL_UNIQKEY: delete_key(topic, unique_key),
        Prop.TIMER_DEL_OFFSET: str(copy.root),
        Prop.UNIQ_KEY: unique_key,
        Prop.TIMER_DELIVER_MS: str(out_ms + 1),
        Prop.TIMER_OUT_MS: str(out_ms),
        Prop.REAL_TOPIC: topic,
        Prop.REAL_QID: "0",
        Prop.BORN_TIMESTAMP: str(now_ms),
    }
    record = copy.record
    return InnerMessage(record.topic, record.queue_id, _BODY, properties, born_timestamp=now_ms)


class UnsettledMarks:
    """Marks that were stored so recently that the counts of their victims are not corrected yet.

    That is done when somebody asks for a count and not while the mark arrives: the key index,
    which finds the victims, is behind then. `find` gives the timers of an id and a topic.
    """

    def __init__(
        self, metrics: TimerMetrics, find: Callable[[str, str], Iterable[PendingCopy]]
    ) -> None:
        self._metrics = metrics
        self._find = find
        self._marks: list[tuple[int, TimerRequest, int | None]] = []

    def __len__(self) -> int:
        return len(self._marks)

    def add(self, offset: int, request: TimerRequest, victim: int | None) -> None:
        """Take note of a mark that was stored at `offset` of the commit log."""
        self._marks.append((offset, request, victim))

    def clear(self) -> None:
        """Forget them: the counts are found out anew."""
        self._marks.clear()

    def settle(self, now_ms: int) -> None:
        """Take the victims out of the counts; what is due must have been loaded before.

        Raises StoreError when the disk refuses; marks that were not settled stay here.
        """
        while self._marks:
            offset, request, victim = self._marks[0]
            topic, _, unique_key = (request.deletes or "").partition("+")
            copies = self._find(unique_key, topic)
            del self._marks[0]
            for copy in copies:
                if (
                    copy.waits
                    and copy.request.out_ms == request.out_ms
                    and copy.root < offset
                    and copy.is_meant(victim)
                    and (copy.marked_by is None or copy.marked_by >= offset)
                ):
                    self._metrics.add(topic, -1, now_ms)

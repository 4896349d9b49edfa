"""State of the wheel engine: files, numbers and pointers that its services share.

Answers: where the pipeline stands. Must not know: who moves it. The pointers have the names of
`org.apache.rocketmq.store.timer.TimerMessageStore`:

* `curr_queue_offset`: the next entry of the timer topic's queue to enter the wheel,
* `curr_write_ms`: no record enters an earlier slot,
* `curr_read_ms`: the first slot that is not finished. It and the next one are loaded (`DueHeap`).

Read on: `engine.py` for who moves them, and in which order.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from attrs import define, field

from embedded_broker.clocks.timeline import Alarm
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.consume_queue import ConsumeQueue
from embedded_broker.store.copies import stored_parts, topic_field
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.message_store import MessageStore
from embedded_broker.timer.metrics import TimerMetrics
from embedded_broker.timer.recall import Mark
from embedded_broker.timer.request import TimerMessage, parse_request
from embedded_broker.timer.request import topic_hash as hash_of
from embedded_broker.timer.wheel.due_heap import DueHeap, EntryKind, Waiting
from embedded_broker.timer.wheel.slots import TimerWheel
from embedded_broker.timer.wheel.timer_log import MAGIC_DELETE, MAGIC_ROLL, TimerLog
from rocketmq_py.protocol.delay import release_due_ms
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import decode_properties

WHEEL_FILE: Final = "timerwheel"
LOG_FOLDER: Final = "timerlog"
METRICS_FILE: Final = "config/timermetrics"
SPARE_SLOTS: Final = 60
"""Slots of half the wheel that neither a hop nor a read that lags may use."""

TIMER_TOPIC_FIELD: Final = topic_field(TIMER_TOPIC) or b""


@define(slots=True)
class TimerRole:
    """Whether this store releases; if not, `master_queue_offset` ends what it may enqueue.

    Who the master is, or how a broker comes to be one, is not known here: a role is set by a call
    (`lifecycle/acting.py`). After `TimerMessageStore.setShouldRunningDequeue`,
    `isRunningEnqueue` and `isRunningDequeue` of the original: a store that must not release fills
    its own wheel up to where its master has come (`masterTimerQueueOffset`), and takes over there.
    """

    releases: bool = True
    master_queue_offset: int = 0

    def may_enqueue(self, queue_offset: int) -> bool:
        """Say whether this entry of the timer topic's queue may enter the wheel."""
        return self.releases or queue_offset < self.master_queue_offset

    def follow(self, master_queue_offset: int) -> None:
        """Note how far the master has come; it never goes back while one follows."""
        self.master_queue_offset = max(self.master_queue_offset, master_queue_offset)

    def step_down(self, queue_offset: int) -> None:
        """Release no more; what was enqueued as a master stays."""
        self.releases = False
        self.master_queue_offset = max(self.master_queue_offset, queue_offset)

    def take_over(self) -> None:
        """Release again."""
        self.releases = True


@define(slots=True, kw_only=True, eq=False)
class TimerState:
    """Pointers in epoch milliseconds and offsets; `lost` counts by reason what was given up."""

    store: MessageStore
    wheel: TimerWheel
    log: TimerLog
    metrics: TimerMetrics
    precision_ms: int
    release_precision_ms: int
    roll_window: int
    due_heap: DueHeap = field(factory=DueHeap)
    role: TimerRole = field(factory=TimerRole)
    curr_queue_offset: int = 0
    curr_write_ms: int = 0
    curr_read_ms: int = 0
    already_logged: set[int] = field(factory=set)
    displaced_until_ms: int = 0
    """Up to this slot timers of earlier ones may lie: the clock was set back in a former life."""
    old_scan_pos: int | None = None
    """Behind this offset lie the releases of a former life from slots up to `old_scan_until_ms`."""
    old_scan_until_ms: int = 0
    old_removed: frozenset[int] = frozenset()
    """Offsets of the timers that marks removed in a former life from those slots."""
    lost: Counter[str] = field(factory=Counter)
    alarm: Alarm = field(factory=Alarm)

    def floor(self, time_ms: int) -> int:
        """Give the slot boundary at or before a time."""
        return time_ms // self.precision_ms * self.precision_ms

    def scan_pos_of(self, slot_ms: int) -> int:
        """Give the commit-log offset behind which every release from a slot lies, loaded now."""
        if self.old_scan_pos is not None and slot_ms <= self.old_scan_until_ms:
            return self.old_scan_pos
        return self.store.log.max_offset

    def mark_end_ms(self, slot_ms: int) -> int:
        """Give the last slot in which a victim of a mark in this slot can lie."""
        return max(slot_ms, self.displaced_until_ms)

    def timer_record(self, offset_py: int, size_py: int) -> MessageRecord | None:
        """Read a message of the timer topic; None when something else lies there, or nothing.

        After the commit log was cut, an old record can point into unrelated bytes.
        """
        record = self.store.record(offset_py)
        if record is None or record.topic != TIMER_TOPIC or record.size != size_py:
            return None
        return record

    def timer_head(self, offset_py: int, size_py: int) -> tuple[dict[str, str], int] | None:
        """Read only the properties and the store time of a message of the timer topic."""
        parts = stored_parts(self.store.log, offset_py, size_py, TIMER_TOPIC_FIELD)
        if parts is not None:
            return decode_properties(parts[1]), parts[2]
        record = self.timer_record(offset_py, size_py)
        return None if record is None else (record.properties, record.store_timestamp)

    def message(self, offset_py: int, size_py: int, queue_offset: int = -1) -> TimerMessage | None:
        """Read a message of the timer topic; None when nothing readable lies there."""
        head = self.timer_head(offset_py, size_py)
        request = None if head is None else parse_request(head[0])
        if head is None or request is None:
            return None
        return TimerMessage(offset_py, size_py, head[1], head[0], request, queue_offset)

    @property
    def queue(self) -> ConsumeQueue:
        """The timer topic's one queue."""
        queue = self.store.consume_queue(TIMER_TOPIC, 0, create=True)
        assert queue is not None  # noqa: S101 - create=True always gives one
        return queue

    def is_done(self, offset_py: int) -> bool:
        """Say whether a message in the queue entered the wheel, or left it, in a former life."""
        return offset_py in self.already_logged or offset_py in self.due_heap.done

    def unread(self) -> Iterator[TimerMessage]:
        """Go through the messages that are still to enter the wheel; what is unreadable is none."""
        for number, (offset, size, _) in self.queue.iterate(self.curr_queue_offset):
            message = None if self.is_done(offset) else self.message(offset, size, number)
            if message is not None:
                yield message

    def uncount(self, topic_hash: int) -> None:
        """Take a timer whose message is gone out of the counts; only its topic's hash is left."""
        for topic in self.metrics.topics:
            if hash_of(topic) == topic_hash and self.metrics.count(topic) > 0:
                self.metrics.add(topic, -1, self.store.last_store_timestamp)
                return

    def due_ms(
        self, properties: Mapping[str, str], store_timestamp: int, out_ms: int, step_ms: int
    ) -> int:
        """Give the time at which a message may leave, rounded up to `step_ms`."""
        return release_due_ms(properties, store_timestamp, out_ms, self.precision_ms, step_ms)

    def keep_late_mark(self, message: TimerMessage) -> None:
        """Let a mark of the queue work before it enters the wheel, or without entering it."""
        key = message.request.deletes
        if key is not None:
            mark = Mark.of(message.properties, message.offset_py)
            out_ms = message.request.out_ms
            self.due_heap.add_late_mark(out_ms, key, mark, message.queue_offset)

    def release_ms(self, message: TimerMessage) -> int:
        """Give the time at which a message leaves."""
        _, _, store_timestamp, properties, request, _ = message
        step_ms = self.release_precision_ms
        return self.due_ms(properties, store_timestamp, request.out_ms, step_ms)

    def take(
        self,
        magic: int,
        slot_ms: int,
        enqueue_ms: int,
        message: TimerMessage,
    ) -> None:
        """Put a message of a loaded slot into the due heap: a timer, a hop, or a mark."""
        offset_py, size_py, _, properties, request, _ = message
        if magic & MAGIC_ROLL or request.out_ms > slot_ms:
            kind = EntryKind.ROLL if request.deletes is None else EntryKind.ROLL_MARK
            due_ms = slot_ms + self.precision_ms
        elif magic & MAGIC_DELETE and request.deletes is not None:
            mark = Mark.of(properties, offset_py)
            end_ms = self.mark_end_ms(slot_ms)
            self.due_heap.add_mark(request.out_ms, request.deletes, mark, end_slot_ms=end_ms)
            return
        else:
            kind = EntryKind.RELEASE
            due_ms = self.release_ms(message)
        self.due_heap.add(
            Waiting(
                due_ms,
                message.root,
                offset_py,
                size_py,
                request.out_ms,
                slot_ms,
                enqueue_ms,
                kind,
            )
        )


def new_state(store: MessageStore, fs: FileSystem, config: BrokerConfig, slots: int) -> TimerState:
    """Begin with empty files; `load` reads what there is."""
    precision_ms = config.int("timerPrecisionMs")
    window = config.int("timerRollWindowSlot")
    if not 2 <= window <= slots - SPARE_SLOTS:
        window = max(2, slots - SPARE_SLOTS)
    return TimerState(
        store=store,
        wheel=TimerWheel(fs, WHEEL_FILE, slots=slots, precision_ms=precision_ms),
        log=TimerLog(fs, LOG_FOLDER, config.int("mappedFileSizeTimerLog")),
        metrics=TimerMetrics(fs, METRICS_FILE),
        precision_ms=precision_ms,
        release_precision_ms=config.int("timerReleasePrecisionMs"),
        roll_window=window,
    )

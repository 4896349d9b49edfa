"""The eighteen delay levels: one queue per level, each in the order of arrival.

Answers: when a message that asked for a level goes to its topic, and how far each level has come.
Must not know: the wheel, requests, threads. Messages wait in SCHEDULE_TOPIC_XXXX, queue level - 1,
where the tags code of an entry is the time of delivery; admission put them there. After
`org.apache.rocketmq.broker.schedule.ScheduleMessageService`, but released at the exact time
instead of by a poll every 100 ms. `config/delayOffset.json` holds the next queue offset of each
level; a crash repeats what was delivered since the last save.

Read on: `admission.py` for the way in, `rocketmq_py/protocol/delay.py` for the level table.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from attrs import frozen

from embedded_broker.config import BrokerConfig
from embedded_broker.store.config_files import JsonConfigFile
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.inner import Arrival, InnerMessage
from embedded_broker.store.message_store import MessageStore
from embedded_broker.timeline import Budget, Deadline
from rocketmq_py.clock import Clock
from rocketmq_py.protocol.delay import DELAY_PROPERTIES, level_due_ms, parse_levels
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC
from rocketmq_py.protocol.properties import Prop

__all__ = ["OFFSETS_FILE", "LevelFlush", "ScheduleMessageService"]

_LOG = logging.getLogger(__name__)

OFFSETS_FILE: Final = "config/delayOffset.json"
RETRY_AFTER_MS: Final = 100
"""`DELAY_FOR_A_WHILE`: how long a level waits after a put that failed."""


class _Head(NamedTuple):
    """The next message of a level; the earlier in the log goes first when two are due at once."""

    due_ms: int
    offset_py: int


@frozen
class LevelFlush:
    """Offsets captured under the door; `run` it outside, after the store's own flush."""

    file: JsonConfigFile
    table: dict[str, Any] | None
    """None when the file says so already."""
    failed: Callable[[], None]

    def run(self) -> None:
        """Write and sync. Raises `StoreError`; the next flush tries it again."""
        if self.table is None:
            return
        try:
            self.file.save(self.table)
        except BaseException:
            self.failed()
            raise


class ScheduleMessageService:
    """The levels of one broker; a `DeadlineSource`.

    Make it before `MessageStore.load`: the store asks `level_deliver_ms` when it mends queues.
    `session_timer(delay_ms, call)` is used to wait before a failed put is tried again; without it
    the message clock is, and a frozen one then waits for ever.
    """

    def __init__(
        self, store: MessageStore, fs: FileSystem, config: BrokerConfig, clock: Clock
    ) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._levels = parse_levels(config.text("messageDelayLevel"))
        self._file = JsonConfigFile(fs, OFFSETS_FILE)
        self._offsets: dict[int, int] = {}
        self._heads: dict[int, _Head] = {}
        self._retry_at_ms: dict[int, int] = {}
        self._waits_for_session: set[int] = set()
        self._version = {"counter": 0, "stateVersion": 0, "timestamp": 0}
        self._moves = 0
        self._saved: dict[int, int] | None = None
        self._running = False
        self.skipped: Counter[str] = Counter()
        """Messages that could not be delivered, by reason; empty when all is well."""
        self.session_timer: Callable[[int, Callable[[], None]], object] | None = None
        store.level_deliver_ms = self.level_deliver_ms

    # --- life --------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the offsets, move them into what the queues hold, and listen to arrivals."""
        self._read_offsets(self._file.load())
        for topic, queue_id in list(self._store.queues):
            if topic == SCHEDULE_TOPIC:
                level = queue_id + 1
                low = self._store.min_offset(SCHEDULE_TOPIC, queue_id)
                high = self._store.max_offset(SCHEDULE_TOPIC, queue_id)
                wanted = self._offsets.get(level, low)
                self._offsets[level] = max(low, min(wanted, high))
                self._find_head(level, self._clock.now_ms)
        for level in [one for one in self._offsets if one not in self._known_queues()]:
            self._offsets[level] = 0
        self._store.on_arrival.append(self.on_arrival)
        self._running = True

    def close(self) -> None:
        """Save the offsets; idempotent. The store is still open."""
        if self._running:
            self._running = False
            work = self.begin_flush()
            self._store.begin_flush().run()
            work.run()

    def begin_flush(self) -> LevelFlush:
        """Capture the offsets to save; under the door."""
        if self._offsets == self._saved:
            return LevelFlush(self._file, None, self._forget_saved)
        self._saved = dict(self._offsets)
        table = {"dataVersion": dict(self._version), "offsetTable": dict(self._saved)}
        return LevelFlush(self._file, table, self._forget_saved)

    def _forget_saved(self) -> None:
        self._saved = None

    def _read_offsets(self, table: Any) -> None:  # Any: a JSON edge, every value is checked
        if not isinstance(table, dict):
            return
        offsets = table.get("offsetTable")
        for level, offset in (offsets if isinstance(offsets, dict) else {}).items():
            if str(level).isdecimal() and isinstance(offset, int):
                self._offsets[int(level)] = offset
        version = table.get("dataVersion")
        for name in self._version:
            found = version.get(name) if isinstance(version, dict) else None
            if isinstance(found, int):
                self._version[name] = found

    def _known_queues(self) -> set[int]:
        return {queue_id + 1 for topic, queue_id in self._store.queues if topic == SCHEDULE_TOPIC}

    # --- time --------------------------------------------------------------------------------

    @property
    def level_max(self) -> int:
        """The highest level of this broker."""
        return len(self._levels)

    def level_deliver_ms(self, level: int, store_timestamp: int) -> int:
        """Give the time of delivery; an unknown level waits one second."""
        return level_due_ms(level, store_timestamp, self._levels)

    def offsets(self) -> dict[int, int]:
        """Give the next queue offset of each level that was ever used."""
        return dict(self._offsets)

    def count(self) -> int:
        """How many messages wait at all levels."""
        return sum(
            self._store.max_offset(SCHEDULE_TOPIC, level - 1) - offset
            for level, offset in self._offsets.items()
        )

    def on_arrival(self, arrival: Arrival) -> None:
        """Note the message if it is the first of its level."""
        if arrival.topic != SCHEDULE_TOPIC or not self._running:
            return
        level = arrival.queue_id + 1
        if level not in self._offsets:
            self._offsets[level] = arrival.queue_offset
        if level not in self._heads:
            self._find_head(level, arrival.store_timestamp)

    def next_deadline(self) -> Deadline | None:
        """When the next message of any level goes, or a put is tried again."""
        heads = self._heads
        if not heads or not self._running:
            return None
        if not self._retry_at_ms and not self._waits_for_session:
            return Deadline(min(heads.values()).due_ms, "delay level")
        due_ms = min(
            (
                max(head.due_ms, self._retry_at_ms.get(level, 0))
                for level, head in heads.items()
                if level not in self._waits_for_session
            ),
            default=None,
        )
        return None if due_ms is None else Deadline(due_ms, "delay level")

    def fire(self, now_ms: int, *, horizon_ms: int, budget: Budget) -> int:  # noqa: ARG002
        """Deliver what is due, in due order; gives the number of messages delivered."""
        delivered = 0
        while self._running:
            due = [
                (head, level)
                for level, head in self._heads.items()
                if head.due_ms <= now_ms
                and level not in self._waits_for_session
                and self._retry_at_ms.get(level, 0) <= now_ms
            ]
            if not due:
                break
            level = min(due)[1]
            delivered += self._deliver(level, now_ms)
            if budget.exhausted():
                break
        return delivered

    # --- delivering ----------------------------------------------------------------------------

    def _deliver(self, level: int, now_ms: int) -> bool:
        """Deliver the head of a level and go on to the next; a put that fails stays the head."""
        self._retry_at_ms.pop(level, None)
        message = self._message(self._heads[level].offset_py)
        stored = False
        if message is not None:
            result = self._store.put(message)
            stored = result.ok
            if not stored:
                _LOG.warning("delay level %d: put failed: %s", level, result.remark)
                self._wait_before_retry(level, now_ms)
                return False
        self._offsets[level] += 1
        self._moves += 1
        if self._moves % self._config.int("delayOffsetUpdateVersionStep") == 0:
            self._version["counter"] += 1
            self._version["timestamp"] = now_ms
        self._find_head(level, now_ms)
        return stored

    def _message(self, offset_py: int) -> InnerMessage | None:
        """Restore a message; None, counted, when it cannot go anywhere.

        What is stored keeps DELAY, REAL_TOPIC and REAL_QID, as in the original, whose texts are
        made before the names are removed; what the put hooks see does not ask for a delay.
        """
        record: MessageRecord | None = self._store.record(offset_py)
        if record is None or record.topic != SCHEDULE_TOPIC:
            self.skipped["unreadable"] += 1
            return None
        properties = {
            name: value for name, value in record.properties.items() if name not in DELAY_PROPERTIES
        }
        topic, queue_id = properties.get(Prop.REAL_TOPIC), properties.get(Prop.REAL_QID, "")
        if not topic or not queue_id.isdecimal() or topic == HALF_TOPIC:
            self.skipped["malformed"] += 1
            return None
        return InnerMessage(
            topic,
            int(queue_id),
            record.body,
            properties,
            record.flag,
            record.sys_flag,
            record.born_timestamp,
            record.born_host,
            record.reconsume_times,
            properties_bytes=record.properties_bytes,
        )

    def _find_head(self, level: int, now_ms: int) -> None:
        """Look at the entry at the level's offset.

        A time further away than the level itself counts as now: the levels were shortened, or the
        clock was set back while the message waited (`correctDeliverTimestamp`).
        """
        queue = self._store.consume_queue(SCHEDULE_TOPIC, level - 1)
        self._heads.pop(level, None)
        while queue is not None and self._offsets[level] < queue.max_offset:
            entry = queue.entry(self._offsets[level])
            if entry is not None:
                offset_py, _, deliver_ms = entry
                if deliver_ms > self.level_deliver_ms(level, now_ms):
                    deliver_ms = now_ms
                self._heads[level] = _Head(deliver_ms, offset_py)
                return
            self._offsets[level] += 1

    def _wait_before_retry(self, level: int, now_ms: int) -> None:
        if self.session_timer is None:
            self._retry_at_ms[level] = now_ms + RETRY_AFTER_MS
            return
        self._waits_for_session.add(level)
        self.session_timer(RETRY_AFTER_MS, lambda: self._waits_for_session.discard(level))

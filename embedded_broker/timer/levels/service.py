"""The eighteen delay levels: one queue per level, each in the order of arrival.

Answers: when a message that asked for a level goes to its topic, how far each level has come, and
when a level tries a put again that failed.
Must not know: the wheel, requests, threads. Messages wait in SCHEDULE_TOPIC_XXXX, queue level - 1,
where the tags code of an entry is the time of delivery; admission put them there. After
`org.apache.rocketmq.broker.schedule.ScheduleMessageService`, but released at the exact time
instead of by a poll every 100 ms. `config/delayOffset.json` holds the next queue offset of each
level; a crash repeats what was delivered since the last save.

With `enableScheduleAsyncDeliver` a level goes on before its last put is durable.

Read on: `timer/admission.py` for the way in, `rocketmq_py/protocol/delay.py` for the level table,
`unanswered_puts.py` for puts that are not answered yet.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from attrs import frozen

from embedded_broker.clocks.timeline import UNRANKED, Alarm, Budget, Deadline
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.message_run import Arrivals
from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.put_values import InnerMessage, PutResult
from embedded_broker.store.queue_names import destination
from embedded_broker.timer.delay_offsets import DelayOffsetFile
from embedded_broker.timer.delivery import Bridge, LatePut, RetryWait
from embedded_broker.timer.levels.listing import LevelSource, LevelStart, LevelTally
from embedded_broker.timer.levels.unanswered_puts import Flight, UnansweredPuts
from embedded_broker.timer.listing import Walk, Wanted
from rocketmq_py.clock import Clock
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.delay import DELAY_PROPERTIES, level_due_ms, parse_levels
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC

_LOG = get_logger(__name__)

RETRY_AFTER_MS: Final = 100
"""`DELAY_FOR_A_WHILE`: how long a level waits after a put that failed."""


class _Head(NamedTuple):
    """The next message of a level; the earlier in the log goes first when two are due at once."""

    due_ms: int
    offset_py: int


@frozen
class LevelFlush:
    """Offsets captured under the door; `run` it outside, after the store's own flush."""

    file: DelayOffsetFile
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

    Make it before `MessageStore.load`: the store asks `level_deliver_ms` when it repairs queues.
    `session_timer(delay_ms, call)` is used to wait before a failed put is tried again; without it
    the message clock is, and a frozen one then waits for ever. `file` is shared with a sliced
    timer engine. A service that is never loaded (delay levels are off) has no messages.
    """

    def __init__(
        self,
        store: MessageStore,
        fs: FileSystem,
        config: BrokerConfig,
        clock: Clock,
        *,
        file: DelayOffsetFile | None = None,
    ) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._levels = parse_levels(config.text("messageDelayLevel"))
        self._file = DelayOffsetFile(fs) if file is None else file
        self._offsets: dict[int, int] = {}
        self._is_async = config.flag("enableScheduleAsyncDeliver")
        self._waits_for_sync = config.text("flushDiskType") == "SYNC_FLUSH"
        self._next: dict[int, int] = {}
        """The entry each level looks at; beyond its offset by the puts that are not answered."""
        self._unanswered: dict[int, UnansweredPuts] = {}
        self._look_at_ms: dict[int, int] = {}
        self._looks_by_session: set[int] = set()
        self._heads: dict[int, _Head] = {}
        self._starts: dict[int, LevelStart] = {}
        self._retries: dict[int, RetryWait] = {}
        self._version = {"counter": 0, "stateVersion": 0, "timestamp": 0}
        self._moves = 0
        self._saved: dict[int, int] | None = {}
        self._running = False
        self._is_held = False
        self.alarm = Alarm()
        self.tally = LevelTally(store, self.waiting_from)
        """How many messages wait, by topic."""
        self.skipped: Counter[str] = Counter()
        """Messages that could not be delivered, by reason; empty when all is well."""
        self.session_timer: Callable[[int, Callable[[], None]], object] | None = None
        self.escape: Bridge | None = None
        """Where due messages are put; None is this broker's own store."""
        self.request_flush: Callable[[], None] | None = None
        """Called when a put waits for a sync (`enableScheduleAsyncDeliver` with SYNC_FLUSH)."""
        store.level_deliver_ms = self.level_deliver_ms

    # --- life --------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the offsets, move them into what the queues hold, and listen to arrivals."""
        self._saved = None
        table = self._file.load()
        self._read_offsets(table)
        levels = [number + 1 for topic, number in self._store.queues if topic == SCHEDULE_TOPIC]
        for level in levels:
            low = self._store.min_offset(SCHEDULE_TOPIC, level - 1)
            high = self._store.max_offset(SCHEDULE_TOPIC, level - 1)
            wanted = self._offsets.get(level, low)
            self._offsets[level] = self._next[level] = max(low, min(wanted, high))
            self._find_head(level, self._clock.now_ms)
        for level in self._offsets.keys() - set(levels):
            self._offsets[level] = self._next[level] = 0
        self._store.listen(SCHEDULE_TOPIC, self.on_arrival, self.tally.on_arrival)
        self._running = True

    def close(self) -> None:
        """Save the offsets; idempotent. The store is still open."""
        if self._running:
            self._running = False
            self._store.begin_flush().run()
            self.settle()
            self.begin_flush().run()

    def follow(self, table: object) -> None:
        """Be as far as a master is, by what it answers to request 45. For a slave."""
        self._read_offsets(table)
        self._next.update(self._offsets)

    def hold(self) -> None:
        """Deliver nothing more; answers that are missing are still taken."""
        self._is_held = True

    def settle(self) -> None:
        """Take every answer that is there: the offsets then say what is delivered."""
        for level in self._unanswered:
            self._settle(level, self._clock.now_ms)

    def go_on(self) -> None:
        """Deliver again, from the saved offsets on."""
        self._is_held = False
        self._unanswered.clear()
        self._retries.clear()
        self._look_at_ms.clear()
        now_ms = self._clock.now_ms
        for topic, number in list(self._store.queues):
            if topic == SCHEDULE_TOPIC:
                low = self._store.min_offset(SCHEDULE_TOPIC, number)
                self._next[number + 1] = max(low, self._offsets.get(number + 1, low))
                self._find_head(number + 1, now_ms)

    def pass_delivered(self, table: object) -> None:
        """Go on where another broker has come, by what it answers to request 45."""
        own = dict(self._offsets)
        self._read_offsets(table)
        for level, offset in own.items():
            self._offsets[level] = max(offset, self._offsets.get(level, offset))
        self.go_on()

    def begin_flush(self) -> LevelFlush:
        """Capture the offsets to save; under the door."""
        table = None
        if self._offsets != self._saved:
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

    # --- time --------------------------------------------------------------------------------

    def level_deliver_ms(self, level: int, store_timestamp: int) -> int:
        """Give the time of delivery; an unknown level waits one second."""
        return level_due_ms(level, store_timestamp, self._levels)

    def offsets(self) -> dict[int, int]:
        """Give the next queue offset of each level that was ever used."""
        return dict(self._offsets)

    def data_version(self) -> dict[str, int]:
        """Give how often the offsets have changed: counter, state_version and timestamp."""
        version = self._version
        return {
            "counter": version["counter"],
            "state_version": version["stateVersion"],
            "timestamp": version["timestamp"],
        }

    def count(self) -> int:
        """How many messages wait at all levels; what was put already does not wait."""
        return sum(
            self._store.max_offset(SCHEDULE_TOPIC, level - 1) - offset
            for level, offset in self._next.items()
        )

    @property
    def is_waiting(self) -> bool:
        """Whether answers of puts are missing, or were not looked at yet."""
        return any(self._unanswered.values())

    def waiting_from(self) -> dict[int, int]:
        """Give the first queue offset of each level that still waits."""
        return dict(self._next)

    def head_due_ms(self, level: int) -> int | None:
        """Give when the first message of a level goes; None when none waits."""
        head = self._heads.get(level)
        return None if head is None else head.due_ms

    def pending(self, wanted: Wanted) -> Walk:
        """Begin to list what waits at all levels, in due order; nothing is changed by it."""
        return Walk(LevelSource(self._store, self._clock, self, self._starts), wanted)

    def on_arrival(self, arrivals: Arrivals) -> None:
        """Note what came if it is the first of its level."""
        if arrivals.topic != SCHEDULE_TOPIC or not self._running:
            return
        level = arrivals.queue_id + 1
        if level not in self._offsets:
            self._offsets[level] = self._next[level] = arrivals.queue_offset
        if level not in self._heads:
            self._find_head(level, arrivals.store_timestamp)
        self.alarm.ring()

    def next_deadline(self) -> Deadline | None:
        """When the next message of any level goes, or a put is tried again."""
        heads = self._heads
        if not self._running or self._is_held or not (heads or self._look_at_ms):
            return None
        if not self._look_at_ms and not self._retries:
            return Deadline(min(heads.values()).due_ms, "delay level")
        times = [at_ms for at_ms, _, _ in self._turns()]
        due_ms = min([*times, *self._look_at_ms.values()], default=None)
        return None if due_ms is None else Deadline(due_ms, "delay level")

    def head_rank(self, due_ms: int) -> int:
        """Give the commit-log offset of the message that goes first at `due_ms`."""
        ranks = [head.offset_py for at_ms, head, _ in self._turns() if at_ms == due_ms]
        return UNRANKED if due_ms in self._look_at_ms.values() else min(ranks, default=UNRANKED)

    def fire(self, now_ms: int, *, horizon_ms: int, budget: Budget) -> int:  # noqa: ARG002
        """Deliver what is due, in due order; gives the number of messages delivered."""
        delivered = 0
        for level in [one for one, at_ms in self._look_at_ms.items() if at_ms <= now_ms]:
            del self._look_at_ms[level]
            self._look(level, now_ms)
        while self._running and not self._is_held:
            due = [(head, level) for at_ms, head, level in self._turns() if at_ms <= now_ms]
            if not due:
                break
            level = min(due)[1]
            delivered += self._deliver(level, now_ms)
            if budget.exhausted():
                break
        return delivered

    def _turns(self) -> Iterator[tuple[int, _Head, int]]:
        """Give when the head of each level may go, the head, and the level.

        A level that waits for the session clock before a retry is left out.
        """
        for level, head in self._heads.items():
            retry = self._retries.get(level)
            if retry is None or not retry.is_on:
                yield head.due_ms, head, level
            elif retry.at_ms is not None:
                yield max(head.due_ms, retry.at_ms), head, level

    # --- delivering ----------------------------------------------------------------------------

    def _deliver(self, level: int, now_ms: int) -> bool:
        """Deliver the head of a level and go on to the next; a put that fails stays the head."""
        self._retries.pop(level, None)
        puts = self._unanswered.get(level)
        if puts is not None and not self._has_room(puts):
            self._wait_before_retry(level, now_ms)
            return False
        offset_py = self._heads[level].offset_py
        message = self._message(offset_py)
        stored = False
        if message is not None:
            answer = self._put(message)
            stored = isinstance(answer, PutResult) and answer.ok
            if self._is_async or isinstance(answer, LatePut):
                puts = self._puts_of(level)
                puts.add(Flight(self._next[level], offset_py, answer))
            elif not stored:
                _LOG.warning("delay level %d: put failed: %s", level, answer.remark)
                self._wait_before_retry(level, now_ms)
                return False
        self._next[level] += 1
        if puts is None:
            self._note_move(now_ms)
        else:
            self._settle(level, now_ms)
            self._plan_look(level, now_ms)
        self._find_head(level, now_ms)
        return stored

    def _put(self, message: InnerMessage) -> PutResult | LatePut:
        return self._store.put(message) if self.escape is None else self.escape(message)

    def _note_move(self, now_ms: int) -> None:
        self._moves += 1
        if self._moves % self._config.int("delayOffsetUpdateVersionStep") == 0:
            self._version["counter"] += 1
            self._version["timestamp"] = now_ms

    # --- answers that come later ---------------------------------------------------------------

    def _puts_of(self, level: int) -> UnansweredPuts:
        puts = self._unanswered.get(level)
        if puts is None:
            puts = UnansweredPuts(is_durable=self._is_durable, put_again=self._put_again)
            self._unanswered[level] = puts
        return puts

    def _has_room(self, puts: UnansweredPuts) -> bool:
        """Say whether the level may go on; without asynchronous delivery one put at a time."""
        if not self._is_async:
            return not puts
        return puts.has_room(
            pending_limit=self._config.int("scheduleAsyncDeliverMaxPendingLimit"),
            resends_limit=self._resends_limit,
        )

    @property
    def _resends_limit(self) -> int:
        return self._config.int("scheduleAsyncDeliverMaxResendNum2Blocked")

    def _is_durable(self, log_end: int) -> bool:
        if not (self._is_async and self._waits_for_sync) or self.escape is not None:
            return True
        return self._store.flushed_offset >= log_end

    def _put_again(self, offset_py: int) -> PutResult | LatePut | None:
        if self._store.record(offset_py) is None:
            return None  # counted once, when it is given up
        message = self._message(offset_py)
        return None if message is None else self._put(message)

    def _settle(self, level: int, now_ms: int, given_up: int | None = None) -> None:
        """Move the level's offset behind what is surely stored, or was given up."""
        puts = self._unanswered[level]
        behind = puts.settle()
        if not puts:
            behind = self._next[level]
        elif behind is None:
            behind = given_up
        if behind is not None and behind > self._offsets[level]:
            for _ in range(behind - self._offsets[level]):
                self._note_move(now_ms)
            self._offsets[level] = behind

    def _look(self, level: int, now_ms: int) -> None:
        """Take answers, repeat a put that failed, and look again later if some are missing."""
        if not self._running:
            return
        try:
            if level not in self._unanswered:
                return  # another life of the level began since
            given_up = None
            if not self._is_held:
                given_up = self._unanswered[level].repeat(resends_limit=self._resends_limit)
            if given_up is not None:
                self.skipped["unreadable"] += 1
            self._settle(level, now_ms, given_up)
        finally:
            # Also when the disk refused the put: nothing else would look again.
            self._plan_look(level, now_ms)

    def _plan_look(self, level: int, now_ms: int) -> None:
        wait_ms = self._unanswered[level].wait_ms() if level in self._unanswered else None
        if wait_ms is None or level in self._look_at_ms or level in self._looks_by_session:
            return
        if self._waits_for_sync and self.request_flush is not None:
            self.request_flush()
        if self.session_timer is None:
            self._look_at_ms[level] = now_ms + wait_ms
            return
        self._looks_by_session.add(level)
        self.session_timer(wait_ms, lambda: self._session_look(level))

    def _session_look(self, level: int) -> None:
        self._looks_by_session.discard(level)
        self._look(level, self._clock.now_ms)

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
        place = destination(properties)
        if place is None or place[0] == HALF_TOPIC:
            self.skipped["malformed"] += 1
            return None
        return InnerMessage.copy_of(record, *place, properties, record.properties_bytes)

    def _find_head(self, level: int, now_ms: int) -> None:
        """Look at the entry at the level's offset.

        A time further away than the level itself counts as now: the levels were shortened, or the
        clock was set back while the message waited (`correctDeliverTimestamp`). Now is the clock's
        time: `fire` may be told an earlier one, up to which it is this source's turn.
        """
        now_ms = max(now_ms, self._clock.now_ms)
        queue = self._store.consume_queue(SCHEDULE_TOPIC, level - 1)
        self._heads.pop(level, None)
        while queue is not None and self._next[level] < queue.max_offset:
            entry = queue.entry(self._next[level])
            if entry is not None:
                offset_py, _, deliver_ms = entry
                if deliver_ms > self.level_deliver_ms(level, now_ms):
                    deliver_ms = now_ms
                self._heads[level] = _Head(deliver_ms, offset_py)
                break
            self._next[level] += 1
        if not self._unanswered.get(level):
            self._offsets[level] = self._next[level]

    def _wait_before_retry(self, level: int, now_ms: int) -> None:
        retry = self._retries[level] = RetryWait()
        retry.session_timer = self.session_timer
        retry.begin(now_ms, RETRY_AFTER_MS)

"""Message store: put a message with its queue entry, get and find messages, flush, open and close.

Everything below the broker's door; one thread at a time, but for ``StoreFlush.run``. Must not
know: requests, topics' settings, timers (they are a put hook and an arrival listener). After
``DefaultMessageStore``. Read on: ``store_reader.py``, ``put_checks.py``, ``commit_log.py``,
``consume_queue.py``, ``key_index.py``, ``recovery.py``, ``flush.py``.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Final

from embedded_broker.errors import StoreDamagedError, StoreError
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.batch_queue import BatchConsumeQueue
from embedded_broker.store.checkpoint import CHECKPOINT_FILE, StoreCheckpoint
from embedded_broker.store.commit_log import CommitLog, Parts
from embedded_broker.store.consume_queue import CONSUME_QUEUE_FOLDER, ConsumeQueue, mark_of
from embedded_broker.store.copies import CopyBatch
from embedded_broker.store.disk_health import DiskHealth, Undone
from embedded_broker.store.filter_budget import FilterBudget
from embedded_broker.store.flush import StoreFlush
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.key_index import KeyIndex
from embedded_broker.store.memory_budget import MemoryBudget
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.store.message_run import Arrivals, MessageRun
from embedded_broker.store.pull import ANSWER_BYTES_MAX, COUNT_MAX, PullLimits
from embedded_broker.store.put_checks import (
    SHORT_TOPIC,
    Hooks,
    check_as_sent,
    check_as_stored,
    number_batch,
)
from embedded_broker.store.put_values import InnerMessage, PutResult, PutStatus
from embedded_broker.store.queue_folders import queue_folders
from embedded_broker.store.queue_names import QueueNameError
from embedded_broker.store.queue_recovery import NOT_QUEUED
from embedded_broker.store.recovery import Opening, StoreRecovery, recover
from embedded_broker.store.sizes import StoreSizes
from embedded_broker.store.store_reader import StoreReader
from rocketmq_py.clock import Clock
from rocketmq_py.errors import RecordError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.message_codec import encode_neighbours
from rocketmq_py.protocol.message_columns import Item
from rocketmq_py.protocol.names import SCHEDULE_TOPIC, SLICE_TIMER_TOPIC, TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop, decode_properties
from rocketmq_py.protocol.sysflag import INNER_BATCH, TRANSACTION_MASK
from rocketmq_py.protocol.tag_hash import tags_code

_LOG = get_logger(__name__)

ABORT_FILE: Final = "abort"
LOCK_FILE: Final = "lock"
_UNKNOWN_LEVEL_MS: Final = 1000
_OK: Final = PutStatus.PUT_OK
_ONE_BY_ONE: Final = PutResult(
    PutStatus.UNKNOWN_ERROR,
    remark="the messages cannot be stored as they are: put them one by one",
)
_NOT_ORDINARY: Final = INNER_BATCH | TRANSACTION_MASK
_offset: Final = itemgetter(0)  # of a consume queue entry
_Part = tuple[InnerMessage | MessageRun, Sequence[Item], int]
"""Messages of one queue, the items of their records, and how many messages each record counts."""
_Added = list[tuple[ConsumeQueue | None, Arrivals, int]]
"""Queues (None: transaction halves are in none), what each gets, and the count of its records."""
_DELAY_TOPICS: Final = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, SLICE_TIMER_TOPIC})


def _unknown_level(_level: int, store_timestamp: int) -> int:
    return store_timestamp + _UNKNOWN_LEVEL_MS


class MessageStore(StoreReader):
    """All messages of one broker, over a file system.

    ``store_host`` is the broker's packed address, stored in every record. ``owner`` names the
    broker to a second one that finds the store locked. Nothing is opened before ``load``.

    ``hooks`` run in order before every put; ``on_arrival`` is called once for all messages that
    became visible together in a queue, after they did. ``level_deliver_ms`` gives the delivery time
    of a delay level: the tags code of entries in SCHEDULE_TOPIC_XXXX. Set all before ``load``.
    """

    def __init__(
        self,
        fs: FileSystem,
        config: BrokerConfig,
        clock: Clock,
        store_host: bytes,
        *,
        owner: str = "an embedded broker",
    ) -> None:
        self.fs = fs
        self.config = config
        self.clock = clock
        self.store_host = store_host
        self.owner = owner
        self.budget = fs.budget if isinstance(fs, MemoryFileSystem) else MemoryBudget()
        """What a store in memory may take; without a limit for any other."""
        self.hooks = Hooks()
        self.on_arrival: list[Callable[[Arrivals], None]] = []
        self._listeners: dict[str, list[Callable[[Arrivals], None]]] = {}
        self.level_deliver_ms: Callable[[int, int], int] = _unknown_level
        self.checkpoint = StoreCheckpoint(fs)
        self.queues = {}
        self._batch_topics: set[str] = set()
        """Topics of which queues of batches were found when the store was opened."""
        self.index = None
        self.takes_batches = self._batch_topics.__contains__
        self._queue_file_size = self._batch_queue_file_size = 0
        self.delayed_puts = 0
        """How many messages went to topics whose messages fall due, since the start."""
        self.delay_topics = set(_DELAY_TOPICS)
        """Those topics: of timers, of delay levels, and the one of hidden messages."""
        self._dirty: set[ConsumeQueue] = set()
        self._last_store_timestamp = 0
        self._open = self._accepts = self._keeps_mark = False
        self.health = DiskHealth(lambda: clock.now_ms, self._accept)
        """Why nothing is accepted though the store is open, if so."""
        self.was_clean = False
        """Whether the last owner closed the store; known after ``load``."""
        self.was_ours = False
        """Whether the last owner's check point has our seal; known after ``load``."""
        self.problems: list[str] = []
        """What was wrong with files of the store when it was opened, a line each."""
        self._limits = PullLimits(1, 1)
        self.filter_budget = FilterBudget()
        self.body_size_max = 0
        """The largest body in bytes (``maxMessageSize``)."""
        self._read_settings()

    # --- life ---------------------------------------------------------------------------------

    def load(self) -> StoreRecovery:
        """Lock and open the store, recover it, and accept messages.

        Raises ``StoreLockedError`` if another broker has it, ``ConfigError`` if a setting does
        not fit the files, ``StoreError`` if they cannot be used.
        """
        self.fs.lock(LOCK_FILE, self.owner)
        try:
            return self._load()
        except BaseException:
            self._release()
            raise

    def _load(self) -> StoreRecovery:
        clean = self.was_clean = not self.fs.exists(ABORT_FILE)
        self._keeps_mark = False
        sizes = StoreSizes.find(self.fs, self.config)
        self._queue_file_size, self._batch_queue_file_size = sizes.consume_queue, sizes.batch_queue
        self.health.start_anew()
        undone = Undone()
        # Before anything is changed: dying in the middle of this must look like a dirty stop.
        undone.attempt(self._mark_use)
        wrong = self.checkpoint.load()
        if wrong is not None:
            self.problems.append(wrong)
        self.log = CommitLog(self.fs, sizes.commit_log)
        skip_damage = self.config.text("damagedRecords") == "skip"
        intact = self._load_queues(self.problems if skip_damage else None)
        as_left = not clean or self.checkpoint.queues_mark in {-1, mark_of(self.queues.values())}
        opening = Opening(
            clean=clean,
            whole=not (intact and as_left) or self.config.text("storeCheck") == "full",
            skip_damage=skip_damage,
            problems=self.problems,
            undone=undone,
        )
        try:
            report = recover(
                self.log,
                self.queues,
                self.checkpoint,
                opening,
                queue_for=self._queue,
                batch_queue_for=self._batch_queue,
                tags_code=self._stored_code,
            )
        except StoreDamagedError:
            if intact:
                self._look_as_found()
            raise
        self.was_ours = self.checkpoint.flushed_offset >= 0
        if clean and report.records_read and not self.checkpoint.physic_msg_timestamp and not wrong:
            self.problems.append("checkpoint is missing or empty: a clean stop writes it")
        if not as_left and not report.entries_added:
            self.problems.append(
                f"{CONSUME_QUEUE_FOLDER}: not all files are there that were left, but no entry of "
                "a message that is still kept is missing: a queue without messages may begin again "
                "at 0"
            )
        undone.attempt_last(lambda: self._note_recovered(report.last_store_timestamp))
        if self.config.flag("messageIndexEnable"):
            self.index = KeyIndex(self.fs, self.log, self.clock, sizes.index)
            # Places that were left out hold other records now: all keys are found again.
            full_ms = 0 if report.damaged_places else self.checkpoint.index_msg_timestamp
            self.index.load(
                clean=clean and not report.damaged_places,
                index_msg_timestamp=full_ms,
                problems=self.problems if clean else None,
            )
        self._last_store_timestamp = report.last_store_timestamp
        self.config.on_change(lambda _: self._read_settings())
        if undone.error is not None:
            self.health.drain_until(undone.run, undone.error)
            self.problems.append(str(self.health.problem))
        self._open = True
        self._accept(self.health.problem is None)
        _LOG.info("store opened: %s", report)
        return report

    def _mark_use(self) -> None:
        self.fs.write_file(ABORT_FILE, str(os.getpid()).encode())
        self.fs.sync_file(ABORT_FILE)
        self.fs.sync_dir("")

    def _note_recovered(self, newest_ms: int) -> None:
        """Note in the checkpoint that everything that was found is durable."""
        self.checkpoint.flushed_offset = self.log.files.flushed_offset
        self.checkpoint.begin_offset = self.log.min_offset
        self.checkpoint.queues_mark = mark_of(self.queues.values())
        self.checkpoint.note_times(newest_ms)
        self.checkpoint.save()

    def _look_as_found(self) -> None:
        """Take the mark of use back: nothing of a store that is refused was changed."""
        if self.was_clean:
            self.fs.remove(ABORT_FILE)

    def look(self) -> None:
        """Look whether the store's place is still there and can take messages. Outside the door."""
        if self._open:
            self.health.look(self.fs.look)

    def _accept(self, yes: bool) -> None:
        self._accepts = self._open and yes

    def _load_queues(self, mended: list[str] | None) -> bool:
        """Open every queue; returns whether all were as they should be."""
        intact, told = True, len(self.problems)
        kinds = (
            (ConsumeQueue, self._queue_file_size),
            (BatchConsumeQueue, self._batch_queue_file_size),
        )
        try:
            found = [
                kind(self.fs, *place, file_size)
                for kind, file_size in kinds
                for place in queue_folders(self.fs, kind.folder, mended)
            ]
        except StoreDamagedError:
            self._look_as_found()
            raise
        for queue in found:
            intact &= queue.load(mended)
            self.queues[queue.topic, queue.queue_id] = queue
            if queue.is_batch:
                self._batch_topics.add(queue.topic)
        return intact and len(self.problems) == told

    def close(self) -> None:
        """Make everything durable and leave the mark of a clean stop; idempotent.

        Raises ``StoreError`` if the last sync fails; the store then counts as not cleanly closed.
        """
        if not self._open:
            return
        self._open = self._accepts = False
        try:
            self.begin_flush().run()
            if not self._keeps_mark and (self.was_clean or self.health.problem is None):
                self._mark_queues()
                self.fs.remove(ABORT_FILE)
                self.fs.sync_dir("")
        finally:
            self._release()

    def keep_mark(self) -> None:
        """Let `close` leave the store as a crash would: not everything is as a clean stop has it.

        The next opening then believes bytes, and no check sums of what could not be written.
        """
        self._keeps_mark = True

    def _mark_queues(self) -> None:
        """Note what the queues hold, so that the next opening notices a file that is gone."""
        self.checkpoint.queues_mark = mark_of(self.queues.values())
        self.checkpoint.save()

    def abandon(self) -> None:
        """Let go of everything as a killed process would: no sync, and ``abort`` stays."""
        self._open = self._accepts = False
        self._release()

    def _release(self) -> None:
        if self.index is not None:
            self.index.close()
            self.index = None
        for queue in self.queues.values():
            queue.files.close()
        self.queues.clear()
        self._dirty.clear()
        if hasattr(self, "log"):
            self.log.files.close()
        self.fs.unlock(LOCK_FILE)

    @property
    def is_open(self) -> bool:
        """Whether messages can be read, and are accepted unless ``health`` has a problem."""
        return self._open

    def _read_settings(self) -> None:
        config = self.config
        self.body_size_max = config.int("maxMessageSize")
        size, size_max = config.int("maxTransferBytesOnMessageInMemory"), ANSWER_BYTES_MAX
        if size > size_max and self._limits.total_bytes != size_max:
            _LOG.warning(
                "maxTransferBytesOnMessageInMemory=%d counts as %d: no frame carries more",
                size,
                size_max,
            )
        count = config.int("maxTransferCountOnMessageInMemory")
        self._limits = PullLimits(min(count, COUNT_MAX), min(size, size_max))

    # --- put ----------------------------------------------------------------------------------

    def listen(self, topic: str, *listeners: Callable[[Arrivals], None]) -> None:
        """Tell these listeners what becomes visible in one topic, before those of `on_arrival`."""
        self._listeners.setdefault(topic, []).extend(listeners)

    def put(
        self, first: InnerMessage | MessageRun, *others: InnerMessage, now_ms: int | None = None
    ) -> PutResult:
        """Store a message, several, or a run: next to each other, all of them or none.

        They are visible when this returns. The clock is read once, for the hooks and for the
        records; whoever has asked the hooks already gives the ``now_ms`` that they were told. The
        result says why messages were refused; only a bug raises.
        """
        if now_ms is None:
            now_ms = self.clock.now_ms
        try:
            return self._put(first, others, now_ms)
        except QueueNameError as error:
            return PutResult(PutStatus.MESSAGE_ILLEGAL, remark=str(error))

    def _put(
        self, first: InnerMessage | MessageRun, others: Sequence[InnerMessage], now_ms: int
    ) -> PutResult:
        messages: Sequence[InnerMessage]
        if isinstance(first, MessageRun):
            if self._needs_no_look(first):
                with suppress(RecordError):  # the message that does not fit is found below
                    return self._write([(first, first.items, 1)], now_ms, here=first.is_admitted)
            if first.is_admitted:
                return _ONE_BY_ONE
            messages = first.messages()
        else:
            messages = (first, *others)
        parts: list[_Part] = []
        for msg in messages:
            refused = self._prepare(msg, now_ms)
            count = 1
            if refused is None and msg.sys_flag & INNER_BATCH:
                count = int(msg.properties[Prop.INNER_NUM])
                if len(messages) > 1:
                    remark = "an inner batch is put by itself"
                    refused = PutResult(PutStatus.MESSAGE_ILLEGAL, remark=remark)
            if refused is not None:
                return refused
            code = self._code(msg.topic, msg.properties, now_ms)
            stored = msg.properties_bytes or b""
            parts.append((msg, [(msg.flag, msg.born_timestamp, msg.body, stored, code)], count))
        return self._write(parts, now_ms)

    def _write(self, parts: Sequence[_Part], now_ms: int, *, here: bool = False) -> PutResult:
        """Write messages, in the next file of the log if this one has no room for all of them.

        ``here``: only in this one. So where the log goes on in the next file does not depend on
        which timers came together.
        """
        log, begin = self.log, self.log.files.max_offset
        records, added = self._encode(parts, begin, now_ms)
        size = len(records)
        if not log.fits(size):
            if here:
                return _ONE_BY_ONE
            if size > log.record_size_max:
                remark = (
                    f"the batch takes {size} bytes, a commit log file holds {log.record_size_max} "
                    "(setting mappedFileSizeCommitLog): send fewer messages at once"
                )
                return PutResult(PutStatus.MESSAGE_ILLEGAL, remark=remark)
            try:
                begin = log.roll()
            except StoreError as error:
                return PutResult(PutStatus.CREATE_MAPPED_FILE_FAILED, remark=str(error))
            records, added = self._encode(parts, begin, now_ms)
        problem = self._append(records, added, now_ms)
        if problem is not None:
            return PutResult(PutStatus.CREATE_MAPPED_FILE_FAILED, remark=problem)
        offsets: list[int] = []
        for _, arrivals, _ in added:
            offsets += map(_offset, arrivals.entries)
        return PutResult(_OK, begin, added[0][1].queue_offset, size, now_ms, None, offsets)

    def _encode(self, parts: Sequence[_Part], begin: int, now_ms: int) -> tuple[bytes, _Added]:
        """Encode messages that are to lie at ``begin``; each moves the end of its queue."""
        records: list[bytes] = []
        added: _Added = []
        ends: dict[ConsumeQueue, int] = {}
        for source, items, count in parts:
            topic, queue_id, flag = source.topic, source.queue_id, source.sys_flag
            queue, queue_offset = None, 0
            if flag & TRANSACTION_MASK not in NOT_QUEUED:
                queue = self.queues.get((topic, queue_id)) or self._queue(topic, queue_id)
                if flag & INNER_BATCH:
                    queue = self._batch_queue(topic, queue_id)
                queue_offset = ends.get(queue, queue.max_offset) if ends else queue.max_offset
                if len(parts) > 1:
                    ends[queue] = queue_offset + len(items)
            data, entries = encode_neighbours(
                items, source, queue_offset, begin, now_ms, self.store_host
            )
            begin += len(data)
            records.append(data)
            arrivals = Arrivals(topic, queue_id, queue_offset, entries, now_ms, source)
            added.append((queue, arrivals, count))
        return b"".join(records), added

    def _append(self, records: bytes, added: _Added, now_ms: int) -> str | None:
        """Add encoded records and their entries, all of them or none, then tell of them.

        They must fit in the current file of the log. Gives what the disk says when it refuses.
        """
        files, done = self.log.files, 0
        begin = files.max_offset
        try:
            files.append(records)
            for queue, arrivals, count in added:
                done += 1
                if queue is not None:
                    queue.append(arrivals.entries, now_ms, count)
        except StoreError as error:
            for queue, arrivals, _ in reversed(added[:done]):
                if queue is not None:
                    queue.take_back(arrivals.queue_offset)
            files.take_back(begin)
            return str(error)
        self._last_store_timestamp = now_ms
        for queue, arrivals, _ in added:
            if queue is not None:
                self._arrived(queue, arrivals)
        return None

    def _arrived(self, queue: ConsumeQueue, arrivals: Arrivals) -> None:
        """Note that a queue has more entries, which are not durable yet, and tell of them."""
        self._dirty.add(queue)
        topic = arrivals.topic
        if topic in self.delay_topics:
            self.delayed_puts += len(arrivals.entries)
        for listener in self._listeners.get(topic, ()):
            listener(arrivals)
        for listener in self.on_arrival:
            listener(arrivals)

    @property
    def takes_copies(self) -> bool:
        """Whether no put hook wants to see the messages that ``put_copies`` stores."""
        return self._accepts and self.hooks.ignore_copies

    def put_copies(self, copies: CopyBatch) -> bool:
        """Store copies of stored messages next to each other, all of them or none.

        False when none is stored, because the disk refuses or they do not fit in the current file
        of the log: ``put`` them one by one. Ask ``takes_copies`` first.
        """
        records, now_ms = b"".join(copies.parts), copies.store_timestamp
        added: _Added = [
            (queue, Arrivals(queue.topic, queue.queue_id, queue.max_offset, entries, now_ms), 1)
            for queue, entries in copies.entries.items()
        ]
        return self.log.fits(len(records)) and self._append(records, added, now_ms) is None

    def show(self, record: Parts) -> None:
        """Make a record visible that lies in the log already: another broker wrote it.

        Raises ``StoreError``; nobody is told of it then.
        """
        offset, size, topic, queue_id, queue_offset, flag, stored, properties = record
        self._last_store_timestamp = max(self._last_store_timestamp, stored)
        if flag & TRANSACTION_MASK in NOT_QUEUED:
            return
        queue, code = self._queue(topic, queue_id), self._stored_code(topic, properties, stored)
        if not queue.place(queue_offset, offset, size, code):
            return
        entry = (offset, size, code)
        source = MessageRun(
            topic, queue_id, [(0, stored, b"", properties, code)], flag, self.store_host
        )
        self._arrived(queue, Arrivals(topic, queue_id, queue_offset, [entry], stored, source))

    def _needs_no_look(self, run: MessageRun) -> bool:
        """Whether nothing about a run needs a look at its single messages."""
        return (
            self._accepts
            and not run.sys_flag & _NOT_ORDINARY
            and run.largest_body <= self.body_size_max
            and (
                run.is_admitted
                or (
                    len(run.topic) <= SHORT_TOPIC
                    and run.topic not in _DELAY_TOPICS
                    and self.hooks.ignore_plain
                )
            )
        )

    def _prepare(self, msg: InnerMessage, now_ms: int) -> PutResult | None:
        """Check, run the hooks, encode the properties; the refusal if there is one."""
        if not self._accepts:
            remark = self.health.problem or "the store is closed"
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, remark=remark)
        if msg.sys_flag & INNER_BATCH:
            queue = self.queues.get((msg.topic, msg.queue_id))
            refused = number_batch(msg, queue, is_taken=self.takes_batches(msg.topic))
            if refused is not None:
                return refused
        return (
            check_as_sent(msg, self.body_size_max)
            or self.hooks.before_put(msg, now_ms)
            or check_as_stored(msg, self.log.record_size_max)
        )

    def _code(self, topic: str, properties: dict[str, str], store_timestamp: int) -> int:
        """Give the tags code of an entry: of the delay levels' queues, the delivery time."""
        if topic == SCHEDULE_TOPIC:
            level = properties.get(Prop.DELAY, "")
            if level.isdecimal() and int(level) > 0:
                return self.level_deliver_ms(int(level), store_timestamp)
        return tags_code(properties.get("TAGS"))

    def _stored_code(self, topic: str, properties: bytes, store_timestamp: int) -> int:
        if topic != SCHEDULE_TOPIC and b"TAGS" not in properties:
            return 0  # nearly every message of a timer store; decoding them takes seconds
        return self._code(topic, decode_properties(properties), store_timestamp)

    # --- durability and age -------------------------------------------------------------------

    @property
    def flushed_offset(self) -> int:
        """Commit-log offset below which every message survives a power loss."""
        return self.log.files.flushed_offset

    @property
    def last_store_timestamp(self) -> int:
        """Store time of the newest message this store knows of; 0 for a new store."""
        return self._last_store_timestamp

    def let_go_before(self, offset: int) -> Callable[[], None] | None:
        """Forget the files of the commit log that end at or before an offset, never the last one.

        Gives the work that removes them, for the thread that flushes; None when there are none.
        """
        remove = self.log.files.let_go_before(offset)
        if remove is None:
            return None
        begin = self.log.min_offset

        def mark_and_remove() -> None:
            # The mark first: a log that begins behind it has lost files.
            # Another thread may have let go more meanwhile, when a store in memory was full.
            self.checkpoint.begin_offset = max(begin, self.checkpoint.begin_offset)
            try:
                self.checkpoint.save()
            except StoreError as error:
                if not error.disk_full:
                    _LOG.warning("old files stay until the store is opened again: %s", error)
                    return
                # Old files are the way to room: without any mark no opening misses them.
                self.fs.remove(CHECKPOINT_FILE)
                self.fs.sync_dir("")
                remove()
                self.checkpoint.save()
            else:
                remove()

        return mark_and_remove

    def begin_flush(self) -> StoreFlush:
        """Say what to sync so that everything stored up to now is durable.

        Call it inside the door and ``run`` the result outside of it, one at a time.
        """
        self.health.try_again()
        dirty, self._dirty = self._dirty, set()
        # A memory store is indexed in the background only once somebody has asked for a key.
        index = self.index
        if index is not None and not (self.fs.persistent or index.indexed_to > self.log.min_offset):
            index = None
        plans = [plan for queue in dirty if (plan := queue.files.plan_sync()) is not None]
        return StoreFlush(
            log_plan=self.log.files.plan_sync(),
            queue_plans=plans,
            index=index,
            index_to=self.log.max_offset,
            checkpoint=self.checkpoint,
            store_timestamp=self._last_store_timestamp,
            failed=lambda: self._dirty.update(dirty),
        )

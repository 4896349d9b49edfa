"""What the store keeps, whatever happens to it.

Invariants: every message whose record ends at or before the cut is there after a reload, with its
queue offset, and none behind it; queues have no holes; keys find exactly what the queues hold; a
reloaded store goes on as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from embedded_broker.store.mapped_file import MappedFileQueue
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.put_values import InnerMessage
from rocketmq_py.protocol.message_codec import decode_record
from tests.unit.embedded_broker.store.store_tools import delete_before, new_store

EVER = 1 << 62
LOG_FILE = 1024
SKIP = {"damagedRecords": "skip"}


_PLACES = [("T0", 0), ("T0", 1), ("T1", 0), ("T1", 1)]


class Stored(NamedTuple):
    topic: str
    queue_id: int
    queue_offset: int
    offset: int
    size: int
    body: bytes


def _message(number: int, topic: str, queue_id: int, length: int) -> InnerMessage:
    body = f"{number}:".encode() + bytes(number % 251 for _ in range(length))
    return InnerMessage(topic, queue_id, body, {"UNIQ_KEY": f"ID{number}", "KEYS": "ALL"})


def _check(store: MessageStore, model: Sequence[Stored]) -> None:
    queues: dict[tuple[str, int], list[Stored]] = {}
    for one in model:
        queues.setdefault((one.topic, one.queue_id), []).append(one)
    assert {key for key, queue in store.queues.items() if queue.max_offset} >= set(queues)
    for (topic, queue_id), queue in store.queues.items():
        expected = queues.get((topic, queue_id), [])
        assert queue.max_offset - queue.min_offset == len(expected)
        entries = list(queue.iterate(0))
        assert [number for number, _ in entries] == [one.queue_offset for one in expected]
        for (_, (offset, size, _)), one in zip(entries, expected, strict=True):
            record = store.record(offset)
            assert record is not None
            assert (offset, size, record.body) == (one.offset, one.size, one.body)
    for topic in {one.topic for one in model}:
        wanted = [one.offset for one in model if one.topic == topic][-64:]
        found = store.query(topic, "ALL", 64, 0, EVER)
        assert [decode_record(view).commit_log_offset for view in found] == wanted


def _put_many(store: MessageStore, lengths: Sequence[tuple[int, int]]) -> list[Stored]:
    stored = []
    for number, (length, place) in enumerate(lengths):
        topic, queue_id = f"T{place // 2}", place % 2
        msg = _message(number, topic, queue_id, length)
        put = store.put(msg)
        assert put.ok, put
        stored.append(
            Stored(topic, queue_id, put.queue_offset, put.commit_log_offset, put.size, msg.body)
        )
    return stored


def _cut(fs: MemoryFileSystem, at: int, junk: bytes, keep_later: bool) -> None:
    """Overwrite the commit log from an offset on: with a zero, junk, and zeros.

    The first byte is zero since the format has no check of topic and properties: bytes that were
    never written are told by being zero.
    """
    for name in fs.list("commitlog"):
        start = int(name)
        if start + LOG_FILE <= at:
            continue
        if start > at and not keep_later:
            fs.remove(f"commitlog/{name}")
            continue
        segment = fs.open_segment(f"commitlog/{name}", LOG_FILE)
        inside = max(at - start, 0)
        tail = (b"\0" + junk if start <= at else b"")[: LOG_FILE - inside]
        segment.write(inside, tail + bytes(LOG_FILE - inside - len(tail)))


lengths = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 3)), min_size=1, max_size=40)


@settings(max_examples=150, deadline=None)
@given(
    lengths=lengths,
    data=st.data(),
    junk=st.binary(max_size=60),
    keep_later=st.booleans(),
    clean=st.booleans(),
)
def test_killed_at_any_byte_everything_before_it_is_there_and_nothing_behind(
    lengths: list[tuple[int, int]],
    data: st.DataObject,
    junk: bytes,
    keep_later: bool,
    clean: bool,
) -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    model = _put_many(store, lengths)
    if data.draw(st.booleans(), label="queried before"):
        store.query("T0", "ALL", 64, 0, EVER)
    if data.draw(st.booleans(), label="flushed before"):
        store.begin_flush().run()
    end = store.log.max_offset
    (store.close if clean else store.abandon)()
    disk = fs.copy()
    at = data.draw(st.integers(0, end), label="cut at")
    _cut(disk, at, junk, keep_later)
    for path in disk.files():
        # The queues lost a random tail of their own: they were synced at other times.
        if path.startswith("consumequeue/") and not clean and data.draw(st.booleans()):
            segment = disk.open_segment(path, 100)
            keep = data.draw(st.integers(0, 100), label=f"kept of {path}")
            segment.write(keep, bytes(100 - keep))
    left = [one for one in model if one.offset + one.size <= at]
    # What was durable is gone: that is damage, and not the end of a process.
    store = new_store(disk, config=SKIP)
    _check(store, left)
    more = _put_many(store, [(10, 0), (10, 3), (250, 1)])
    _check(store, left + more)
    store.abandon()
    _check(new_store(disk, config=SKIP), left + more)


@settings(max_examples=100, deadline=None)
@given(lengths=lengths, data=st.data())
def test_a_store_whose_queues_and_index_were_thrown_away_is_the_same(
    lengths: list[tuple[int, int]], data: st.DataObject
) -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    model = _put_many(store, lengths)
    store.abandon()
    for path in fs.files():
        if not path.startswith("commitlog/") and data.draw(st.booleans()):
            fs.remove(path)
    fs.write_file("abort", b"1")
    _check(new_store(fs), model)


class StoreMachine(RuleBasedStateMachine):
    """Puts, batches, queries, flushes, stops, kills and deletions in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.fs = MemoryFileSystem()
        self.store = new_store(self.fs)
        self.model: list[Stored] = []
        self.number = 0

    @rule(length=st.integers(0, 400), place=st.integers(0, 3))
    def put(self, length: int, place: int) -> None:
        self._put([(length, place)])

    @rule(items=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 3)), max_size=4))
    def put_batch(self, items: list[tuple[int, int]]) -> None:
        self._put(items)

    def _put(self, items: list[tuple[int, int]]) -> None:
        msgs = []
        for length, place in items:
            self.number += 1
            msgs.append(_message(self.number, f"T{place // 2}", place % 2, length))
        if not msgs:
            return
        ends = {place: self.store.max_offset(*place) for place in _PLACES}
        put = self.store.put(*msgs)
        assert put.ok
        nexts = [*put.offsets[1:], put.commit_log_offset + put.size]
        for msg, offset, end in zip(msgs, put.offsets, nexts, strict=True):
            number = ends[msg.topic, msg.queue_id]
            ends[msg.topic, msg.queue_id] += 1
            self.model.append(
                Stored(msg.topic, msg.queue_id, number, offset, end - offset, msg.body)
            )

    @rule()
    def flush(self) -> None:
        self.store.begin_flush().run()
        assert self.store.flushed_offset == self.store.log.max_offset

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        (self.store.close if clean else self.store.abandon)()
        self.store = new_store(self.fs, load=False)
        assert self.store.load().clean == clean

    @precondition(lambda self: self.model)
    @rule(share=st.floats(0.5, 1), junk=st.binary(max_size=30))
    def kill_and_lose_the_end(self, share: float, junk: bytes) -> None:
        at = int(self.store.log.max_offset * share)
        at = max(at, self.store.log.min_offset, self.model[0].offset)
        self.store.abandon()
        _cut(self.fs, at, junk, keep_later=False)
        self.model = [one for one in self.model if one.offset + one.size <= at]
        self.store = new_store(self.fs, config=SKIP)

    @rule(share=st.floats(0, 1))
    def forget_old_messages(self, share: float) -> None:
        delete_before(self.store, int(self.store.log.max_offset * share))
        first = self.store.log.min_offset
        self.model = [one for one in self.model if one.offset >= first]

    @invariant()
    def queues_and_keys_agree_with_the_model(self) -> None:
        _check(self.store, self.model)


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)


@settings(max_examples=150, deadline=None)
@given(
    data=st.data(),
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=30),
)
def test_a_mapped_file_queue_is_one_long_string_of_bytes(
    data: st.DataObject, sizes: list[int]
) -> None:
    fs = MemoryFileSystem()
    queue = MappedFileQueue(fs, "log", 64)
    model = bytearray()
    for number, size in enumerate(sizes):
        if size > queue.room:
            model += bytes(queue.room)
            queue.skip_to_next_file()
        chunk = bytes([number % 255 + 1]) * size
        assert queue.append(chunk) == len(model)
        model += chunk
        what = data.draw(st.sampled_from(["go on", "go on", "truncate", "reopen"]))
        if what == "truncate":
            end = data.draw(st.integers(0, len(model)))
            queue.truncate_to(end)
            del model[end:]
        if what == "reopen":
            queue = MappedFileQueue(fs, "log", 64)
            queue.load()
            queue.truncate_to(len(model))
        assert queue.max_offset == len(model)
        read = b"".join(bytes(part) for _, part in queue.chunks(0, len(model), with_zeros=True))
        assert read == bytes(model)

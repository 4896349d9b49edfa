"""Copies of many due timers in one write, when no put hook looks at each message.

Answers: what the copies of plain timers are in bytes, the same that `release.py` makes one by one,
and what is noted when they are written. Nothing else is changed before that, so a refused write
finds everything as it was. Must not know: slots, recalled timers, failed puts.

Read on: `release.py` for what a copy says and for everything that is not plain, `sweep.py` for many
slots at once, `plain_timer.py` for what is plain.
"""

from heapq import heappop, heappush
from typing import Final

from embedded_broker.clocks.timeline import Budget
from embedded_broker.store.consume_queue import ConsumeQueue
from embedded_broker.store.copies import CopyBatch, stored_parts
from embedded_broker.timer.wheel.due_heap import NOT_LATE, Entry, EntryKind
from embedded_broker.timer.wheel.plain_timer import (
    NEVER_ROLLED,
    ROLL_NOTE,
    Destination,
    Destinations,
    plain_due_ms,
)
from embedded_broker.timer.wheel.state import TIMER_TOPIC_FIELD, TimerState
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop, decode_properties
from rocketmq_py.protocol.tag_hash import tags_code

BYTES_MOST: Final = 256 * 1024
_TIMERS_MOST: Final = 32
_TIMER_QUEUE: Final = (TIMER_TOPIC, 0)
_TAGS: Final = b"TAGS\x01"


class Batch:
    """One write's worth of due timers; `take_due`, then `write`, then `keep`.

    Taken are timers that no mark may hit: releases, and hops after the first, whose properties our
    own roll wrote. One whose time lies within `reach_ms` is carried and does not hop.
    """

    timers_most = _TIMERS_MOST

    def __init__(self, state: TimerState, destinations: Destinations, reach_ms: int = 0) -> None:
        store = state.store
        self._state = state
        self._destinations = destinations
        self._reach_ms = reach_ms
        self._heap = state.due_heap.heap
        self._log, self._size_max = store.log, store.body_size_max
        self._counts: list[tuple[str, int, int]] = []
        self._bytes_end = store.log.max_offset + BYTES_MOST
        self.copies = CopyBatch(
            store.log.max_offset,
            store_host=store.store_host,
            store_timestamp=store.clock.now_ms,
        )
        self.gone: list[Entry] = []
        """What was taken out of the due heap."""
        self.rolled = 0
        """How many of them are hops."""

    def take_due(self, limit_ms: int, now_ms: int, budget: Budget | None = None) -> bool:
        """Take what is due up to `limit_ms`; False when something of it is left."""
        heap, gone, copies = self._heap, self.gone, self.copies
        topics: dict[str, int] = {}
        is_done = True
        while heap and heap[0][0] <= limit_ms:
            topic = None
            if len(gone) < self.timers_most and copies.end < self._bytes_end:
                topic = self._add(heap[0], now_ms)
            if topic is None:
                is_done = False
                break
            if topic:
                topics[topic] = topics.get(topic, 0) + 1
            gone.append(heappop(heap))
            if budget is not None and budget.exhausted():
                is_done = False
                break
        self._counts += [(topic, number, now_ms) for topic, number in topics.items()]
        return is_done

    def write(self) -> bool:
        """Store the copies; False when that is refused: then everything waits again."""
        if not self.gone or self._state.store.put_copies(self.copies):
            return True
        self.undo()
        return False

    def keep(self) -> None:
        """Note that what was taken is done."""
        self._state.due_heap.finish(*self.gone)
        for topic, number, at_ms in self._counts:
            self._state.metrics.add(topic, -number, at_ms, changes=number)

    def undo(self) -> None:
        """Let the timers wait again."""
        for entry in self.gone:
            heappush(self._heap, entry)

    def _add(self, entry: Entry, now_ms: int) -> str | None:
        """Add the copy of a timer: gives its topic, "" for a hop, None if it cannot be added.

        The counts stay at a hop: one timer leaves the wheel and the same one comes back.
        """
        _, _, offset, size, out_ms, slot_ms, enqueue_ms, kind, queue_offset = entry
        if kind > EntryKind.ROLL or queue_offset != NOT_LATE:
            return None
        state = self._state
        if kind != EntryKind.ROLL and (state.due_heap.marks(out_ms) or slot_ms > out_ms):
            return None
        # As `_parts`, without the call: this is done for every timer of a slot.
        parts = stored_parts(self._log, offset, size, TIMER_TOPIC_FIELD)
        if parts is None or size > self._size_max:
            return None
        source, before, stored_ms = parts
        if kind == EntryKind.ROLL:
            properties = self._hop_properties(before, stored_ms, entry, now_ms)
            queue = state.store.queues.get(_TIMER_QUEUE)
            if properties is None or queue is None:
                return None
            is_added = self.copies.add(
                source, properties, queue, TIMER_TOPIC_FIELD, _code_of(before)
            )
            self.rolled += is_added
            return "" if is_added else None
        if (
            before[-1:] != b"\x02"
            # What a release replaces (a rolled copy has it), and a delay level.
            or b"QUEUE_MS\x01" in before
            or b"TIMER_SRC_OFFSET\x01" in before
            or b"DELAY\x01" in before
        ):
            return None
        to = self._destinations.at(before[before.rfind(b"\x02REAL_TOPIC\x01") :])
        if to is None:
            return None
        topic, queue_id, _, _ = to
        queue = state.store.queues.get((topic, queue_id)) or state.store.consume_queue(
            topic, queue_id, create=True
        )
        if queue is None or not self._copy(source, before, to, queue, offset, enqueue_ms, now_ms):
            return None
        return topic

    def _copy(
        self,
        source: memoryview,
        before: bytes,
        to: Destination,
        queue: ConsumeQueue,
        offset: int,
        enqueue_ms: int,
        now_ms: int,
    ) -> bool:
        """Add a released copy as `delivery.released_copy` makes it; False if it cannot be."""
        properties = (
            b"%bTIMER_ENQUEUE_MS\x01%d\x02TIMER_DEQUEUE_MS\x01%d\x02TIMER_SRC_OFFSET\x01%d\x02"
            % (before, enqueue_ms, now_ms, offset)
        )
        return self.copies.add(source, properties, queue, to.field, _code_of(before))

    def _hop_properties(
        self, before: bytes, stored_ms: int, entry: Entry, now_ms: int
    ) -> bytes | None:
        """Give the properties of a timer that hops on; None if it is to be looked at by itself."""
        _, root, offset, _, out_ms, _, enqueue_ms, _, _ = entry
        state = self._state
        plain = self._destinations.read(before, stored_ms, offset)
        if plain is None or plain[4] == NEVER_ROLLED or plain[1] != out_ms:
            return None
        if plain_due_ms(plain, state.precision_ms, state.release_precision_ms) <= self._reach_ms:
            return None  # it is carried
        return (
            b"%b\x02TIMER_DUE_MS\x01%d\x02TIMER_ROLL_TIMES\x01%d\x02TIMER_ENQUEUE_MS\x01%d\x02"
            b"TIMER_DEQUEUE_MS\x01%d\x02TIMER_SRC_OFFSET\x01%d\x02TIMER_ROOT_OFFSET\x01%d\x02"
        ) % (
            before[: before.find(ROLL_NOTE)],
            plain_due_ms(plain, state.precision_ms, 1),
            plain[4] + 1,
            enqueue_ms,
            now_ms,
            offset,
            root,
        )

    def _parts(self, offset: int, size: int) -> tuple[memoryview, bytes, int] | None:
        """Read a message of the timer topic, its properties as they are stored, its store time."""
        if size > self._size_max:
            return None
        return stored_parts(self._log, offset, size, TIMER_TOPIC_FIELD)


def _code_of(properties: bytes) -> int:
    """Give the tags code of a message whose properties these are."""
    return tags_code(decode_properties(properties).get(Prop.TAGS)) if _TAGS in properties else 0

"""Counts of a sliced store's timers by topic, found out from its logs.

Answers: the counts by topic after a stop that did not save them exactly. A recalled timer whose
mark also waits counts no more, as while the broker ran. And how far ahead timers are, and where
the engine stands. Must not know: who asks, when. Reads every record of every slice that is not
over, two or three microseconds each. Slices that are over are removed by the flush, so there are
no files to clean.

Read on: `../upkeep.py` for when a revision comes, `../metrics.py` for where the counts are kept,
`engine.py` (`load`).
"""

from collections import Counter
from collections.abc import Generator, Iterator

from embedded_broker.timer.request import delete_key
from embedded_broker.timer.slices.marks import MarksByKey, MarkTable
from embedded_broker.timer.slices.record import SECOND_MS, Glance, glance
from embedded_broker.timer.slices.state import SliceState
from embedded_broker.timer.upkeep import Upkeep
from rocketmq_py.protocol.properties import Prop


def recount(state: SliceState) -> dict[str, int]:
    """Count the timers in the logs, the late ones and those still to be sent on their way."""
    return dict(Counter(seen.topic for seen in _counted(state) if seen is not None))


def _counted(state: SliceState) -> Iterator[Glance | None]:
    """Give every timer that counts; first all marks are read.

    It may be interrupted at each step, but nothing may change meanwhile. None: no timer here.
    """
    marks = MarkTable()
    for seen in _waiting(state):
        if seen.is_mark:
            marks.add(seen)
        yield None
    for seen in _waiting(state):
        yield None if seen.is_mark or _is_hit(seen, marks.at(seen.second)) else seen


def _waiting(state: SliceState) -> Iterator[Glance]:
    """Give everything that waits; what is done is left out."""
    for number in sorted(state.log.slices):
        for _, record in state.log.scan(number):
            seen = glance(record)
            if (
                seen is not None
                and seen.second >= state.current_second
                and seen.source not in state.done
            ):
                yield seen
    for one in sorted(state.late.queue_offsets()):
        yield from _of_queue(state, one)
    for queue_offset in range(state.queue_offset, state.queue_end):
        yield from _of_queue(state, queue_offset)


def _of_queue(state: SliceState, queue_offset: int) -> Iterator[Glance]:
    entry = state.entry(queue_offset)
    if entry is None or entry[0] in state.already_logged or entry[0] in state.done:
        return
    seen = state.glance_at(queue_offset)
    if seen is not None and seen.request() is not None:
        yield seen


def _is_hit(seen: Glance, marks: MarksByKey) -> bool:
    """Say whether a mark that came later took the timer out of the count."""
    if not marks:
        return False
    key = delete_key(seen.topic, seen.decoded().get(Prop.UNIQ_KEY, ""))
    return any(mark.root > seen.source and mark.names(seen.source) for mark in marks.get(key, ()))


def distances(state: SliceState, now_ms: int) -> Iterator[tuple[int, int] | None]:
    """Give how far ahead each timer is; None where it may be interrupted.

    Unlike the wheel's it reads every record: the slices do not know how many each second has.
    """
    now_ms = now_ms // SECOND_MS * SECOND_MS
    for seen in _counted(state):
        if seen is not None:
            yield (seen.second - 1) * SECOND_MS - now_ms, 1
        yield None


class SliceUpkeep(Upkeep[SliceState]):
    """The upkeep of one sliced store."""

    def _version(self) -> tuple[int, ...]:
        return self._state.metrics.counter, self._state.changes

    def _count(self) -> Generator[None, None, dict[str, int]]:
        counts: Counter[str] = Counter()
        for seen in _counted(self._state):
            if seen is not None:
                counts[seen.topic] += 1
            yield
        return counts

    def _position(self, now_ms: int) -> str:
        state = self._state
        behind_ms = max(0, now_ms - state.current_second * SECOND_MS)
        return (
            f"sliced timer progress: {behind_ms} ms behind, queue offset {state.queue_offset}, "
            f"{len(state.log.slices)} slices, {state.metrics.total} pending, "
            f"{state.lost.total()} dropped"
        )

"""The checks that look at everything: made after each crash and at the end of a run.

Answers: do commit log, queues, counts, wheel and timer log say the same as the truth, and does a
consumer that pulls see it. Looks inside the engine, but only to compare. Must not know: how a
broken state came about.

Read on: `truth.py` for what is expected.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from embedded_broker.timer.listing import Wanted
from embedded_broker.timer.slices.engine import SlicedTimerStore
from embedded_broker.timer.slices.record import glance, source_of
from embedded_broker.timer.slices.state import SliceState
from embedded_broker.timer.wheel.timer_log import MAGIC_DELETE
from rocketmq_py.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC
from tests.sim.life import Life, Turns
from tests.sim.peer import Peer
from tests.sim.truth import Event, Truth, Violation, digest_of


def check_counts(life: Life, truth: Truth) -> None:
    """The counts of waiting timers, in all and by topic."""
    expected = Counter(timer.request.topic for timer in truth.waiting())
    truth.checks["counts equal the truth"] += 1
    total = life.timers.count()
    found = {topic: life.timers.count(topic) for topic in life.timers.metrics.topics}
    if total != expected.total() or any(
        number != expected[topic] for topic, number in found.items()
    ):
        raise Violation(f"counted are {found}, {total} in all; waiting are {dict(expected)}")


def check_listing(life: Life, truth: Truth, page: int) -> None:
    """The listing names every waiting timer once, in due order, whatever the size of a page."""
    truth.checks["listing equals the truth"] += 1
    expected = sorted(
        (truth.released_by_ms(timer), timer.root, timer.request.key) for timer in truth.waiting()
    )
    before = life.store.log.max_offset, life.timers.count()
    found: list[tuple[int, int, str]] = []
    wanted = Wanted(limit=page)
    while True:
        walk = life.timers.pending(wanted)
        while not walk.done:
            walk.step(Turns(3))
        if not walk.found:
            break
        found += [(one.due_ms, one.root, one.msg_id) for one in walk.found]
        wanted = Wanted(limit=page, after=walk.found[-1].place)
    if found != expected:
        raise Violation(f"listed are {found}; waiting are {expected}")
    if before != (life.store.log.max_offset, life.timers.count()):
        raise Violation("listing the timers changed something")


def check_log_and_queues(life: Life, truth: Truth) -> None:
    """Every record is as it was, every queue names exactly its records."""
    store = life.store
    queues: defaultdict[tuple[str, int], list[Event]] = defaultdict(list)
    for event in truth.events:
        if digest_of(store, event.offset, event.size) != event.digest:
            raise Violation(f"the record at {event.offset} is not what it was: {event}")
        queues[event.topic, event.queue_id].append(event)
    for place, queue in store.queues.items():
        events = queues.pop(place, [])
        found = [(number, entry[0], entry[1]) for number, entry in queue.iterate(0)]
        if found != [(one.queue_offset, one.offset, one.size) for one in events]:
            raise Violation(f"queue {place} holds {found}, the log {events}")
    if queues:
        raise Violation(f"queues are missing: {sorted(queues)}")
    truth.checks["log and queues agree"] += 1


def check_consumer_view(peer: Peer, truth: Truth) -> None:
    """A consumer that pulls every queue from its begin sees every record once, in order."""
    queues: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for event in truth.events:
        if event.topic not in {truth.timer_topic, SCHEDULE_TOPIC}:
            queues[event.topic, event.queue_id].append(event.offset)
    for (topic, queue_id), offsets in queues.items():
        pulled = [record.commit_log_offset for record in peer.pull_all(topic, queue_id)]
        if pulled != offsets:
            raise Violation(f"pulled from {topic}, {queue_id}: {pulled}, the log holds {offsets}")
    truth.checks["consumers see the log"] += 1


def check_store_walk(life: Life, truth: Truth) -> None:
    """Each waiting timer is found exactly once: in memory, in the wheel, or still to enter it."""
    found = _walk(life)
    for timer in truth.waiting():
        number = found.pop(timer.copies[-1], 0)
        if number != 1:
            raise Violation(
                f"{timer.request.key}, due {timer.due_ms}, copies at {timer.copies}, is found "
                f"{number} times"
            )
    passed = {at for timer in truth.timers.values() for at in timer.copies[:-1]}
    passed |= {one.copies[-1] for one in truth.timers.values() if one.released_at is not None}
    twice = passed & found.keys()
    if twice:
        raise Violation(f"copies that are done wait again: {sorted(twice)}")
    truth.checks["store walk"] += 1


def _walk(life: Life) -> Counter[int]:
    """Count by commit-log offset what the engine would act upon."""
    if isinstance(life.timers, SlicedTimerStore):
        return _walk_slices(life.timers._state)
    state = life.timers._state
    due_heap = state.due_heap
    found = Counter(entry.offset_py for entry in due_heap)
    for slot in state.wheel.used_slots():
        if slot.time_ms < state.curr_read_ms or slot.time_ms in due_heap.loaded:
            continue
        number = 0
        for _, record in state.log.chain(slot.last_pos, slot.time_ms):
            is_mark = bool(record.magic & MAGIC_DELETE)
            number += -1 if is_mark else 1
            if not is_mark and record.offset_py not in due_heap.done:
                found[record.offset_py] += 1
        if number != slot.num:
            raise Violation(f"slot {slot.time_ms} says {slot.num} and holds {number}")
    queue = life.store.consume_queue(TIMER_TOPIC, 0)
    for _, (offset, _, _) in () if queue is None else queue.iterate(state.curr_queue_offset):
        if offset not in state.already_logged and offset not in due_heap.done:
            found[offset] += 1
    return found


def _walk_slices(state: SliceState) -> Counter[int]:
    """The same for the sliced engine: late timers, seconds in memory, logs, the inbound queue."""
    found = Counter(entry.source for entry in state.late)
    for number in state.log.slices:
        wheel = state.wheel_of(number)
        start = 0 if wheel is None else wheel.loaded_to
        end = None if wheel is None else wheel.load_to
        for _, record in state.log.scan(number, start, end):
            seen = glance(record)
            assert seen is not None
            if seen.second >= state.current_second and not seen.is_mark:
                found[seen.source] += seen.source not in state.done
        cells = [] if wheel is None else [wheel.cell(second) for second in wheel.seconds()]
        for cell in cells:
            for position in [] if cell is None else cell.left():
                view = state.log.read(number, position)
                assert view is not None
                found[source_of(view)] += source_of(view) not in state.done
    queue = state.queue
    for _, (offset, _, _) in () if queue is None else queue.iterate(state.queue_offset):
        found[offset] += offset not in state.already_logged and offset not in state.done
    return +found

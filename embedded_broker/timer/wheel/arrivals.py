"""How a message of the timer topic that became visible enters the wheel.

Answers: what happens at once when a timer or a mark is stored, and what waits in the queue. While
nothing is behind, it enters at once; else it lies in the timer topic and a step takes it in its
turn (`engine.py`). Must not know: releases, requests, connections.

Read on: `enqueue.py` for what entering is, `timer/run.py` for timers that come together.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Final

from embedded_broker.clocks.timeline import Budget
from embedded_broker.errors import StoreError
from embedded_broker.store.inner import InnerMessage
from embedded_broker.store.run import Arrival, Arrivals
from embedded_broker.timer.gates import Gates
from embedded_broker.timer.recall import Mark, UnsettledMarks
from embedded_broker.timer.request import TimerRequest, parse_request, root_offset, victim_root
from embedded_broker.timer.run import TimerRun
from embedded_broker.timer.wheel.change import find_copies, keep_passed_marks, marks_of
from embedded_broker.timer.wheel.enqueue import (
    Queued,
    TimerEnqueueGetService,
    TimerEnqueuePutService,
)
from embedded_broker.timer.wheel.pointers import Pointers
from embedded_broker.timer.wheel.state import TimerState
from embedded_broker.timer.wheel.timer_log import MAGIC_DELETE
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop

__all__ = ["WheelArrivals"]

_LOG = logging.getLogger(__name__)

_CHECK_BUDGET_EVERY: Final = 32


class WheelArrivals:
    """Takes note of arrivals for one wheel."""

    def __init__(
        self,
        state: TimerState,
        gates: Gates,
        pointers: Pointers,
        enqueue_get: TimerEnqueueGetService,
        enqueue_put: TimerEnqueuePutService,
    ) -> None:
        self._state = state
        self._gates = gates
        self._pointers = pointers
        self._enqueue_get = enqueue_get
        self._enqueue_put = enqueue_put
        self.unsettled = UnsettledMarks(state.metrics, partial(find_copies, state))
        """Marks whose victims are still in the counts."""
        self._noted_to = 0
        """While messages are kept out of the wheel: up to here, marks in the queue work already."""
        self.latest_ms = 0
        """The latest store time of what may still wait in the queue."""
        self.is_open = False
        """Whether arrivals are taken note of."""
        self.is_firing = False
        """Whether a step runs: what arrives meanwhile waits for its turn."""

    def note_time(self, store_ms: int) -> None:
        """Take note of a message that was stored at this time and waits in the queue."""
        self.latest_ms = max(self.latest_ms, store_ms)

    def on_arrival(self, arrivals: Arrivals) -> None:
        """Take note of what became visible; messages of the timer topic enter the wheel."""
        if arrivals.topic != TIMER_TOPIC or arrivals.queue_id != 0 or not self.is_open:
            return
        source = arrivals.source
        if isinstance(source, TimerRun):
            self._take_run(arrivals, source)
        elif isinstance(source, InnerMessage):
            self._take_one(arrivals.at(0))
        elif source is not None:  # copies of ours are hops: a step reads them from the queue
            for arrival in arrivals.each():
                self._take_one(arrival)

    def _take_one(self, arrival: Arrival) -> None:
        """Take note of a message that may be anything: a timer, a copy of one, a mark."""
        state = self._state
        properties = arrival.properties
        request = parse_request(properties)
        if request is None:
            return  # EnqueueGet counts it when it comes there
        offset = arrival.commit_log_offset
        if request.deletes is None:
            state.metrics.add(request.real_topic, 1, arrival.store_timestamp)
        elif Prop.TIMER_SRC_OFFSET not in properties:
            self.unsettled.add(offset, request, victim_root(properties))
        self._take(arrival, request)

    def _take_run(self, arrivals: Arrivals, run: TimerRun) -> None:
        """Take note of timers that became visible together: as `_take_one` of each."""
        state, now_ms, count = self._state, arrivals.store_timestamp, len(arrivals.entries)
        for topic in set(run.real_topics):
            number = run.real_topics.count(topic)
            state.metrics.add(topic, number, now_ms, changes=number)
        done = 0
        try:
            while done < count:
                if (
                    state.role.releases
                    and not self.is_firing
                    and arrivals.queue_offset + done == state.curr_queue_offset
                    and not self._gates.entry_closed
                    and self._pointers.keep_up(now_ms)
                ):
                    taken = self._enqueue_put.put_run(run, arrivals.entries, done)
                    state.curr_queue_offset += taken
                    done += taken
                if done < count:
                    arrival = arrivals.at(done)
                    request = parse_request(arrival.properties)
                    if request is not None:
                        self._take(arrival, request)
                    done += 1
        except StoreError as error:
            # They are stored and lie in the timer topic: they enter the wheel when it is possible.
            self.note_time(now_ms)
            _LOG.warning("%d timers wait for the timer log: %s", count - done, error)

    def _take(self, arrival: Arrival, request: TimerRequest) -> None:
        """Let a message that arrived and was counted enter the wheel, if nothing is behind."""
        properties, offset = arrival.properties, arrival.commit_log_offset
        try:
            if self._enter(arrival, request):
                return
        except StoreError as error:
            # It is stored and lies in the timer topic: it enters the wheel when that is possible.
            _LOG.warning("a timer waits for the timer log: %s", error)
        self.note_time(arrival.store_timestamp)
        self._mark_at_once(request, properties, offset, arrival.queue_offset)
        if self._gates.entry_stopped and arrival.queue_offset == max(
            self._noted_to, self._state.curr_queue_offset
        ):
            self._keep_marks_of(request, properties, arrival.queue_offset)
            self._noted_to = arrival.queue_offset + 1

    def _enter(self, arrival: Arrival, request: TimerRequest) -> bool:
        """Enter a message into the wheel at once; False when that is not its turn yet."""
        state, properties, offset = self._state, arrival.properties, arrival.commit_log_offset
        if (
            self.is_firing
            or arrival.queue_offset != state.curr_queue_offset
            or self._gates.entry_closed
            or not self._pointers.keep_up(arrival.store_timestamp)
        ):
            return False
        is_usual = (
            request.deletes is None
            and Prop.TIMER_DUE_MS not in properties
            and Prop.TIMER_DEL_OFFSET not in properties
        )
        if not is_usual or not self._enqueue_put.put_usual(
            request.out_ms, offset, arrival.size, request.real_topic
        ):
            queued = Queued(
                arrival.queue_offset,
                offset,
                arrival.size,
                arrival.store_timestamp,
                properties,
                request,
            )
            if self._enqueue_put.put(queued, arrival.store_timestamp) is not None:
                return False
        state.curr_queue_offset += 1
        return True

    def _mark_at_once(
        self,
        request: TimerRequest,
        properties: Mapping[str, str],
        offset: int,
        queue_offset: int,
    ) -> None:
        """Let a mark that has not entered the wheel yet work already, if its victims may be due.

        The queue before it is read first, and with it the time may go on to the latest in there.
        While messages are kept out of the wheel, victims that are in it go on becoming due.
        """
        # A moved copy may be due in the slot before its own.
        first_ms = request.out_ms - self._state.precision_ms
        if request.deletes is not None and (first_ms < self.latest_ms or self._gates.entry_stopped):
            mark = Mark(root_offset(properties, offset), victim_root(properties))
            self._state.due_heap.add_late_mark(request.out_ms, request.deletes, mark, queue_offset)

    def note_passed_marks(self) -> None:
        """Let marks whose slots are behind work on victims that are still ahead.

        Such a victim was put late, by a roll; the marks were in memory then, and a stop parted
        the two. It waits in the queue, or has entered a later slot than its own.
        """
        state = self._state
        # One end for all: marks of a slot are forgotten together, at the first of their ends.
        end_slot_ms = state.mark_end_ms(state.floor(self.latest_ms) + state.precision_ms)
        for _, (offset, size, _) in self._enqueue_get.queue.iterate(state.curr_queue_offset):
            if offset not in state.already_logged and offset not in state.due_heap.done:
                self._keep_passed(offset, size, end_slot_ms, rolled=False)
        if state.curr_read_ms > state.displaced_until_ms:
            return
        for slot in state.wheel.used_slots():
            if not state.curr_read_ms <= slot.time_ms <= state.displaced_until_ms:
                continue
            for _, record in state.log.chain(slot.last_pos, slot.time_ms):
                is_displaced = record.delay_ms == 0 and not record.magic & MAGIC_DELETE
                if is_displaced and record.offset_py not in state.due_heap.done:
                    self._keep_passed(record.offset_py, record.size_py, end_slot_ms, rolled=True)

    def _keep_passed(self, offset: int, size: int, end_slot_ms: int, *, rolled: bool) -> None:
        """Keep the marks of a timer whose slot is behind; `rolled`: only if it is a rolled copy."""
        state = self._state
        head = state.timer_head(offset, size)
        request = None if head is None else parse_request(head[0])
        if head is None or request is None or request.out_ms >= state.curr_read_ms:
            return
        if request.deletes is None and (not rolled or Prop.TIMER_SRC_OFFSET in head[0]):
            keep_passed_marks(state, head[0], request, end_slot_ms=end_slot_ms)

    def note_kept_out(self, budget: Budget) -> bool:
        """Let all marks work that a hold keeps out of the wheel; False when time ran out first.

        Mostly they do since they arrived; others came before the hold, or lay in the store.
        """
        state, queue = self._state, self._enqueue_get.queue
        self._noted_to = max(self._noted_to, state.curr_queue_offset)
        if self._noted_to >= queue.max_offset:
            return True
        for number, (offset, size, _) in queue.iterate(self._noted_to):
            head = state.timer_head(offset, size)
            request = None if head is None else parse_request(head[0])
            if head is not None and request is not None:
                self._mark_at_once(request, head[0], offset, number)
                self._keep_marks_of(request, head[0], number)
            self._noted_to = number + 1
            if not self._noted_to % _CHECK_BUDGET_EVERY and budget.exhausted():
                return self._noted_to >= queue.max_offset
        return True

    def _keep_marks_of(
        self, request: TimerRequest, properties: Mapping[str, str], queue_offset: int
    ) -> None:
        """Let the marks of a hop that is kept out work until it enters.

        They may be in the wheel already, and the read pointer goes past them meanwhile.
        """
        if request.deletes is not None or Prop.TIMER_SRC_OFFSET not in properties:
            return
        due_heap = self._state.due_heap
        for found, mark in marks_of(self._state, properties.get(Prop.UNIQ_KEY, "")):
            if found.out_ms == request.out_ms and found.deletes is not None:
                due_heap.add_late_mark(found.out_ms, found.deletes, mark, queue_offset)
                due_heap.kept_for[queue_offset] = mark.root

    def note_unread_marks(self) -> None:
        """Let the marks that wait in the queue work on what is released before they are read."""
        state = self._state
        for number, (offset, size, _) in self._enqueue_get.queue.iterate(state.curr_queue_offset):
            head = state.timer_head(offset, size)
            request = None if head is None else parse_request(head[0])
            if head is not None and request is not None:
                self._mark_at_once(request, head[0], offset, number)

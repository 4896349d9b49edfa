"""Arrivals: how a message of the timer topic that became visible enters the wheel.

Answers: what happens at once when a timer or a mark is stored, and what waits in the queue. While
nothing is behind, it enters at once; else it lies in the timer topic and a step takes it in its
turn (`engine.py`). Must not know: releases, requests, connections.

Read on: `enqueue.py` for what entering is, `timer/timer_run.py` for timers that come together.
"""

from functools import partial
from typing import Final

from embedded_broker.clocks.timeline import Budget
from embedded_broker.errors import StoreError
from embedded_broker.store.message_run import Arrivals
from embedded_broker.store.put_values import InnerMessage
from embedded_broker.timer.gates import Gates
from embedded_broker.timer.recall import UnsettledMarks
from embedded_broker.timer.request import TimerMessage, TimerRequest, parse_request, victim_root
from embedded_broker.timer.timer_run import TimerRun
from embedded_broker.timer.wheel.change import find_copies, keep_passed_marks, marks_in_slot
from embedded_broker.timer.wheel.enqueue import TimerEnqueuePutService
from embedded_broker.timer.wheel.pointers import Pointers
from embedded_broker.timer.wheel.state import TimerState
from embedded_broker.timer.wheel.timer_log import MAGIC_DELETE
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop

_LOG = get_logger(__name__)

_CHECK_BUDGET_EVERY: Final = 32


class WheelArrivals:
    """Takes note of arrivals for one wheel."""

    def __init__(
        self,
        state: TimerState,
        gates: Gates,
        pointers: Pointers,
        enqueue_put: TimerEnqueuePutService,
    ) -> None:
        self._state = state
        self._gates = gates
        self._pointers = pointers
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
        self._state.alarm.ring()

    def on_arrival(self, arrivals: Arrivals) -> None:
        """Take note of what became visible; messages of the timer topic enter the wheel."""
        if arrivals.topic != TIMER_TOPIC or arrivals.queue_id != 0 or not self.is_open:
            return
        source = arrivals.source
        if isinstance(source, TimerRun):
            self._take_run(arrivals, source)
        elif isinstance(source, InnerMessage):
            self._count_and_take(arrivals, 0, source.properties)
        elif source is not None:
            for index in range(len(arrivals.entries)):
                self._count_and_take(arrivals, index, arrivals.properties_at(index))
        else:  # copies of ours are hops: a step reads them from the queue
            self._state.alarm.ring()

    def _take_run(self, arrivals: Arrivals, run: TimerRun) -> None:
        """Take note of timers that became visible together."""
        state, now_ms, count = self._state, arrivals.store_timestamp, len(arrivals.entries)
        for topic in set(run.real_topics):
            number = run.real_topics.count(topic)
            state.metrics.add(topic, number, now_ms, changes=number)
        done = 0
        try:
            while done < count:
                if state.role.releases and self._may_enter(arrivals.queue_offset + done, now_ms):
                    taken = self._enqueue_put.put_run(run, arrivals.entries, done)
                    if taken:
                        # A slot is loaded when the one before it begins.
                        slot_ms = min(run.out_ms[done : done + taken])
                        state.alarm.ring(slot_ms - state.precision_ms)
                    state.curr_queue_offset += taken
                    done += taken
                if done < count:
                    properties = arrivals.properties_at(done)
                    request = parse_request(properties)
                    if request is None:
                        state.alarm.ring()
                    else:
                        self._take(arrivals, done, properties, request)
                    done += 1
        except StoreError as error:
            # They are stored and lie in the timer topic: they enter the wheel when it is possible.
            self.note_time(now_ms)
            _LOG.warning("%d timers wait for the timer log: %s", count - done, error)

    def _may_enter(self, queue_offset: int, now_ms: int) -> bool:
        """Say whether it is a message's turn to enter the wheel as it arrives."""
        return (
            queue_offset == self._state.curr_queue_offset
            and not self.is_firing
            and not self._gates.entry_stopped
            and self._state.role.may_enqueue(queue_offset)
            and self._pointers.keep_up(now_ms)
        )

    def _count_and_take(self, arrivals: Arrivals, index: int, properties: dict[str, str]) -> None:
        request = parse_request(properties)
        if request is None:
            self._state.alarm.ring()
            return  # EnqueueGet counts it when it comes there
        if request.deletes is None:
            self._state.metrics.add(request.real_topic, 1, arrivals.store_timestamp)
        elif Prop.TIMER_SRC_OFFSET not in properties:
            self.unsettled.add(arrivals.entries[index][0], request, victim_root(properties))
        self._take(arrivals, index, properties, request)

    def _take(
        self, arrivals: Arrivals, index: int, properties: dict[str, str], request: TimerRequest
    ) -> None:
        """Let a message that arrived and was counted enter the wheel, if nothing is behind."""
        state, put = self._state, self._enqueue_put
        offset, size, _ = arrivals.entries[index]
        queue_offset, store_ms = arrivals.queue_offset + index, arrivals.store_timestamp
        is_usual = (
            request.deletes is None
            and Prop.TIMER_DUE_MS not in properties
            and Prop.TIMER_DEL_OFFSET not in properties
        )
        try:
            if self._may_enter(queue_offset, store_ms):
                if is_usual and put.put_usual(request.out_ms, offset, size, request.real_topic):
                    state.alarm.ring(request.out_ms - state.precision_ms)
                    state.curr_queue_offset += 1
                    return
                message = TimerMessage(offset, size, store_ms, properties, request, queue_offset)
                if put.put(message, store_ms) is None:
                    state.alarm.ring()
                    state.curr_queue_offset += 1
                    return
        except StoreError as error:
            # It is stored and lies in the timer topic: it enters the wheel when that is possible.
            _LOG.warning("a timer waits for the timer log: %s", error)
        message = TimerMessage(offset, size, store_ms, properties, request, queue_offset)
        self.note_time(store_ms)
        self._mark_at_once(message)
        if self._gates.entry_stopped and queue_offset == max(
            self._noted_to, state.curr_queue_offset
        ):
            self._keep_marks_of(message)
            self._noted_to = queue_offset + 1

    def _mark_at_once(self, message: TimerMessage) -> None:
        """Let a mark that has not entered the wheel yet work already, if its victims may be due.

        The queue before it is read first, and with it the time may go on to the latest in there.
        While messages are kept out of the wheel, victims that are in it go on becoming due.
        """
        # A moved copy may be due in the slot before its own.
        first_ms = message.request.out_ms - self._state.precision_ms
        if first_ms < self.latest_ms or self._gates.entry_stopped:
            self._state.keep_late_mark(message)

    def note_passed_marks(self) -> None:
        """Let marks whose slots are behind work on victims that are still ahead.

        Such a victim was put late, by a roll; the marks were in memory then, and a stop parted
        the two. It waits in the queue, or has entered a later slot than its own.
        """
        state = self._state
        # One end for all: marks of a slot are forgotten together, at the first of their ends.
        end_slot_ms = state.mark_end_ms(state.floor(self.latest_ms) + state.precision_ms)
        for message in state.unread():
            self._keep_passed(message, end_slot_ms)
        if state.curr_read_ms > state.displaced_until_ms:
            return
        for slot in state.wheel.used_slots():
            if not state.curr_read_ms <= slot.time_ms <= state.displaced_until_ms:
                continue
            for _, record in state.log.chain(slot.last_pos, slot.time_ms):
                is_displaced = record.delay_ms == 0 and not record.magic & MAGIC_DELETE
                if is_displaced and record.offset_py not in state.due_heap.done:
                    found = state.message(record.offset_py, record.size_py)
                    if found is not None and Prop.TIMER_SRC_OFFSET in found.properties:
                        self._keep_passed(found, end_slot_ms)

    def _keep_passed(self, message: TimerMessage, end_slot_ms: int) -> None:
        """Keep the marks of a timer whose slot is behind."""
        request = message.request
        if request.deletes is None and request.out_ms < self._state.curr_read_ms:
            keep_passed_marks(self._state, message, end_slot_ms=end_slot_ms)

    def note_kept_out(self, budget: Budget) -> bool:
        """Let all marks work that a hold keeps out of the wheel; False when time ran out first.

        Mostly they do since they arrived; others came before the hold, or lay in the store.
        """
        state, queue = self._state, self._state.queue
        self._noted_to = max(self._noted_to, state.curr_queue_offset)
        if self._noted_to >= queue.max_offset:
            return True
        for number, (offset, size, _) in queue.iterate(self._noted_to):
            message = state.message(offset, size, number)
            if message is not None:
                self._mark_at_once(message)
                self._keep_marks_of(message)
            self._noted_to = number + 1
            if not self._noted_to % _CHECK_BUDGET_EVERY and budget.exhausted():
                return self._noted_to >= queue.max_offset
        return True

    def _keep_marks_of(self, message: TimerMessage) -> None:
        """Let the marks of a hop that is kept out work until it enters.

        They may be in the wheel already, and the read pointer goes past them meanwhile.
        """
        if message.request.deletes is not None or Prop.TIMER_SRC_OFFSET not in message.properties:
            return
        due_heap, out_ms = self._state.due_heap, message.request.out_ms
        for key, mark in marks_in_slot(self._state, message):
            due_heap.add_late_mark(out_ms, key, mark, message.queue_offset)
            due_heap.kept_for[message.queue_offset] = mark.root

    def note_unread_marks(self) -> None:
        """Let the marks that wait in the queue work on what is released before they are read."""
        state = self._state
        for number, (offset, size, _) in state.queue.iterate(state.curr_queue_offset):
            message = state.message(offset, size, number)
            if message is not None:
                self._mark_at_once(message)

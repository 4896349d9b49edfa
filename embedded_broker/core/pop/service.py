"""Pop service: messages of any queue, hidden from the group until they are acked or come back.

RocketMQ's PopMessageProcessor. A pop walks the queues of a topic, beginning anywhere, and in a
fifth of the cases what came back first; else that fills up (`queue_order.py`). Each queue that
gives something gets a check point (`revive.py`), or for an ordered pop a block (`ordered.py`), and
the group's offset moves on at once: what is hidden does not depend on it. A pop that finds nothing
waits at all these queues (`core/waiters.py`), at those of the retry topic as well; there the
original looks only when a waiting time ends. Must not know: headers, handles.
"""

from functools import partial
from typing import Final

from attrs import define, field

from embedded_broker.core.background_filters import BackgroundFilters
from embedded_broker.core.environment import Environment
from embedded_broker.core.filters import Filter, Filters, Unmade
from embedded_broker.core.pop.checks import PopChecks
from embedded_broker.core.pop.ordered import OrderedPops
from embedded_broker.core.pop.pop_values import Pop, Popped, Reply
from embedded_broker.core.pop.queue_order import QueueOrder, place_of
from embedded_broker.core.pop.records import order_counts, queue_offsets, renamed, split
from embedded_broker.core.pop.revive import ReviveService
from embedded_broker.core.pop.revive_log import PopKey, check_invisible
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.core.statistics import Statistics
from embedded_broker.core.waiters import Waiter, Waiters
from embedded_broker.store.filter_budget import Unjudged
from embedded_broker.store.pull import WRONG_OFFSET, GetResult, GetStatus
from embedded_broker.tables.broker_tables import Tables
from embedded_broker.tables.offsets.orders import OrderBlock, spans_of
from embedded_broker.tables.offsets.table import NOT_STORED
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.pop import CheckPoint
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.protocol.pop_handles import ORDERED_REVIVE_QUEUE, PopHandle, PopPortion, retry_flag

logger = get_logger(__name__)

LOOKS_AT_ONCE: Final = 16
"""So many pieces of a queue without a wanted message are passed in one hold of the door."""
_PASSED_OVER: Final = frozenset({GetStatus.NO_MATCHED_MESSAGE, GetStatus.MESSAGE_WAS_REMOVING})


@define(eq=False, kw_only=True)
class PopService:
    """Hands out messages and hides them. Used under the door."""

    _env: Environment
    _tables: Tables
    _statistics: Statistics
    _checks: PopChecks
    _places: QueueOrder
    _filters: Filters
    _background_filters: BackgroundFilters
    waiters: Waiters
    revive: ReviveService
    ordered: OrderedPops
    heir: "PopService | None" = field(default=None, init=False)
    """The state that is asked from now on, after a reset."""

    # --- pop -------------------------------------------------------------------------------

    def pop(self, pop: Pop, reply: Reply) -> Popped | None:
        """Give messages, or say that there are none; None: `reply` is told later."""
        try:
            popped, wanted = self._look(pop)
        except (Unjudged, Unmade) as one:
            self._background_filters.judge(one, partial(self._pop_again, pop, reply))
            return None
        if popped.count or pop.wait_ms <= 0:
            return popped

        def answer(is_over: bool) -> bool:
            return self._look_again(waiter, pop, reply, is_over)

        awaited = self._places.awaited(pop)
        waiter = Waiter(pop.peer, pop.group, awaited, wanted, answer, asked=pop)
        waiter.place = place_of(pop.group, pop.topic, pop.queue_id)
        if not self._places.has_room(waiter.place) or not self.waiters.add(waiter, pop.wait_ms):
            popped.is_full = True
            return popped
        if popped.has_passed:
            self._go_on_soon(pop)
        return None

    def cancel(self, pop: Pop) -> None:
        """Let a pop that waits get no answer any more, and take nothing."""
        pop.is_cancelled = True
        (self.heir or self).waiters.cancel(pop.peer, pop)

    def _pop_again(self, pop: Pop, reply: Reply) -> None:
        """Go on with a pop for which a message was judged outside."""
        if pop.peer.closed or pop.is_cancelled:
            return
        outcome: Popped | Refused | None
        try:
            outcome = (self.heir or self).pop(pop, reply)
        except Refused as refused:
            outcome = refused
        except Exception as error:  # noqa: BLE001 - the consumer hears of it
            outcome = _failed(pop, error)
        if outcome is not None:
            reply(outcome)

    def _look(self, pop: Pop) -> tuple[Popped, Filter | None]:
        """Check a pop and take what there is.

        Raises ``Unjudged`` when it could neither take nor pass over anything.
        """
        checks = self._checks
        checks.broker("pop")
        checks.count(pop.max_count)
        checks.timers()
        topic = checks.source(pop.topic, pop.queue_id, pop.group, pop.peer)
        wanted = self._wanted(pop)
        revive_queue = ORDERED_REVIVE_QUEUE if pop.is_ordered else self.revive.next_queue()
        popped = Popped(self._env.clock.now_ms, pop.invisible_ms, revive_queue)
        check_invisible(pop.invisible_ms, popped.pop_time_ms)
        unjudged: Unjudged | None = None
        for name, queue_id in self._places.walk(pop, topic, popped):
            try:
                self._take_from(name, queue_id, pop, popped, wanted)
            except Unjudged as one:
                unjudged = unjudged or one
                popped.left += 1
        if unjudged is not None and not popped.count and not popped.has_passed:
            raise unjudged
        return popped, wanted

    def _wanted(self, pop: Pop) -> Filter | None:
        if not pop.expression:
            return None
        self._filters.demand_made(pop.expression_type, pop.expression, frozenset())
        try:
            return self._filters.of(pop.expression_type, pop.expression)
        except Refused as refused:
            remark = f"parse the consumer's subscription failed: {refused.remark}"
            raise Refused(Reason.SUBSCRIPTION_PARSE_FAILED, remark) from refused

    # --- one queue -------------------------------------------------------------------------

    def _take_from(
        self, topic: str, queue_id: int, pop: Pop, popped: Popped, wanted: Filter | None
    ) -> None:
        """Take what one queue has for a pop that has room for more."""
        store, group = self._env.store, pop.group
        offset = self._begin(topic, queue_id, pop)
        if pop.is_ordered and self.ordered.is_blocked(group, topic, queue_id, pop.attempt_id):
            return
        room = pop.max_count - popped.count
        if room <= 0 or not self._has_name(topic, queue_id, offset, pop, popped):
            popped.left += max(store.max_offset(topic, queue_id) - offset, 0)
            return
        found = store.get(topic, queue_id, offset, room, wanted=wanted)
        if found.status in WRONG_OFFSET:
            offset = found.next_begin_offset
            self._tables.offsets.commit(group, topic, queue_id, offset)
            found = store.get(topic, queue_id, offset, room, wanted=wanted)
        if found.count:
            offsets = [at for buffer in found.buffers for at in queue_offsets(buffer)]
            portion = PopPortion(topic, queue_id, offset, offsets)
            if not self._hide(portion, found, pop, popped):
                popped.left += max(found.max_offset - offset, 0)
                return
            popped.portions.append(portion)
            popped.count += found.count
            popped.buffers += self._records(portion, found, pop, popped)
        elif found.status in _PASSED_OVER:
            self._tables.offsets.commit(group, topic, queue_id, found.next_begin_offset)
            popped.has_passed |= found.next_begin_offset < found.max_offset
        popped.left += max(found.max_offset - found.next_begin_offset, 0)
        self._statistics.note_pull(group, topic, found.count, found.size)
        self._tables.deliveries.handed_out(
            group, topic, queue_id, offset, max(found.next_begin_offset, offset), found.count
        )

    def _begin(self, topic: str, queue_id: int, pop: Pop) -> int:
        """Give the offset at which a group goes on; a new group's is chosen and committed."""
        group = pop.group
        offset = self._tables.offsets.query(group, topic, queue_id)
        reset = self._tables.offsets.take_reset(group, topic, queue_id)
        if reset is not None:
            self.ordered.table.clear(group, topic, queue_id)
            self._tables.offsets.commit(group, topic, queue_id, reset)
            return reset
        if offset == NOT_STORED:
            offset = self._first(topic, queue_id, pop)
            self._tables.offsets.commit(group, topic, queue_id, offset)
        return offset

    def _first(self, topic: str, queue_id: int, pop: Pop) -> int:
        """Give where a new group begins; at the end still with the last message (getInitOffset).

        A queue whose first message was never removed is read from the begin even then, unless
        initPopOffsetByCheckMsgInMem is off: all of it is in memory.
        """
        low = self._env.store.min_offset(topic, queue_id)
        if not pop.from_last or is_retry_topic(topic):
            return low
        high = self._env.store.max_offset(topic, queue_id)
        if low <= 0 < high and self._env.config.flag("initPopOffsetByCheckMsgInMem"):
            return 0
        return max(high - 1, 0)

    def _has_name(self, topic: str, queue_id: int, offset: int, pop: Pop, popped: Popped) -> bool:
        """Whether a check point that begins here would have a name of its own.

        On a clock that stands still a second pop from the same offset has the time of the first. It
        is then a millisecond later, unless the time is that of other messages already.
        """
        if pop.is_ordered:
            return True
        name = PopKey(topic, pop.group, queue_id, offset, popped.pop_time_ms, self._env.broker_name)
        while self.revive.is_taken(name):
            if popped.portions:
                return False
            popped.pop_time_ms += 1
            popped.invisible_ms -= 1
            name = name._replace(pop_time_ms=popped.pop_time_ms)
        return True

    def _hide(self, portion: PopPortion, found: GetResult, pop: Pop, popped: Popped) -> bool:
        """Hide what was found; False if that failed and other messages are hidden already.

        Refused when it failed and nothing is: then nothing is handed out at all.
        """
        topic, queue_id, start, offsets = portion
        if pop.is_ordered:
            block = OrderBlock(
                pop_time_ms=popped.pop_time_ms,
                invisible_ms=popped.invisible_ms,
                spans=spans_of(offsets),
                last_ms=popped.pop_time_ms,
                attempt_id=pop.attempt_id,
            )
            block = self.ordered.hand_out(pop.group, topic, queue_id, block)
            popped.order_counts += order_counts(topic, queue_id, block)
            self._tables.offsets.commit(pop.group, topic, queue_id, start)
            return True
        point = CheckPoint(
            broker_name=self._env.broker_name,
            group=pop.group,
            diffs=[offset - start for offset in offsets],
            invisible_ms=popped.invisible_ms,
            count=len(offsets),
            pop_time_ms=popped.pop_time_ms,
            queue_id=queue_id,
            start_offset=start,
            topic=topic,
        )
        try:
            self.revive.hide(point, popped.revive_queue, holder=pop.peer)
        except Refused:
            if popped.portions:
                return False
            raise
        self._tables.offsets.commit(pop.group, topic, queue_id, found.next_begin_offset)
        return True

    def _records(
        self, portion: PopPortion, found: GetResult, pop: Pop, popped: Popped
    ) -> list[memoryview | bytes]:
        """Give the records as they are handed out.

        What came back has its first topic again, and its handle: the client could not make it.
        """
        is_own = portion.topic == pop.topic
        if is_own or self._env.config.flag("popResponseReturnActualRetryTopic"):
            return [*found.buffers]
        handle = PopHandle(
            portion.start_offset,
            popped.pop_time_ms,
            popped.invisible_ms,
            popped.revive_queue,
            retry_flag(portion.topic),
            self._env.broker_name,
            portion.queue_id,
        )
        return [
            renamed(record, pop.topic, handle)
            for buffer in found.buffers
            for record in split(buffer)
        ]

    # --- waiting ---------------------------------------------------------------------------

    def _go_on_soon(self, pop: Pop) -> None:
        """Ask a pop again after others had their turn: it has only passed messages over."""
        queue_id = max(pop.queue_id, 0)
        self._env.session.after(
            0, lambda: self.waiters.wake(pop.group, pop.topic, queue_id, is_over=False), "pop"
        )

    def _look_again(self, waiter: Waiter, pop: Pop, reply: Reply, is_over: bool) -> bool:
        """Answer a pop that waited; false when nothing was found, and it may wait on."""
        outcome: Popped | Refused | None
        if pop.is_cancelled:
            return True
        try:
            if self.heir is not None:
                outcome = self.heir.pop(pop, reply)
            else:
                outcome, _ = self._look(pop)
                for _ in range(LOOKS_AT_ONCE):
                    if (
                        outcome.count
                        or not outcome.has_passed
                        or self._env.store.filter_budget.is_over
                    ):
                        break
                    outcome, _ = self._look(pop)
                if not outcome.count and not is_over:
                    if outcome.has_passed:
                        self._go_on_soon(pop)
                    return False
        except (Unjudged, Unmade) as one:
            outcome = self._background_filters.judge_for(waiter, self.waiters, one, is_over=is_over)
        except Refused as refused:
            outcome = refused
        except Exception as error:  # noqa: BLE001 - the consumer hears of it
            outcome = _failed(pop, error)
        if outcome is not None:
            reply(outcome)
        return True


def _failed(pop: Pop, error: Exception) -> Refused:
    """Say why a pop failed: the consumer hears of it, not whoever happens to leave the door."""
    logger.error("a parked pop of %s failed", pop.topic, exc_info=error)
    return Refused(Reason.FAILED, f"{type(error).__name__}: {error}")

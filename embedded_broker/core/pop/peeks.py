"""Peeks: what a pop would find, without taking it; also notifications, and how many wait.

RocketMQ's PeekMessageProcessor, NotificationProcessor and PollingInfoProcessor. Must not know:
headers. Read on: `service.py`.
"""

from collections.abc import Callable

from attrs import define, field

from embedded_broker.core.environment import Environment
from embedded_broker.core.pop.checks import PopChecks
from embedded_broker.core.pop.ordered import OrderedPops
from embedded_broker.core.pop.pop_values import Notice, Pop, Popped
from embedded_broker.core.pop.queue_order import QueueOrder, place_of
from embedded_broker.core.refusals import Refused
from embedded_broker.core.waiters import Waiter, Waiters
from embedded_broker.store.pull import WRONG_OFFSET
from embedded_broker.tables.offsets.table import NOT_STORED, OffsetTable
from embedded_broker.tables.peer import Peer


@define(eq=False, kw_only=True)
class Peeks:
    """Looks at queues as a pop does. Used under the door."""

    _env: Environment
    _offsets: OffsetTable
    _checks: PopChecks
    _places: QueueOrder
    _ordered: OrderedPops
    _waiters: Waiters
    heir: "Peeks | None" = field(default=None, init=False)
    """The state that is asked from now on, after a reset."""

    def waiting(self, group: str, topic: str, queue_id: int, peer: Peer) -> int:
        """Say how many pops of a group wait that named this queue, or any."""
        self._checks.broker("peeking")
        self._checks.source(topic, queue_id, group, peer)
        return self._waiters.count_at(place_of(group, topic, queue_id))

    def peek(self, pop: Pop) -> Popped:
        """Give what a pop would get, without taking it."""
        checks = self._checks
        checks.broker("peeking")
        topic = checks.source(pop.topic, pop.queue_id, pop.group, pop.peer)
        peeked = Popped(0, 0, 0)
        for name, queue_id in self._places.walk(pop, topic, peeked):
            offset = self._next(pop.group, name, queue_id)
            peeked.left += max(self._env.store.max_offset(name, queue_id) - offset, 0)
            room = pop.max_count - peeked.count
            if room <= 0:
                continue
            found = self._env.store.get(name, queue_id, offset, room)
            if found.status in WRONG_OFFSET:
                found = self._env.store.get(name, queue_id, found.next_begin_offset, room)
            peeked.buffers += found.buffers
            peeked.count += found.count
        return peeked

    def has_message(self, pop: Pop) -> bool:
        """Say whether a pop would find a message, wanted or not."""
        checks = self._checks
        checks.broker("peeking")
        topic = checks.source(pop.topic, pop.queue_id, pop.group, pop.peer)
        return any(
            self._env.store.max_offset(name, queue_id) > self._next(pop.group, name, queue_id)
            and not (
                pop.is_ordered
                and self._ordered.is_blocked(pop.group, name, queue_id, pop.attempt_id)
            )
            for name, queue_id in self._places.walk(pop, topic, Popped(0, 0, 0))
        )

    def notify(self, pop: Pop, reply: Callable[[Notice | Refused], None]) -> Notice | None:
        """Say whether there is a message; None: `reply` is told when there is, or in the end."""
        if self.has_message(pop):
            return Notice(has_message=True)
        if pop.wait_ms <= 0:
            return Notice(has_message=False)

        def answer(is_over: bool) -> bool:
            try:
                there = (self.heir or self).has_message(pop)
            except Refused as refused:
                reply(refused)
                return True
            if there or is_over:
                reply(Notice(has_message=there))
            return there or is_over

        waiter = Waiter(pop.peer, pop.group, self._places.awaited(pop), None, answer)
        if self._places.has_room("") and self._waiters.add(waiter, pop.wait_ms):
            return None
        return Notice(has_message=False, is_full=True)

    def _next(self, group: str, topic: str, queue_id: int) -> int:
        offset = self._offsets.query(group, topic, queue_id)
        return self._env.store.min_offset(topic, queue_id) if offset == NOT_STORED else offset

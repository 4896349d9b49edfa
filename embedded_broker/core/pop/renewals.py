"""Renewals: popped messages stay hidden for as long as their consumer works on them.

After the proxy's ReceiptHandleProcessor, without its scan: a message of a pop that asks for it is
hidden for longer ten seconds before it would come back, at its own millisecond of the message
clock. Each renewal is longer than the one before. Three hours after its pop it comes back as after
a failure; when its consumer has left, a second later. The consumer keeps its first handle: which
one is in force is known here. Must not know: wires, texts of handles. Runs under the door. Read
on: `acks.py`.
"""

from collections import Counter
from heapq import heappop, heappush
from itertools import count
from typing import Final

from attrs import define, field

from embedded_broker.clocks.timeline import Alarm, Budget, Deadline
from embedded_broker.core.pop.acks import Acks, Hidden
from embedded_broker.core.refusals import Refused
from embedded_broker.core.retry_policies import retry_policy
from embedded_broker.tables.consumers.groups import GroupTable
from embedded_broker.tables.peer import Peer
from rocketmq_py.clock import Clock
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.pop_handles import PopHandle

logger = get_logger(__name__)

WHAT: Final = "renewal of a popped message"
AHEAD_MS: Final = 10_000
AGAIN_MS: Final = 5_000
"""A renewal that failed is tried again so much later."""
STEPS_MS: Final = tuple(minutes * 60_000 for minutes in (1, 3, 5, 10, 30, 60))
LONGEST_MS: Final = 3 * 60 * 60_000
GIVEN_BACK_MS: Final = 1_000
"""So soon comes back what nobody has in hand any more."""
HELD_MAX: Final = 100_000
"""Most messages that are renewed; more come back when their first time is over."""

_Key = tuple[str, str, PopHandle]


@define(slots=True, eq=False)
class _Held:
    """One message in the hands of a consumer; `hidden` has the handle that is in force."""

    hidden: Hidden
    first_ms: int
    reconsume_times: int
    due_ms: int = 0
    renewals: int = 0


@define(eq=False, kw_only=True, slots=False)
class Renewals:
    """The messages that are renewed; a `DeadlineSource`."""

    _clock: Clock
    _groups: GroupTable
    _acks: Acks
    alarm: Alarm = field(factory=Alarm, init=False)
    _held: dict[_Key, _Held] = field(factory=dict, init=False)
    _heap: list[tuple[int, int, _Key]] = field(factory=list, init=False)
    _order: "count[int]" = field(factory=count, init=False)

    def __len__(self) -> int:
        return len(self._held)

    def counts(self) -> Counter[Peer]:
        """Say how many each consumer has in hand."""
        return Counter(one.hidden.peer for one in self._held.values())

    def hold(self, one: Hidden, reconsume_times: int) -> None:
        """Renew a message from now on, which was popped by the handle that it has."""
        if len(self._held) >= HELD_MAX:
            logger.warning("%d popped messages are renewed: one more is not", HELD_MAX)
            return
        held = _Held(one, one.handle.pop_time_ms, reconsume_times)
        self._held[_key(one)] = held
        self._plan(_key(one), held)

    def current(self, one: Hidden) -> Hidden:
        """Give a message with the handle that is in force instead of its first."""
        held = self._held.get(_key(one))
        return one if held is None else one._replace(handle=held.hidden.handle)

    def end(self, one: Hidden) -> None:
        """Renew a message no longer, which is named by its first handle."""
        self._held.pop(_key(one), None)

    def let_go(self, peer: Peer) -> None:
        """Let come back soon what a consumer that has left had in hand."""
        self._give_back([key for key, one in self._held.items() if one.hidden.peer is peer])

    def let_all_go(self) -> None:
        """Let come back soon what anybody had in hand: nobody renews any more."""
        self._give_back(list(self._held))

    def _give_back(self, keys: list[_Key]) -> None:
        for key in keys:
            self.give_back(self._held.pop(key).hidden)

    def give_back(self, one: Hidden, after_ms: int = GIVEN_BACK_MS) -> None:
        """Let a message come back so soon, if it is still hidden by the handle that it has."""
        if self._acks.is_open(one):
            try:
                self._acks.hide_longer(one, after_ms)
            except Refused as refused:
                logger.warning("a message comes back later than it could: %s", refused.remark)

    # --- time ------------------------------------------------------------------------------

    def next_deadline(self) -> Deadline | None:
        """When the next message is hidden for longer, or given back."""
        heap = self._heap
        while heap and not self._is_due_then(*heap[0]):
            heappop(heap)
        return Deadline(heap[0][0], WHAT) if heap else None

    def _is_due_then(self, due_ms: int, _order: int, key: _Key) -> bool:
        held = self._held.get(key)
        return held is not None and held.due_ms == due_ms

    def fire(self, now_ms: int, *, horizon_ms: int, budget: Budget) -> int:  # noqa: ARG002
        """Renew what is due; nobody sees anything of it."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            due_ms, order, key = heappop(heap)
            if self._is_due_then(due_ms, order, key):
                self._renew(key, self._held[key], now_ms)
            if budget.exhausted():
                break
        return 0

    def _renew(self, key: _Key, held: _Held, now_ms: int) -> None:
        one = held.hidden
        if not self._acks.is_open(one):
            del self._held[key]
            return
        if one.peer.closed or now_ms >= held.first_ms + LONGEST_MS:
            del self._held[key]
            self.give_back(one, self._wait_ms(held))
            return
        step_ms = STEPS_MS[min(held.renewals, len(STEPS_MS) - 1)]
        try:
            until = self._acks.hide_longer(one, step_ms, holder=one.peer)
        except Refused as refused:
            logger.warning("a popped message is not hidden for longer: %s", refused.remark)
            self._plan(key, held, now_ms + AGAIN_MS)
            return
        if until is None:
            del self._held[key]
            return
        start = one.handle.start_offset if one.handle.is_ordered else one.offset
        handle = one.handle._replace(
            start_offset=start,
            pop_time_ms=until.pop_time_ms,
            invisible_ms=until.invisible_ms,
            revive_queue=until.revive_queue,
        )
        held.hidden = one._replace(handle=handle)
        held.renewals += 1
        self._plan(key, held)

    def _wait_ms(self, held: _Held) -> int:
        """Give when a message comes back that is renewed no more."""
        group = self._groups.get(held.hidden.group)
        if held.hidden.peer.closed or group is None:
            return GIVEN_BACK_MS
        return retry_policy(group).after(held.reconsume_times)

    def _plan(self, key: _Key, held: _Held, due_ms: int | None = None) -> None:
        handle = held.hidden.handle
        ahead_ms = handle.pop_time_ms + handle.invisible_ms - AHEAD_MS
        held.due_ms = min(ahead_ms if due_ms is None else due_ms, held.first_ms + LONGEST_MS)
        heappush(self._heap, (held.due_ms, next(self._order), key))
        self.alarm.ring(held.due_ms)


def _key(one: Hidden) -> _Key:
    return one.group, one.topic, one.handle._replace(queue_id=one.queue_id, offset=one.offset)

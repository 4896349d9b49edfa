"""When the own queues are worked out again, and what happens to those that come and go.

`Rebalancer.run` compares what the `Share` gives this consumer with what it has: lanes of queues
that went away are dropped and their offsets written, fresh ones begin at their first offset and are
fetched at once. It must not know how a fetch works; it calls back. Facts: `RebalanceImpl`,
`RebalancePushImpl`; the waits are the design's (D23).
"""

import threading
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from math import ceil
from typing import Protocol

from attrs import define, field

from rocketmq_py.client.background import TimerHandle
from rocketmq_py.client.heartbeat import Told
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.core.offset_table import OffsetTable
from rocketmq_py.consumer.core.progress import Progress
from rocketmq_py.consumer.core.shares import LEAST_S, Share
from rocketmq_py.consumer.subscriptions import SubscriptionTable
from rocketmq_py.errors import NameServerUnavailableError, RemotingException, RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.send_result import MessageQueue

logger = get_logger(__name__)

RUN_S = 3.0
"""Time of a run for questions to name servers and brokers."""
TAKE_WAIT_S = 1.0
"""A run waits so long for the queues that it takes; what takes longer goes on by itself."""
HEARTBEAT_ANSWER_S = 3.0
UNBALANCED_WAIT_MS = 1_000
ROUTE_WAIT_FIRST_MS = 100
ROUTE_WAIT_MAX_MS = 1_000
LOST_RIVAL_WAIT = 0.5
"""Seconds until the queues of a member that left are taken: its last offsets are on their way."""
FETCH_IDLE_MAX = 120.0
"""Seconds without a fetch after which a queue is dropped and taken afresh."""


class Ownership(Protocol):
    """Who must agree before a queue is taken, and learns that it was given back."""

    def may_take(self, queues: Sequence[MessageQueue]) -> Sequence[MessageQueue]:
        """Return those of one broker's queues that may be taken now. May block."""

    def not_taken(self, queue: MessageQueue) -> None:
        """Note that a queue that may be taken was not. Must not block."""

    def keeps(self, lane: Lane) -> bool:
        """Whether the lane may be kept; else it is dropped, and taken afresh."""

    def connection_lost(self, address: str) -> None:
        """Note that a connection has ended, so its broker may have started anew. Must not block."""

    def given_back(self, lane: Lane) -> None:
        """Note that the lane was dropped. Must not block."""

    def leave(self, timeout: float) -> None:
        """Let nothing stay taken, after the last lane was dropped. Blocks up to so many seconds."""


class Unguarded:
    """Queues are taken as the share says."""

    def may_take(self, queues: Sequence[MessageQueue]) -> Sequence[MessageQueue]:
        """Return all."""
        return queues

    def not_taken(self, queue: MessageQueue) -> None:
        """Nobody needs to know."""

    def keeps(self, lane: Lane) -> bool:  # noqa: ARG002
        """Keep all."""
        return True

    def connection_lost(self, address: str) -> None:
        """The queues stay as they are."""

    def given_back(self, lane: Lane) -> None:
        """Nobody needs to know."""

    def leave(self, timeout: float) -> None:
        """Nothing stays taken."""


@define(eq=False, repr=False, kw_only=True)
class Rebalancer:
    """The lanes of one consumer; `fetch` starts fetching of a fresh one."""

    _group: str
    _engine: ClientInstance
    _share: Share
    _progress: Progress
    _offsets: OffsetTable
    _subscriptions: SubscriptionTable
    _fetch: Callable[[Lane], None]
    _ownership: Ownership = field(factory=Unguarded)
    _running: threading.Lock = field(factory=threading.Lock, init=False)  # held for a whole run
    _lock: threading.Lock = field(factory=threading.Lock, init=False)  # the queues; for moments
    _table: dict[MessageQueue, Lane] = field(factory=dict, init=False)
    _taking: set[MessageQueue] = field(factory=set, init=False)
    _announced_queues: dict[str, set[MessageQueue]] = field(factory=dict, init=False)
    _deadline: float = field(default=0.0, init=False)
    _held: dict[MessageQueue, float] = field(factory=dict, init=False)
    _known_routes: set[str] = field(factory=set, init=False)
    _route_waits: dict[str, tuple[float, int]] = field(factory=dict, init=False)
    _name_servers_silent: bool = field(default=False, init=False)
    _joining: list[str] = field(factory=list, init=False)
    _refused: set[str] = field(factory=set, init=False)
    _next: TimerHandle | None = field(default=None, init=False)
    _announced: bool = field(default=False, init=False)
    _stopped: bool = field(default=False, init=False)

    @property
    def lanes(self) -> list[Lane]:
        """The lanes that this member has now."""
        return list(self._table.values())

    def lane(self, queue: MessageQueue) -> Lane | None:
        """Return the lane of a queue; None: this member does not have it."""
        return self._table.get(queue)

    def queues(self) -> list[MessageQueue]:
        """Return the queues that this member has now."""
        return list(self._table)

    @property
    def joining(self) -> str | None:
        """Say which topic has a route but no queue was taken of it; None: there is none.

        Queues that others do not give yet are waited for, but nothing is done about them.
        """
        topics = [topic for topic in self._joining if topic not in self._refused]
        return f"no queue of {', '.join(topics)} is taken yet" if topics else None

    def run(self, budget_s: float = RUN_S) -> bool:
        """Rebalance all topics once; returns whether every topic is settled.

        When one is not, another run is asked for: after a second, sooner for a topic without a
        route and for queues that wait for a lost rival, later and later where the members are told
        without this one. Whom nobody answers for is left for
        the next run after ``budget_s``; the queues of each broker are taken side by side.
        """
        with self._running:
            if self._stopped:
                return True
            self._deadline = monotonic() + budget_s
            self._share.begin(self._deadline)
            routes = self._routes()
            unsettled: set[str] = set()
            wanted: dict[str, list[MessageQueue]] = {}
            changed: list[str] = []
            for topic, queues in routes.items():
                try:
                    settled = queues is not None and self._run_topic(topic, queues, wanted, changed)
                except RocketMQError as error:
                    if not self._stopped:  # else it has left: the broker knows nothing of it
                        what = f"group {self._group}: rebalance of {topic}"
                        self._engine.unreachable.failed(topic, what, error)
                    self._announced = False  # the broker may have forgotten this client
                    settled = False
                if not settled:
                    unsettled.add(topic)
            self._drop_unsubscribed()
            told = self._tell_brokers(changed) if changed else None
            unsettled |= self._take_all(wanted, told)
            with_queues = {queue.topic for queue in self._table}
            self._joining = sorted(topic for topic in unsettled - with_queues if routes.get(topic))
            self._schedule_next(unsettled)
            return not unsettled

    def drop(self, lane: Lane) -> None:
        """Give a queue back whose offset was illegal; the next run takes it afresh."""
        with self._lock:
            if self._table.get(lane.queue) is lane:
                self._remove(lane.queue)

    def restart(self, lane: Lane, offset: int) -> None:
        """Begin again at an offset: what is cached, or on its way, is thrown away."""
        fresh = Lane(lane.queue, offset, fetched_at=monotonic())
        fresh.paused = lane.paused
        with self._lock:
            if self._table.get(lane.queue) is not lane:
                return  # it was given away, or taken afresh, meanwhile
            lane.dropped = True
            self._table = {**self._table, lane.queue: fresh}
        self._fetch(fresh)

    def stop(self) -> None:
        """End all runs, without waiting for one that is under way; queues stay as they are."""
        self._stopped = True
        if self._next is not None:
            self._next.cancel()

    def drop_all(self) -> None:
        """Drop every queue, after `stop`."""
        with self._lock:
            taking, self._taking = self._taking, set()
        for lane in self._table.values():
            lane.dropped = True
            self._ownership.given_back(lane)
        for queue in taking:
            self._ownership.not_taken(queue)

    def _routes(self) -> dict[str, tuple[MessageQueue, ...] | None]:
        """Queues of every subscribed topic, None where no route is known yet.

        The broker makes the retry topic when it sees the first heartbeat, and that needs the
        route of another topic: so the retry topic is asked for last, right after the heartbeat.
        """
        routes: dict[str, tuple[MessageQueue, ...] | None] = {}
        found = not self._announced
        self._name_servers_silent = False
        for topic in sorted(self._subscriptions.topics(), key=is_retry_topic):
            if found and is_retry_topic(topic) and any(routes.values()):
                self._announce()
                self._route_waits.pop(topic, None)
            known = topic in self._known_routes
            routes[topic] = self._queues_of(topic)
            if routes[topic] is None:
                self._known_routes.discard(topic)
            elif not known:
                # Perhaps the first topic on a broker that does not know this client.
                self._known_routes.add(topic)
                found = True
        if found and any(routes.values()) and not any(map(is_retry_topic, routes)):
            self._announce()  # nothing comes again in this group, so there is no retry topic
        return routes

    def _announce(self) -> None:
        """Let brokers know this member, before they are asked for the others."""
        self._engine.send_heartbeats(group=self._group)
        self._announced = True

    def _run_topic(
        self,
        topic: str,
        queues: tuple[MessageQueue, ...],
        wanted: dict[str, list[MessageQueue]],
        changed: list[str],
    ) -> bool:
        mine = self._share.of(topic, queues)
        if mine is None:
            return False
        gave = self._drop_others(topic, set(mine.queues), mine.popped)
        due, complete = self._due(mine.queues, lost_rival=mine.lost_rival)
        for queue in due:
            wanted.setdefault(queue.broker_name, []).append(queue)
        # Queues that could not be taken the last time are no change: brokers know of them.
        known = self._announced_queues.get(topic, set())
        if gave or not known.issuperset(due):
            changed.append(topic)
        self._announced_queues[topic] = known.intersection(mine.queues).union(due)
        # A broker that does not list this client yet has lost it: the next run tells it again.
        self._announced = self._announced and mine.listed
        return mine.listed and complete

    def _left_s(self) -> float:
        return max(LEAST_S, self._deadline - monotonic())

    def _queues_of(self, topic: str) -> tuple[MessageQueue, ...] | None:
        queues = self._engine.routes.subscribe_queues(topic)
        if queues is None:
            due, wait = self._route_waits.get(topic, (0.0, ROUTE_WAIT_FIRST_MS))
            now = monotonic()
            if now < due or self._name_servers_silent:
                return None
            try:
                self._engine.routes.update(topic, self._left_s() * 1000)
            except NameServerUnavailableError as error:
                # One time-out per run is enough, however many topics there are.
                self._name_servers_silent = True
                if not self._stopped:  # else it is the client that has ended
                    self._engine.routes.log_failure(topic, error)
            except RocketMQError as error:
                logger.debug("no route of %s yet: %s", topic, error)
            queues = self._engine.routes.subscribe_queues(topic)
            if queues is None:
                self._route_waits[topic] = (now + wait / 1000, min(wait * 2, ROUTE_WAIT_MAX_MS))
                return None
        self._route_waits.pop(topic, None)
        return queues

    def _drop_others(
        self, topic: str, mine: set[MessageQueue], popped: AbstractSet[MessageQueue]
    ) -> bool:
        now = monotonic()
        gone = []
        with self._lock:
            for queue, lane in self._table.items():
                if queue.topic != topic:
                    continue
                moves = lane.is_popped != (queue in popped)
                if queue not in mine or moves or not self._ownership.keeps(lane):
                    gone.append(queue)
                elif now - lane.fetched_at > FETCH_IDLE_MAX:
                    logger.error(
                        "group %s: pulling of %s had stopped, taken afresh", self._group, queue
                    )
                    gone.append(queue)
            for queue in gone:
                self._remove(queue)
            self._taking -= {one for one in self._taking if one.topic == topic and one not in mine}
        for queue in [held for held in self._held if held.topic == topic and held not in mine]:
            del self._held[queue]
        return bool(gone)

    def _due(
        self, mine: list[MessageQueue], *, lost_rival: bool
    ) -> tuple[list[MessageQueue], bool]:
        """Give the queues to take now, and whether no other one is left for later."""
        due: list[MessageQueue] = []
        complete = True
        now = monotonic()
        for queue in mine:
            if queue in self._table or queue in self._taking:
                continue
            if lost_rival:
                self._held.setdefault(queue, now + LOST_RIVAL_WAIT)
            if self._held.get(queue, 0.0) > now:
                complete = False
                continue
            self._held.pop(queue, None)
            due.append(queue)
        return due, complete

    def _take_all(self, wanted: dict[str, list[MessageQueue]], told: Told | None) -> set[str]:
        """Take queues, those of one broker in turn and all brokers side by side.

        Returns the topics of those that are not taken by the end of the run; who waits for a
        broker goes on.
        """
        with self._lock:
            for queues in wanted.values():
                self._taking.update(queues)
            open_ones = set(self._taking)
        tasks = [partial(self._take, name, queues, told) for name, queues in wanted.items()]
        if tasks:
            self._engine.side_by_side(tasks, min(self._left_s(), TAKE_WAIT_S))
        return {queue.topic for queue in open_ones if queue not in self._table}

    def _take(self, broker_name: str, queues: list[MessageQueue], told: Told | None) -> None:
        """Take queues of one broker as soon as it knows the versions that their pulls carry."""
        address = self._engine.routes.broker_address(broker_name)
        if told is not None and address is not None:
            told.wait(HEARTBEAT_ANSWER_S, address)
        fresh: list[Lane] = []
        allowed: Sequence[MessageQueue] = ()
        try:
            allowed = self._ownership.may_take(queues)
            self._note_refused(queues, allowed)
            for queue in allowed:
                try:
                    fresh += self._taken(queue)
                except RocketMQError as error:
                    what = f"group {self._group}: asking for the first offset of {queue}"
                    self._engine.unreachable.failed(queue.broker_name, what, error)
                    if isinstance(error, RemotingException):
                        break  # the next one would wait for the same broker
        finally:
            with self._lock:
                self._taking.difference_update(queues)
                spare = [queue for queue in allowed if queue not in self._table]
            for queue in spare:  # no answer, or it belongs to another member by now
                self._ownership.not_taken(queue)
        for lane in fresh:
            self._fetch(lane)

    def _note_refused(
        self, queues: Sequence[MessageQueue], allowed: Sequence[MessageQueue]
    ) -> None:
        refused = {queue.topic for queue in set(queues).difference(allowed)}
        with self._lock:
            self._refused = self._refused.difference(queue.topic for queue in queues) | refused

    def _taken(self, queue: MessageQueue) -> list[Lane]:
        lane = self._progress.begin(queue)
        with self._lock:
            if queue not in self._taking or self._stopped:
                return []
            self._taking.discard(queue)
            self._table = {**self._table, queue: lane}
        return [lane]

    def _remove(self, queue: MessageQueue) -> None:
        """Give a queue back, under the lock."""
        table = dict(self._table)
        lane = table.pop(queue)
        lane.dropped = True
        self._table = table
        self._offsets.persist(queue)
        self._offsets.remove(queue)
        self._ownership.given_back(lane)
        logger.info("group %s: gave %s back", self._group, queue)

    def _drop_unsubscribed(self) -> None:
        wanted = set(self._subscriptions.topics())
        with self._lock:
            for queue in [queue for queue in self._table if queue.topic not in wanted]:
                self._remove(queue)
            self._taking -= {queue for queue in self._taking if queue.topic not in wanted}
        for topic in self._announced_queues.keys() - wanted:
            del self._announced_queues[topic]
        for topic in self._route_waits.keys() - wanted:
            del self._route_waits[topic]
        self._share.keep_only(wanted)
        self._known_routes &= wanted

    def _tell_brokers(self, changed: list[str]) -> Told:
        """Raise the versions and send them before the first pull that carries them."""
        for topic in changed:
            self._subscriptions.raise_version(topic)
            mine = self._announced_queues[topic]
            logger.info("group %s: %d queues of %s", self._group, len(mine), topic)
        return self._engine.send_heartbeats(0, group=self._group)

    def _schedule_next(self, unsettled: set[str]) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if not unsettled or self._stopped:
            return
        now = monotonic()
        later = self._share.waits()
        waits = [max(0.0, due - now) for due in self._held.values()]
        waits += [max(0.0, due - now) for due, _ in self._route_waits.values()]
        waits += later.values()
        if not unsettled <= later.keys():
            waits.append(UNBALANCED_WAIT_MS / 1000)
        wait_ms = min(ceil(round(wait * 1000, 3)) for wait in waits)
        again = partial(self._engine.rebalance_soon, self._group)
        self._next = self._engine.schedule_after(wait_ms, again)

"""``broker.timers``: the messages that wait for their time.

Answers: which messages wait, for when, and how a test changes that: recall, fire now, another
time; and how the stages of the timer store are held and looked at. Must not know: sockets or
threads; every look enters the door and holds it for at most a few milliseconds. Read on:
``embedded_broker/timer/listing.py`` for how timers are listed, ``embedded_broker/timer/change.py``
for how they are changed.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from attrs import field, frozen

from embedded_broker.api.views.bodies import Bodies
from embedded_broker.api.views.lookup import (
    HasMessageId,
    PartsSource,
    View,
    check_topic,
    described,
    id_of,
    told,
)
from embedded_broker.api.views.send import SafeWord
from embedded_broker.clocks.instants import epoch_ms, instant
from embedded_broker.clocks.timeline import Budget, step_in_turns
from embedded_broker.clocks.wall_time_hint import MisreadClock
from embedded_broker.core.refusals import Reason
from embedded_broker.door import Door
from embedded_broker.errors import MessageNotFound, StoreError, TimerNotPending
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.timer.listing import (
    BEFORE_ALL,
    NEVER_MS,
    ListPosition,
    Pending,
    TimerKind,
    Walk,
    Wanted,
)
from embedded_broker.timer.outcomes import MoveOutcome, RecallOutcome
from embedded_broker.timer.stage import EngineState, FlushStage, Stage
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import SCHEDULE_TOPIC
from rocketmq_py.protocol.properties import Prop

_TURNS_MAX: Final = 1000
SHOWN: Final = (
    "msg_id",
    "topic",
    "queue_id",
    "due_at",
    "accepted_at",
    "rolls",
    "keys",
    "size",
    "kind",
    "tags",
    "recall_handle",
)
"""What a listing shows of a timer."""


@frozen(repr=False)
class PendingTimer:
    """One message that waits for its time.

    What it says is kept as it was when it was listed, and decoded when asked for. The body is read
    from the store when asked for.
    """

    _one: Pending
    _broker_name: str | None
    """None where RocketMQ gives no handles."""
    _door: Door = field(eq=False)

    def __repr__(self) -> str:
        return f"PendingTimer({', '.join(f'{name}={getattr(self, name)!r}' for name in SHOWN)})"

    @property
    def msg_id(self) -> str:
        """The unique id of its sender, or where the message lies when it has none."""
        return self._one.msg_id

    @property
    def topic(self) -> str:
        """The topic to which it will go."""
        return self._one.topic

    @property
    def queue_id(self) -> int:
        """The queue to which it will go."""
        return self._one.queue_id

    @property
    def due_at(self) -> datetime:
        """When it will leave."""
        return instant(self._one.due_ms)

    @property
    def accepted_at(self) -> datetime:
        """When the broker first accepted it."""
        return instant(self._one.accepted_ms)

    @property
    def rolls(self) -> int:
        """How many hops of a long delay it has made so far."""
        return self._one.rolls

    @property
    def keys(self) -> tuple[str, ...]:
        """Its keys."""
        return self._one.keys

    @property
    def size(self) -> int:
        """The bytes of its body as stored."""
        return self._one.size

    @property
    def kind(self) -> TimerKind:
        """How it asked for its delay."""
        return self._one.kind

    @property
    def tags(self) -> str | None:
        """Its tag."""
        return self._one.tags

    @property
    def recall_handle(self) -> str | None:
        """What its producer got, unless it was given another time since.

        None for what no handle takes back.
        """
        return None if self._broker_name is None else self._one.recall_handle(self._broker_name)

    @property
    def place(self) -> ListPosition:
        """Its place among all timers, for the next page of a listing."""
        return self._one.place

    @property
    def body(self) -> bytes:
        """The body, unpacked. Raises ``MessageNotFound`` when the message is gone."""
        return bytes(self._record().unpacked_body())

    def body_within(self, bodies: Bodies) -> bytes:
        """Give the body of one of many timers, whose bodies together have a limit."""
        return bodies.unpack(self._record())

    @property
    def properties(self) -> dict[str, str]:
        """All properties as stored."""
        return dict(self._one.properties)

    def _record(self) -> MessageRecord:
        with self._door.quiet:
            record = self._one.read()
        if record is None:
            raise MessageNotFound(f"the store has deleted timer {self.msg_id!r} for {self.topic}")
        return record


class StageView(View):
    """One service of the timer store. A test can pause it and look at it."""

    def __init__(self, parts: PartsSource, name: str) -> None:
        super().__init__(parts)
        self.name = name

    def __repr__(self) -> str:
        state = "paused" if self.paused else "running"
        return f"<{self.name} {state}, depth {self.queue_depth}, lag {self.lag_ms} ms>"

    @property
    def paused(self) -> bool:
        """Whether it is paused, that is, does nothing until ``resume``."""
        with self._look() as parts:
            return self._stage(parts).paused

    @property
    def queue_depth(self) -> int:
        """How many items wait for it."""
        with self._look() as parts:
            return self._stage(parts).queue_depth

    @property
    def lag_ms(self) -> int:
        """How many milliseconds of message time the oldest waiting item has waited."""
        with self._look() as parts:
            return self._stage(parts).lag_ms(parts.clock.now_ms)

    @property
    def counters(self) -> dict[str, int]:
        """What it has done since the store was opened, by name."""
        with self._look() as parts:
            return dict(self._stage(parts).counters)

    def pause(self) -> None:
        """Stop its work until ``resume``. New items wait."""
        parts = self._parts()
        with parts.door:
            self._stage(parts).pause()

    def resume(self) -> None:
        """Let it work again, beginning with what waited.

        The flush stage raises ``StoreError`` when the disk refuses.
        """
        parts = self._parts()
        with parts.door:
            stage = self._stage(parts)
            stage.resume()
            parts.timers.alarm.ring()
        _catch_up(parts)
        if isinstance(stage, FlushStage):
            parts.flush_everything()

    def step(self) -> int:
        """Do once what waits for it, as far as other paused stages allow.

        A paused stage is paused again afterwards. Returns how many messages were delivered.
        The flush stage raises ``StoreError`` when the disk refuses.
        """
        parts = self._parts()
        with parts.door:
            stage = self._stage(parts)
            was_paused = stage.paused
            stage.resume()
        try:
            delivered = _catch_up(parts)
            if isinstance(stage, FlushStage):
                parts.flush_everything()
            return delivered
        finally:
            if was_paused:
                with parts.door:
                    self._stage(parts).pause()

    def _stage(self, parts: BrokerParts) -> Stage[EngineState]:
        return parts.timers.stages[self.name]


class TimersView(View):
    """``broker.timers``: the messages that wait for their time.

    Under ``flushDiskType=SYNC_FLUSH`` a change returns when it is synced, as a send does. Without a
    sync within ``syncFlushTimeout`` it raises ``StoreError``.
    """

    def __repr__(self) -> str:
        return told("timers", lambda: f": {self.count()} pending")

    def __iter__(self) -> Iterator[PendingTimer]:
        """Give every message that waits, by due time, as ``pending`` does page by page.

        Time may move and messages may come and go meanwhile: one that waits all the while is given
        once.
        """
        page = self.pending()
        while page:
            yield from page
            page = self.pending(after=page[-1])

    # -- looking --------------------------------------------------------------------------------

    def count(self, *, topic: str | None = None) -> int:
        """Count the messages that wait for their time: timers and messages at a delay level.

        With ``topic`` only those that will go to this topic; ``KeyError`` names the nearest one for
        an unknown topic. It costs the same for any number.
        """
        parts = self._parts()
        while True:
            with parts.door.quiet:
                if topic is None:
                    own = parts.timers.count(parts.pop.revive.topic)
                    return parts.timers.count() - own + parts.levels.count()
                if parts.levels.tally.work(Budget()):
                    found = parts.timers.count(topic) + parts.levels.tally.count(topic)
                    break
        if not found:
            check_topic(parts, topic)
        return found

    def pending(
        self,
        *,
        topic: str | None = None,
        before: datetime | None = None,
        kind: TimerKind | Iterable[TimerKind] | None = None,
        limit: int = 100,
        after: PendingTimer | ListPosition | None = None,
    ) -> list[PendingTimer]:
        """List the messages that wait by due time, those at levels and retries included.

        It gives at most ``limit``. For the next page pass the last one, or its ``place``, as
        ``after``. ``topic`` is where the messages will go. ``before`` is an aware datetime; what is
        due at that time is left out. Every timer in the list waited at some moment of the call, and
        is there once. Recalled timers are left out. Raises ``TypeError`` for a value of another
        type, ``ConfigError`` for a limit below 1, ``KeyError`` for a topic that does not exist.

        >>> from embedded_broker import EmbeddedBroker, VirtualClock
        >>> with EmbeddedBroker(tcp=False, topics=["T"], clock=VirtualClock()) as broker:
        ...     _ = broker.send("T", b"later", delay=60)
        ...     [timer.body for timer in broker.timers.pending(topic="T")]
        [b'later']
        """
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise TypeError(f"limit is a number of timers, not {described(limit)}")
        if limit < 1:
            raise ConfigError("limit", limit, "at least 1")
        if after is not None and not isinstance(after, PendingTimer | ListPosition):
            raise TypeError(f"after is the last timer of the page before, not {described(after)}")
        kinds = _kinds(kind)
        wanted = Wanted(
            topic=topic,
            kinds=kinds,
            limit=limit,
            before_ms=NEVER_MS if before is None else epoch_ms(_aware("before", before)),
            after=BEFORE_ALL if after is None else _place_of(after),
        )
        parts = self._parts()
        found = _list(parts, wanted)
        if not found:
            check_topic(parts, topic)
        name = parts.broker_name if parts.profile.names_stored_messages else None
        return [PendingTimer(one, name, parts.door) for one in found]

    @property
    def misread_clock(self) -> MisreadClock | None:
        """The first deliver time that a sender computed by wall time, where this broker's differs.

        Such a time makes sense by the clock of its sender and none by the broker's. None when there
        was none since the start, restart or reset of the broker.
        """
        with self._look() as parts:
            return parts.wall_time_hint.found

    def next_due(self) -> datetime | None:
        """Say when the next waiting message is due; None when nothing waits."""
        first = _list(self._parts(), Wanted(limit=1))
        return instant(first[0].due_ms) if first else None

    def distribution(self) -> dict[int, int]:
        """Count timers by how soon they are due: upper bounds in seconds, and numbers of timers.

        Timers that are due more than a day ahead are left out. A long delay counts at the time
        of its next hop. The metric ``rocketmq_timer_message_snapshot`` counts in the same way.
        """
        with self._look() as parts:
            snapshot = parts.timers.distribution()
        step_in_turns(parts.door, snapshot)
        return snapshot.buckets

    @property
    def stages(self) -> Mapping[str, StageView]:
        """The services of the timer store by the names of RocketMQ's threads."""
        parts = self._parts()
        return MappingProxyType(
            {name: StageView(self._parts, name) for name in parts.timers.stages}
        )

    # -- changing -------------------------------------------------------------------------------

    def recall(self, message: str | HasMessageId, *, topic: str | None = None) -> RecallOutcome:
        """Take back a pending timer: a unique id, an offset id, or anything with ``msg_id``.

        What ``pending`` gives has one, too. It works until the message is released. ``topic``
        chooses between messages with the same id; ``KeyError`` names the nearest for an unknown
        one. A message at a delay level is UNKNOWN, because RocketMQ cannot take back messages at
        levels.
        Raises `StoreError` when the disk refuses the change (the timer stays), or when a
        synchronous flush takes too long (the change is stored, but not synced).
        """
        parts = self._parts()
        key, topic = _unique_id(parts, message), _topic_of(message, topic)
        with parts.door:
            outcome = parts.timers.recall(key, topic)
            log_end = parts.store.log.max_offset
        if outcome is RecallOutcome.RECALLED:
            _wait_durable(parts, log_end)
        elif outcome is RecallOutcome.UNKNOWN:
            check_topic(parts, topic)
        return outcome

    def fire_now(self, message: str | HasMessageId, *, topic: str | None = None) -> None:
        """Deliver a pending timer at once.

        It is visible when this returns, unless a paused stage or ``timerStopDequeue`` keeps
        releases back. The id is given as in ``recall``. Raises ``TimerNotPending`` when no such
        timer waits.
        """
        parts = self._parts()
        key, topic = _unique_id(parts, message), _topic_of(message, topic)
        with parts.door:
            outcome = parts.timers.fire_now(key, topic)
            log_end = parts.store.log.max_offset
        _require_moved(parts, key, topic, outcome)
        _catch_up(parts)
        _wait_durable(parts, log_end)

    def reschedule(
        self, message: str | HasMessageId, *, deliver_at: datetime, topic: str | None = None
    ) -> None:
        """Give a pending timer another time; one in the past delivers it at once.

        Ids as in ``recall``. The change is stored like the timer itself and survives a crash. A
        recall handle that the producer got before no longer works, because it names the old time.
        Raises ``TimerNotPending`` when no timer waits under the id, ``ConfigError`` when the new
        time is further away than a send may ask for (``timerMaxDelaySec``, or the broker's limits).
        """
        parts = self._parts()
        due_ms = epoch_ms(_aware("deliver_at", deliver_at))
        refusal = parts.timers.admission.refusal_of(due_ms - parts.clock.now_ms)
        if refusal is not None:
            expected = f"the delay from {parts.clock.now()} {refusal}"
            raise ConfigError("deliver_at", deliver_at, expected)
        key, topic = _unique_id(parts, message), _topic_of(message, topic)
        with parts.door:
            outcome = parts.timers.reschedule(key, due_ms, topic)
            log_end = parts.store.log.max_offset
        _require_moved(parts, key, topic, outcome)
        _catch_up(parts)
        _wait_durable(parts, log_end)


# -- what is asked for --------------------------------------------------------------------------


def _kinds(kind: object) -> frozenset[TimerKind] | None:
    """Return the kinds to list; None means all."""
    if kind is None:
        return None
    several = isinstance(kind, Iterable) and not isinstance(kind, (str, bytes))
    kinds: list[object] = list(kind) if several else [kind]  # type: ignore[call-overload]
    for one in kinds:
        if not isinstance(one, TimerKind):
            names = ", ".join(f"TimerKind.{known.name}" for known in TimerKind)
            raise TypeError(f"kind is one or several of {names}, not {described(one)}")
    return frozenset(one for one in kinds if isinstance(one, TimerKind))


def _place_of(after: PendingTimer | ListPosition) -> ListPosition:
    return after if isinstance(after, ListPosition) else after.place


def _aware(name: str, when: object) -> datetime:
    if not isinstance(when, datetime):
        raise TypeError(
            f"{name} is an aware datetime, such as broker.clock.now() + timedelta(seconds=5), not "
            f"{described(when)}"
        )
    return when


# -- listing ------------------------------------------------------------------------------------


def _list(parts: BrokerParts, wanted: Wanted) -> list[Pending]:
    """Merge what the engine and the levels give."""
    with parts.door.quiet:
        walks: tuple[Walk, Walk] = (parts.timers.pending(wanted), parts.levels.pending(wanted))
    found: list[Pending] = []
    for walk in walks:
        step_in_turns(parts.door, walk)
        found += walk.found
    found.sort(key=lambda one: one.place)
    return found[: wanted.limit]


# -- changing -----------------------------------------------------------------------------------


def _unique_id(parts: BrokerParts, message: str | HasMessageId) -> str:
    """Give the unique id of what a test passed, and let the index know every message."""
    message_id = id_of(message)
    parts.queries.bring_index_up()
    record = parts.queries.named(message_id)
    return message_id if record is None else record.properties.get(Prop.UNIQ_KEY, message_id)


def _topic_of(message: object, topic: str | None) -> str | None:
    """Choose the topic that was named, or that of a timer from a listing: ids may repeat."""
    return message.topic if topic is None and isinstance(message, PendingTimer) else topic


def _require_moved(parts: BrokerParts, key: str, topic: str | None, outcome: MoveOutcome) -> None:
    if outcome is MoveOutcome.MOVED:
        return
    check_topic(parts, topic)
    if outcome is MoveOutcome.ALREADY_DUE:
        raise TimerNotPending(f"timer {key!r} was due already and has been delivered")
    with parts.door.quiet:
        waiting_from = parts.levels.waiting_from()
    for record in parts.queries.with_id(key).records:
        level = record.queue_id + 1
        if record.topic == SCHEDULE_TOPIC and record.queue_offset >= waiting_from.get(level, 0):
            raise TimerNotPending(
                f"message {key!r} waits at delay level {level}, and messages of a level leave in "
                "the order in which they came. With routeDelayLevelToWheel=true levels become "
                "timers, which can be changed"
            )
    raise TimerNotPending(f"no timer waits under the id {key!r}: never accepted, or recalled")


def _wait_durable(parts: BrokerParts, log_end: int) -> None:
    """Under SYNC_FLUSH and SYNC_MASTER, wait until disk and slaves have the log. Outside the door.

    Raises ``StoreError`` when they do not within ``syncFlushTimeout`` or ``slaveTimeout``.
    """
    if not parts.durability.is_awaited:
        return
    with parts.door:
        word = SafeWord(parts, log_end)
    late = word.wait()
    if late is Reason.FLUSH_DISK_TIMEOUT:
        raise StoreError(
            "the change of the timer is stored, but it was not synced within "
            f"syncFlushTimeout={parts.config.int('syncFlushTimeout')} ms: a power loss may undo it"
        )
    if late is not None:
        raise StoreError(
            "the change of the timer is stored, but no slave had it within "
            f"slaveTimeout={parts.config.int('slaveTimeout')} ms: {late.name}"
        )


def _catch_up(parts: BrokerParts) -> int:
    """Do what is due now, in turns; returns how many messages were delivered."""
    delivered = 0
    for _ in range(_TURNS_MAX):
        with parts.door:
            now_ms = parts.clock.now_ms
            head = parts.timers.next_deadline()
            if head is None or head.due_ms > now_ms:
                break
            delivered += parts.timers.fire(now_ms, horizon_ms=now_ms, budget=Budget())
    return delivered

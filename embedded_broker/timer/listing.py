"""What a listing of pending timers gives, whichever engine or delay level they wait in.

Answers: what is known of one waiting message, which of them somebody asks for, and how they are
walked in the order in which they are due. Must not know: wheels, slices, files: those are sources
of waiting messages, and one walk goes through any of them. A listing never changes what it looks
at. It is made in turns, so that the door is never held for long: `Walk.step` under the door, until
`Walk.done`.

Read on: `wheel/listing.py`, `slices/listing.py`, `levels/listing.py` and, for files that no broker
has open, `embedded_broker/inspector/columns.py` for the sources; for who asks,
`embedded_broker/api/views/timers.py` and `embedded_broker/inspector/report.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple, Protocol

from attrs import field, frozen

from embedded_broker.clocks.timeline import Budget
from embedded_broker.timer.request import recall_handle_of, recall_time_ms, root_offset, victim_root
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import REVIVE_TOPIC_PREFIX, is_retry_topic
from rocketmq_py.protocol.properties import Prop

NEVER_MS: Final = 2**63 - 1
_STEPS_BACK: Final = 100
_OF_LATER_COPIES: Final = frozenset({Prop.TIMER_ROOT_OFFSET, Prop.TIMER_DEL_OFFSET})


class TimerKind(Enum):
    """How a waiting message asked for its delay."""

    LEVEL = "level"
    SEC = "seconds"
    MS = "milliseconds"
    DELIVER_AT = "deliver at"
    START_DELIVER = "start deliver"
    RETRY = "retry"
    """A message that a consumer could not handle and that waits for its next try."""


class Place(NamedTuple):
    """Where a timer stands among all: two that are due at once go by their first arrival."""

    due_ms: int
    root: int
    """Commit-log offset of the first copy; it stays the same while the message is rolled."""


@frozen(kw_only=True)
class Pending:
    """One waiting message; times in epoch milliseconds, `size` is its body's bytes as stored."""

    due_ms: int
    root: int
    msg_id: str
    """UNIQ_KEY, or where the message lies when it has none."""
    topic: str
    """Where it will go."""
    queue_id: int
    accepted_ms: int
    rolls: int
    keys: tuple[str, ...]
    size: int
    kind: TimerKind
    tags: str | None
    recall_time_ms: int | None
    """The time in its recall handle; None when RocketMQ gives it no handle."""
    read: Callable[[], MessageRecord | None] = field(eq=False, repr=False)
    """Reads the stored message; under the door. None when retention took it."""

    @property
    def place(self) -> Place:
        """Where it stands among all."""
        return Place(self.due_ms, self.root)

    def recall_handle(self, broker_name: str) -> str | None:
        """Give the handle by which it can be recalled at the broker of this name."""
        time_ms = self.recall_time_ms
        if time_ms is None:
            return None
        return recall_handle_of(self.topic, broker_name, time_ms, self.msg_id).decode()


BEFORE_ALL: Final = Place(-1, -1)


@frozen(kw_only=True)
class Wanted:
    """Which timers are asked for: None means any of users; those of POP go to a system topic.

    `before_ms` is exclusive, and so is `after`: the place of the last one of the page before.
    """

    topic: str | None = None
    before_ms: int = NEVER_MS
    kinds: frozenset[TimerKind] | None = None
    limit: int = 100
    after: Place = BEFORE_ALL

    def goes_to(self, topic: str) -> bool:
        """Say whether timers that go to this topic are asked for."""
        if self.topic is None:
            return not topic.startswith(REVIVE_TOPIC_PREFIX)
        return topic == self.topic

    def fits(self, one: Pending) -> bool:
        """Say whether a timer in the right span of time is asked for."""
        return self.goes_to(one.topic) and (self.kinds is None or one.kind in self.kinds)


class Readable(Protocol):
    """What a source reads from; it may be closed while a walk is under way."""

    @property
    def is_open(self) -> bool:
        """Whether it can be read."""
        ...


class Source(ABC):
    """One place where messages wait, as one walk goes through it."""

    def __init__(self, files: Readable) -> None:
        self._files = files

    @property
    def is_open(self) -> bool:
        """Whether there is anything to read: a walk ends where it is closed."""
        return self._files.is_open

    @abstractmethod
    def turns(self, wanted: Wanted) -> Iterator[Pending | None]:
        """Give what waits behind `wanted.after`, in order; None where it may be interrupted."""


class Walk:
    """A listing under way; everything in `found` was waiting at some moment of the walk."""

    def __init__(self, source: Source, wanted: Wanted) -> None:
        self.found: list[Pending] = []
        """In the order of their places; at most `Wanted.limit`."""
        self.done = wanted.limit <= 0
        self._source = source
        self._wanted = wanted
        self._turns = source.turns(wanted)

    @property
    def first_due_ms(self) -> int | None:
        """When the first of the page leaves."""
        return self.found[0].due_ms if self.found else None

    def step(self, budget: Budget) -> None:
        """Go on until the budget is used up. Under the door."""
        self.done = self.done or not self._source.is_open
        while not self.done:
            one = next(self._turns, self)
            if isinstance(one, Walk):
                self.done = True  # nothing is left
            elif one is not None:
                self._take(one)
            if budget.exhausted():
                return

    def _take(self, one: Pending) -> None:
        wanted = self._wanted
        if one.due_ms >= wanted.before_ms:
            self.done = True
        elif wanted.fits(one):
            self.found.append(one)
            self.done = len(self.found) >= wanted.limit


def kind_of(properties: Mapping[str, str], topic: str) -> TimerKind:
    """Tell how a stored message that will go to `topic` asked for its delay."""
    if is_retry_topic(topic):
        return TimerKind.RETRY
    level = properties.get(Prop.DELAY, "")
    if level.isdecimal() and int(level) > 0:
        return TimerKind.LEVEL
    if Prop.TIMER_DELAY_SEC in properties:
        return TimerKind.SEC
    if Prop.TIMER_DELAY_MS in properties:
        return TimerKind.MS
    start = properties.get(Prop.START_DELIVER_TIME)
    if start is not None and properties.get(Prop.TIMER_DELIVER_MS, start) == start:
        return TimerKind.START_DELIVER  # the client or admission may have translated it
    return TimerKind.DELIVER_AT


def first_stored_ms(record: MessageRecord, read: Callable[[int], MessageRecord | None]) -> int:
    """Give when the first copy was stored, over hops and changes of time; else the oldest left.

    `read` gives the timer at a commit-log offset.
    """
    if not _OF_LATER_COPIES & record.properties.keys():
        return record.store_timestamp
    for _ in range(_STEPS_BACK):
        back: int | None = root_offset(record.properties, record.commit_log_offset)
        if back == record.commit_log_offset:
            back = victim_root(record.properties)
        is_before = back is not None and 0 <= back < record.commit_log_offset
        earlier = read(back) if back is not None and is_before else None
        if earlier is None:
            break
        record = earlier
    return record.store_timestamp


def pending_of(
    record: MessageRecord,
    *,
    due_ms: int,
    root: int,
    accepted_ms: int,
    read: Callable[[], MessageRecord | None],
) -> Pending:
    """Describe a stored message that waits; it has a real topic and a real queue."""
    properties = record.properties
    topic = properties.get(Prop.REAL_TOPIC, "")
    queue_id, rolls = properties.get(Prop.REAL_QID, ""), properties.get(Prop.TIMER_ROLL_TIMES, "")
    return Pending(
        due_ms=due_ms,
        root=root,
        msg_id=record.msg_id,
        topic=topic,
        queue_id=int(queue_id) if queue_id.isdecimal() else 0,
        accepted_ms=accepted_ms,
        rolls=int(rolls) if rolls.isdecimal() else 0,
        keys=tuple(properties.get(Prop.KEYS, "").split()),
        size=len(record.body),
        kind=kind_of(properties, topic),
        tags=properties.get(Prop.TAGS),
        recall_time_ms=recall_time_ms(properties),
        read=read,
    )

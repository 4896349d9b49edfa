"""What a listing of pending timers gives, whichever engine or delay level they wait in.

Answers: what is known of one waiting message, which of them somebody asks for, and how they are
walked in the order in which they are due. Must not know: wheels, slices, files: those are sources
of waiting messages, and one walk goes through any of them. A listing never changes what it looks
at. It is made in turns, so that the door is never held for long: `Walk.step` under the door, until
`Walk.done`.

Read on: `waiting_index.py` for the index; `wheel/listing.py`, `slices/listing.py`,
`levels/listing.py` and, for files that no broker has open, `embedded_broker/inspector/columns.py`
for the sources; for who asks, `embedded_broker/api/views/timers.py` and
`embedded_broker/inspector/report.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple, Protocol

from attrs import define, field, frozen

from embedded_broker.clocks.timeline import Budget
from embedded_broker.timer.request import recall_handle_of, recall_time_ms, root_offset, victim_root
from rocketmq_py.protocol.message_codec import MessageRecord, RecordHead
from rocketmq_py.protocol.names import REVIVE_TOPIC_PREFIX, is_retry_topic
from rocketmq_py.protocol.properties import Prop, decode_properties

NEVER_MS: Final = 2**63 - 1
_STEPS_BACK: Final = 100
_ROOT: Final = Prop.TIMER_ROOT_OFFSET.encode()
_REPLACED: Final = Prop.TIMER_DEL_OFFSET.encode()


class TimerKind(Enum):
    """How a waiting message asked for its delay."""

    LEVEL = "level"
    SEC = "seconds"
    MS = "milliseconds"
    DELIVER_AT = "deliver at"
    START_DELIVER = "start deliver"
    RETRY = "retry"
    """A message that a consumer could not handle and that waits for its next try."""


class ListPosition(NamedTuple):
    """Where a timer stands among all: two that are due at once go by their first arrival."""

    due_ms: int
    root: int
    """Commit-log offset of the first copy; it stays the same while the message is rolled."""


@define(kw_only=True, unsafe_hash=True)
class Pending:
    """One waiting message; times in epoch milliseconds. What it says is decoded when asked for."""

    due_ms: int
    root: int
    accepted_ms: int
    stored: RecordHead = field(repr=False)
    """Its newest copy."""
    reader: Callable[[RecordHead], MessageRecord | None] = field(eq=False, repr=False)
    """Reads a stored message as a whole; one for all of a listing."""
    _properties: dict[str, str] | None = field(default=None, eq=False, repr=False)
    """Those that whoever made this had decoded already."""
    topic: str = field()
    """Where it will go."""

    @topic.default
    def _real_topic(self) -> str:
        return self.properties.get(Prop.REAL_TOPIC, "")

    @property
    def place(self) -> ListPosition:
        """Where it stands among all."""
        return ListPosition(self.due_ms, self.root)

    @property
    def properties(self) -> dict[str, str]:
        """All its properties, as stored."""
        properties = self._properties
        if properties is None:
            properties = self._properties = decode_properties(self.stored.properties_bytes)
        return properties

    @property
    def msg_id(self) -> str:
        """UNIQ_KEY, or where the message lies when it has none."""
        return self.properties.get(Prop.UNIQ_KEY) or self.stored.offset_msg_id

    @property
    def queue_id(self) -> int:
        """The queue that it will go to."""
        return self._number(Prop.REAL_QID)

    @property
    def rolls(self) -> int:
        """How often it was put anew on its way."""
        return self._number(Prop.TIMER_ROLL_TIMES)

    @property
    def keys(self) -> tuple[str, ...]:
        """Its KEYS."""
        return tuple(self.properties.get(Prop.KEYS, "").split())

    @property
    def size(self) -> int:
        """Its body's bytes as stored."""
        return self.stored.body_size

    @property
    def kind(self) -> TimerKind:
        """How it asked for its delay."""
        return kind_of(self.properties, self.topic)

    @property
    def tags(self) -> str | None:
        """Its TAGS."""
        return self.properties.get(Prop.TAGS)

    def read(self) -> MessageRecord | None:
        """Read the stored message; under the door. None when retention took it."""
        return self.reader(self.stored)

    def recall_handle(self, broker_name: str) -> str | None:
        """Give the handle by which it can be recalled at the broker of this name.

        None when RocketMQ gives it no handle.
        """
        time_ms = recall_time_ms(self.properties)
        if time_ms is None:
            return None
        return recall_handle_of(self.topic, broker_name, time_ms, self.msg_id).decode()

    def _number(self, name: str) -> int:
        text = self.properties.get(name, "")
        return int(text) if text.isdecimal() else 0


BEFORE_ALL: Final = ListPosition(-1, -1)


@frozen(kw_only=True)
class Wanted:
    """Which timers are asked for: None means any of users; those of POP go to a system topic.

    `before_ms` is exclusive, and so is `after`: the place of the last one of the page before.
    """

    topic: str | None = None
    before_ms: int = NEVER_MS
    kinds: frozenset[TimerKind] | None = None
    limit: int = 100
    after: ListPosition = BEFORE_ALL

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


def first_stored_ms(stored: RecordHead, read: Callable[[int], RecordHead | None]) -> int:
    """Give when the first copy was stored, over hops and changes of time; else the oldest left.

    `read` gives the timer at a commit-log offset.
    """
    for _ in range(_STEPS_BACK):
        text, offset = stored.properties_bytes, stored.commit_log_offset
        if _ROOT not in text and _REPLACED not in text:
            break
        properties = decode_properties(text)
        back: int | None = root_offset(properties, offset)
        if back == offset:
            back = victim_root(properties)
        earlier = read(back) if back is not None and 0 <= back < offset else None
        if earlier is None:
            break
        stored = earlier
    return stored.store_timestamp

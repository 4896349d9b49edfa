"""Filter budget: how much the filters of one request may read before the door is given back.

Answers: what a filter is asked, what it costs to judge a message, and when an entry of the door has
no room for more. The cost is counted in bytes that the filter has looked at. To read a message's
properties counts by their number and length, to evaluate a filter by its steps, and each look at a
property by its length: so whatever the message and the filter are, they count as what they are.
Whether there is room is known before either is done. Somebody who finds no room for one message
judges it outside the door (``core/background_filters.py``) and comes back with the verdict. Must
not know: the door, what a filter looks for. Read on: ``pull.py``, and ``core/filters/`` for the
filters.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any, Final, Protocol

from attrs import define, field

from embedded_broker.store.commit_log import CommitLog
from embedded_broker.store.consume_queue import Entry
from rocketmq_py.protocol.properties import decode_properties

JUDGED_MAX: Final = 512 * 1024
"""Bytes that are looked at in one entry of the door: some 2 to 5 ms."""
MESSAGE_COST: Final = 500
"""What it costs to read a message, besides its properties: some 5 us, as to search 500 bytes."""
PROPERTY_COST: Final = 30
"""What it costs to read a property, besides its bytes."""
STEP_COST: Final = 20
"""What a step of a filter costs: some 0.1 to 0.2 us."""
LOOK_COST: Final = 40
"""What a look at a property costs, besides the step and the bytes of the property."""


class Filter(Protocol):
    """Which messages somebody wants: a value that is asked twice, and as cheaply as it can be.

    First about a queue's entry, by ``codes``: what has none of these tags codes is passed over, and
    its record is not touched. Then by ``accepts``, if ``reads_properties`` says that the entry
    cannot tell all; nobody selects by bodies, which may be large. Where anybody takes a filter,
    None stands for one that every message passes.
    """

    @property
    def codes(self) -> frozenset[int] | None:
        """The tags codes of the messages that may be wanted; None: the code does not matter."""

    @property
    def reads_properties(self) -> bool:
        """Whether the answer depends on more than the tags code."""

    @property
    def steps(self) -> int:
        """How many steps it takes for a message at most, besides the bytes that it looks at."""

    def accepts(self, entry: Entry, properties: Mapping[str, str] | None) -> bool:
        """Say whether a message is wanted; ``properties`` is None unless it reads them."""


class Unjudged(Exception):  # noqa: N818 - no error: the message is to be judged elsewhere
    """A message for which this entry has no room: its filter, its place, its properties text."""

    def __init__(self, wanted: Filter, entry: Entry, properties: bytes) -> None:
        super().__init__(entry)
        self._wanted = wanted
        self.entry = entry
        self._properties = properties

    def judge(self) -> bool:
        """Say whether the message is wanted, however long that takes; outside the door."""
        return self._wanted.accepts(self.entry, decode_properties(self._properties))


class _NoRoom(Exception):  # noqa: N818 - ends an evaluation
    """The bytes of this entry are used up."""


class _Counted(dict[str, str]):
    """Properties that count what a filter looks at."""

    __slots__ = ("room",)
    room: "FilterBudget"

    def get(self, name: str, default: Any = None) -> Any:
        """Give a property; raises when this entry has no room for it."""
        value = super().get(name, default)
        self.room.take(LOOK_COST + len(value or ""))
        return value


@define(eq=False)
class FilterBudget:
    """The room for filters in the present entry of the door. Used under the door.

    ``entry_number`` tells the entries apart; without a door every read of a queue is one.
    ``when_over`` is called when the entry should end soon.
    """

    entry_number: Callable[[], int] = field(factory=lambda: count().__next__)
    when_over: Callable[[], None] = field(default=lambda: None)
    most: int = JUDGED_MAX
    left: int = field(default=0, init=False)
    _number: int = field(default=-1, init=False)
    _known: tuple[int, bool] | None = field(default=None, init=False)

    def begin(self) -> None:
        """Begin to read a queue: the room is that of the present entry."""
        number = self.entry_number()
        if number != self._number:
            self._number = number
            self.left = self.most

    @property
    def is_over(self) -> bool:
        """Whether half of the room is used: what comes next has a better start in a new entry."""
        return self.left * 2 < self.most and self._number == self.entry_number()

    def take(self, cost: int) -> None:
        """Take some of the room; raises when there is not so much."""
        self.left -= cost
        if self.left < 0:
            raise _NoRoom

    def is_wanted(self, wanted: Filter, entry: Entry, log: CommitLog) -> bool:
        """Ask a filter that reads properties about a message; `Unjudged` without room for that."""
        at = entry[0]
        if self._known is not None and self._known[0] == at:
            return self._known[1]
        properties = log.properties(at)
        if properties is None:
            return False
        number = properties.count(b"\x02") + 1
        try:
            self.take(MESSAGE_COST + len(properties) + number * PROPERTY_COST)
            self.take(wanted.steps * STEP_COST)
            counted = _Counted(decode_properties(properties))
            counted.room = self
            return wanted.accepts(entry, counted)
        except _NoRoom:
            raise Unjudged(wanted, entry, properties) from None
        finally:
            if self.left * 2 < self.most:
                self.when_over()

    @contextmanager
    def knowing(self, entry: Entry, *, accepts: bool) -> Iterator[None]:
        """Read queues with the verdict on one message, which was judged outside."""
        self._known = (entry[0], accepts)
        try:
            yield
        finally:
            self._known = None

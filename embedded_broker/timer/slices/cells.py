"""The seconds of one slice in memory: what leaves in each of them, and what is taken back.

Answers: which timers are due in a second, in the order in which they came, and which marks remove
some of them. A wheel has one cell for each second of a slice. With `sliceCell=offset` a cell holds
position and size in the slice's log, 16 bytes a timer; with `sliceCell=message` the message
itself, so that a release reads no file. Must not know: files, clocks, what a message says.

Read on: `dcommit_log.py` for where positions lead, `engine.py` for when a cell is due.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from itertools import pairwise

from embedded_broker.timer.recall import Mark

__all__ = ["Cell", "MessageCell", "OffsetCell", "SliceWheel"]


class Cell(ABC):
    """One second. Timers are taken from the front; marks work on all that are left."""

    __slots__ = ("_marks", "_next")

    def __init__(self) -> None:
        self._next = 0
        self._marks: dict[str, list[Mark]] | None = None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def add(self, position: int, record: memoryview) -> None:
        """Take a timer that lies at this position of the slice's log."""

    @abstractmethod
    def peek(self) -> tuple[int, bytes | None]:
        """Give position and, if they are kept, bytes of the first timer."""

    @abstractmethod
    def left(self) -> list[tuple[int, bytes | None]]:
        """Give position and, if they are kept, bytes of every timer that is left."""

    def pop(self) -> None:
        """Be done with the first timer."""
        self._next += 1

    @abstractmethod
    def arrange(self) -> None:
        """Put the timers in the order in which they came; before the first is taken.

        They came out of order if some arrived while the slice was being loaded.
        """

    def add_mark(self, key: str, mark: Mark) -> None:
        """Let a mark work on the timers of this second, also on those that come later."""
        if self._marks is None:
            self._marks = {}
        marks = self._marks.setdefault(key, [])
        if mark not in marks:
            marks.append(mark)

    @property
    def marks(self) -> Mapping[str, list[Mark]]:
        """The marks by key."""
        return self._marks or {}


class OffsetCell(Cell):
    """A second that knows where its timers lie."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        super().__init__()
        self._places = array("q")

    def __len__(self) -> int:
        return len(self._places) // 2 - self._next

    def add(self, position: int, record: memoryview) -> None:
        """Note position and size."""
        self._places.append(position)
        self._places.append(len(record))

    def peek(self) -> tuple[int, bytes | None]:
        """Give the first position."""
        return self._places[2 * self._next], None

    def left(self) -> list[tuple[int, bytes | None]]:
        """Give the positions that are left."""
        return [(position, None) for position in self._places[2 * self._next :: 2]]

    def arrange(self) -> None:
        """Sort by position if that is needed."""
        places = self._places
        positions = places[0::2]
        if all(before < after for before, after in pairwise(positions)):
            return
        pairs = sorted(zip(positions, places[1::2], strict=True))
        self._places = array("q", [number for pair in pairs for number in pair])


class MessageCell(Cell):
    """A second that holds its timers."""

    __slots__ = ("_messages",)

    def __init__(self) -> None:
        super().__init__()
        self._messages: list[tuple[int, bytes] | None] = []

    def __len__(self) -> int:
        return len(self._messages) - self._next

    def add(self, position: int, record: memoryview) -> None:
        """Keep a copy."""
        self._messages.append((position, bytes(record)))

    def peek(self) -> tuple[int, bytes | None]:
        """Give the first message."""
        found = self._messages[self._next]
        return (-1, None) if found is None else found

    def left(self) -> list[tuple[int, bytes | None]]:
        """Give the messages that are left."""
        return [one for one in self._messages[self._next :] if one is not None]

    def pop(self) -> None:
        """Let the first message go."""
        self._messages[self._next] = None
        self._next += 1

    def arrange(self) -> None:
        """Sort by position if that is needed."""
        self._messages.sort(key=lambda one: -1 if one is None else one[0])


class SliceWheel:
    """The cells of one slice, and how much of its log has been read into them.

    `load_to` is where the log ended when the wheel was made: what was appended since came here
    directly, so nothing is missed and nothing is read twice.
    """

    def __init__(self, number: int, length: int, *, load_to: int, keeps_messages: bool) -> None:
        self.number = number
        self.first_second = number * length
        self.loaded_to = 0
        self.load_to = load_to
        self._cells: list[Cell | None] = [None] * length
        self._seconds: list[int] = []
        self._make: type[Cell] = MessageCell if keeps_messages else OffsetCell

    @property
    def is_loading(self) -> bool:
        """Whether some of the slice's log is still to be read."""
        return self.loaded_to < self.load_to

    @property
    def next_second(self) -> int | None:
        """The first second that holds a timer; None without any."""
        seconds = self._seconds
        while seconds:
            cell = self.cell(seconds[0])
            if cell is not None and len(cell):
                return seconds[0]
            heappop(seconds)
        return None

    def seconds(self) -> Iterator[int]:
        """Give the seconds that hold a timer, in order."""
        for second in sorted(set(self._seconds)):
            if self.count(second):
                yield second

    def cell(self, second: int) -> Cell | None:
        """Give the cell of a second of this slice; None when nothing was ever in it."""
        return self._cells[second - self.first_second]

    def count(self, second: int) -> int:
        """How many timers a second holds, recalled ones included."""
        cell = self.cell(second)
        return 0 if cell is None else len(cell)

    def add(self, second: int, position: int, record: memoryview) -> None:
        """Take a timer."""
        cell = self._cell(second)
        if not len(cell):
            heappush(self._seconds, second)
        cell.add(position, record)

    def add_mark(self, second: int, key: str, mark: Mark) -> None:
        """Take a mark."""
        self._cell(second).add_mark(key, mark)

    def clear(self, second: int) -> None:
        """Forget a second that is over; one of another slice is none of ours."""
        index = second - self.first_second
        if 0 <= index < len(self._cells):
            self._cells[index] = None

    def _cell(self, second: int) -> Cell:
        cell = self._cells[second - self.first_second]
        if cell is None:
            cell = self._cells[second - self.first_second] = self._make()
        return cell

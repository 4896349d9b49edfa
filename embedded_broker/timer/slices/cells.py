"""The seconds of one slice in memory: what leaves in each of them, and what is taken back.

Answers: which timers are due in a second, in the order in which they came, and which marks remove
some of them. A wheel has one cell for each second of a slice. A cell holds positions in the slice's
log, 8 bytes a timer. Must not know: files, clocks, what a message says.

Read on: `dcommit_log.py` for where positions lead, `engine.py` for when a cell is due.
"""

from array import array
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from embedded_broker.timer.slices.marks import MarkTable


class Cell:
    """Where the timers of one second lie; they are taken from the front."""

    __slots__ = ("_is_ordered", "_next", "_positions")

    def __init__(self) -> None:
        self._is_ordered = True
        self._next = 0
        self._positions = array("q")

    def __len__(self) -> int:
        return len(self._positions) - self._next

    def add(self, position: int) -> None:
        """Take a timer that lies at this position of the slice's log."""
        positions = self._positions
        if positions and position < positions[-1]:
            self._is_ordered = False
        positions.append(position)

    def peek(self) -> int:
        """Give the position of the first timer."""
        return self._positions[self._next]

    def left(self) -> Sequence[int]:
        """Give the position of every timer that is left, in the order in which they came."""
        left = self._positions[self._next :]
        return left if self._is_ordered else sorted(left)

    def pop(self) -> None:
        """Be done with the first timer."""
        self._next += 1

    def arrange(self) -> None:
        """Put the timers in the order in which they came; before the first is taken.

        They came out of order if some arrived while the slice was being loaded.
        """
        if not self._is_ordered:
            self._positions = array("q", sorted(self._positions))
            self._is_ordered = True


class SliceWheel:
    """The cells of one slice, and how much of its log has been read into them.

    `load_to` is where the log ended when the wheel was made: what was appended since came here
    directly, so nothing is missed and nothing is read twice.
    """

    def __init__(self, number: int, length: int, *, load_to: int) -> None:
        self.number = number
        self.first_second = number * length
        self.loaded_to = 0
        self.load_to = load_to
        self._cells: list[Cell | None] = [None] * length
        self._seconds: list[int] = []
        self.marks = MarkTable()
        """They work on all timers of their second that are left, and on those that come later."""

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
        """Give the cell of a second of this slice; None when no timer was ever in it."""
        return self._cells[second - self.first_second]

    def count(self, second: int) -> int:
        """How many timers a second holds, recalled ones included."""
        cell = self.cell(second)
        return 0 if cell is None else len(cell)

    def add(self, second: int, position: int) -> None:
        """Take a timer that lies at this position of the slice's log."""
        index = second - self.first_second
        cell = self._cells[index]
        if cell is None:
            cell = self._cells[index] = Cell()
        if not len(cell):
            heappush(self._seconds, second)
        cell.add(position)

    def clear(self, second: int) -> None:
        """Forget a second that is over; one of another slice is none of ours."""
        index = second - self.first_second
        if 0 <= index < len(self._cells):
            self._cells[index] = None
            self.marks.forget(second)

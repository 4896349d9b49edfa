"""The timer wheel: which TimerLog records belong to which slot of time.

Answers: where the chain of a slot begins and ends, and which slot holds something next. Must not
know: messages, the commit log, clocks. The bytes are those of RocketMQ's `timerwheel` file
(`org.apache.rocketmq.store.timer.TimerWheel` and `Slot`): 32 bytes a slot, twice as many slots as
the longest hop may span, so that slots still to be read and slots being written never share a
place. Only a flush copies changed pages of the working copy into the file.

Read on: `timer_log.py` for the records that a slot points to, `engine.py` for who moves along.
"""

import mmap
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple
from zlib import crc32

from attrs import frozen

from embedded_broker.errors import StoreDamagedError
from embedded_broker.store.damaged_folder import set_aside, ways_out
from embedded_broker.store.fs import FileSystem, Segment
from embedded_broker.store.memory_fs import private_pages

SLOT_SIZE: Final = 32
SLOTS_DEFAULT: Final = 7 * 86_400
"""S, half of the wheel: the original's fixed number, whatever the precision."""

_SLOT: Final = struct.Struct(">qqqii")
_CHAIN: Final = struct.Struct(">qqq")
_PAGE_SHIFT: Final = 7
_PAGE_SIZE: Final = SLOT_SIZE << _PAGE_SHIFT


class Slot(NamedTuple):
    """One slot: its time in ms, first and last TimerLog position, live estimate, unused magic."""

    time_ms: int
    first_pos: int
    last_pos: int
    num: int
    magic: int


NO_SLOT: Final = Slot(-1, -1, -1, 0, 0)
"""What a time without a record looks like."""


@frozen
class WheelFlush:
    """Changed pages, captured under the door; `run` writes and syncs them outside it."""

    segment: Segment
    pages: dict[int, bytes]

    def run(self) -> None:
        """Copy the pages into the file and sync it."""
        for number, page in self.pages.items():
            self.segment.write(number * _PAGE_SIZE, page)
        if self.pages:
            self.segment.sync()


class TimerWheel:
    """2·S slots of `precision_ms` each, in memory, backed by the file at `path`.

    A slot also counts as *waiting* from its first record until `leave`: the engine leaves a slot
    when it loads it, and asks `next_waiting` which one comes after. That mark lives in memory
    only; `load` and `mark_waiting` rebuild it.
    """

    def __init__(
        self, fs: FileSystem, path: str, *, slots: int = SLOTS_DEFAULT, precision_ms: int
    ) -> None:
        self._fs = fs
        self._path = path
        self.precision_ms = precision_ms
        self.slots_total = 2 * slots
        self.file_size = self.slots_total * SLOT_SIZE
        self._bytes = _zeros(self.file_size)
        self._waiting = bytearray(self.slots_total)
        self._dirty: set[int] = set()
        self._used: set[int] = set()
        self._segment: Segment | None = None
        self._far: list[int] = []
        self._next: int | None = None
        self._next_known = True

    # --- slots ---------------------------------------------------------------------------

    def get_slot(self, time_ms: int) -> Slot:
        """Give the slot of this time, `NO_SLOT` when the place holds another time or nothing."""
        unit = time_ms // self.precision_ms
        at = unit % self.slots_total * SLOT_SIZE
        stored, first, last, num, magic = _SLOT.unpack_from(self._bytes, at)
        if stored != unit or stored == 0:
            return NO_SLOT
        return Slot(stored * self.precision_ms, first, last, num, magic)

    def last_pos(self, time_ms: int) -> int:
        """Give where the chain of this time ends; -1 when the place holds something else."""
        unit = time_ms // self.precision_ms
        stored, _, last = _CHAIN.unpack_from(self._bytes, unit % self.slots_total * SLOT_SIZE)
        return last if stored == unit and unit else -1

    def stored_time_ms(self, time_ms: int) -> int:
        """Give the time that now holds the place which `time_ms` would use; 0 when none does."""
        at = time_ms // self.precision_ms % self.slots_total * SLOT_SIZE
        return int.from_bytes(self._bytes[at : at + 8], "big", signed=True) * self.precision_ms

    def put_slot(
        self,
        time_ms: int,
        first_pos: int,
        last_pos: int,
        num: int | None = None,
        magic: int | None = None,
        *,
        waiting: bool = True,
    ) -> None:
        """Write a slot; without `num` and `magic` those bytes stay, even of another time.

        With `waiting` False the slot is one that the engine has already loaded.
        """
        unit = time_ms // self.precision_ms
        index = unit % self.slots_total
        at = index * SLOT_SIZE
        if num is None or magic is None:
            _, _, _, old_num, old_magic = _SLOT.unpack_from(self._bytes, at)
            num = old_num if num is None else num
            magic = old_magic if magic is None else magic
        _SLOT.pack_into(self._bytes, at, unit, first_pos, last_pos, num, magic)
        self._dirty.add(index >> _PAGE_SHIFT)
        if waiting:
            self._waiting[index] = 1
            if self._next_known and (self._next is None or time_ms < self._next):
                self._next = unit * self.precision_ms

    def clear(self) -> None:
        """Make every place empty, also one whose slot a torn write has left in the wrong one."""
        self._used |= self._dirty
        for page in self._used:
            start, end = page * _PAGE_SIZE, min((page + 1) * _PAGE_SIZE, self.file_size)
            self._bytes[start:end] = bytes(end - start)
        self._dirty |= self._used
        self._waiting = bytearray(self.slots_total)
        self._far = []
        self._next_known = False

    def get_num(self, time_ms: int) -> int:
        """Give the live estimate of one slot."""
        return self.get_slot(time_ms).num

    def used_slots(self) -> Iterator[Slot]:
        """Go through every slot that was ever written, in place order, consumed ones too.

        Pages that nothing was written to are not touched.
        """
        for _, (unit, first, last, num, magic) in self._used_places():
            yield Slot(unit * self.precision_ms, first, last, num, magic)

    def _used_places(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Give index and bytes, read as numbers, of every place that is not empty."""
        self._used |= self._dirty
        for page in sorted(self._used):
            content = bytes(self._bytes[page * _PAGE_SIZE : (page + 1) * _PAGE_SIZE])
            for index, found in enumerate(_SLOT.iter_unpack(content), page << _PAGE_SHIFT):
                if found[0]:
                    yield index, found

    # --- which slot is next ----------------------------------------------------------------

    def leave(self, time_ms: int) -> None:
        """Stop counting the slot as waiting: it is loaded, or behind the reader."""
        index = time_ms // self.precision_ms % self.slots_total
        self._waiting[index] = 0
        if self._next == time_ms:
            self._next_known = False
        if self._far and time_ms in self._far:
            self._far.remove(time_ms)

    def wait_again(self, time_ms: int) -> None:
        """Undo `leave`."""
        index = time_ms // self.precision_ms % self.slots_total
        self._waiting[index] = 1
        self._next_known = False

    def mark_waiting(self, from_ms: int) -> None:
        """Count exactly the slots at or after `from_ms` as waiting, as the file has them.

        Slots more than one turn of the wheel ahead occur after a crash that followed a long clock
        jump: their time comes when the reader is near enough.
        """
        waiting = self._waiting = bytearray(self.slots_total)
        first, total = from_ms // self.precision_ms, self.slots_total
        units = [found[0] for _, found in self._used_places() if found[0] >= first]
        for unit in units:
            if unit - first < total:
                waiting[unit % total] = 1
        self._far = sorted(unit * self.precision_ms for unit in units if unit - first >= total)
        self._next_known = False

    def next_waiting(self, from_ms: int) -> int | None:
        """Give the earliest waiting slot at or after `from_ms`; cheap while nothing changes."""
        if not self._next_known or (self._next is not None and self._next < from_ms):
            self._next = self._find_waiting(from_ms)
            self._next_known = True
        return self._next

    def waiting_after(self, from_ms: int, read_ms: int) -> int | None:
        """Give the earliest waiting slot at or after `from_ms` of those the reader has ahead.

        For who only looks: `read_ms` is the read pointer, and nothing is changed.
        """
        marks = self._waiting
        turn_ms = self.slots_total * self.precision_ms
        from_ms = max(from_ms, read_ms)
        # Those that were far when the store was opened may have come near meanwhile.
        far_ms = next((time_ms for time_ms in self._far if time_ms >= from_ms), None)
        if from_ms < read_ms + turn_ms:
            begin = from_ms // self.precision_ms % self.slots_total
            end = read_ms // self.precision_ms % self.slots_total
            index = marks.find(1, begin, end if end > begin else self.slots_total)
            if index < 0 and end <= begin:
                index = marks.find(1, 0, end)
            if index >= 0:
                near_ms = self.stored_time_ms(index * self.precision_ms)
                return near_ms if far_ms is None else min(near_ms, far_ms)
        return far_ms

    def _find_waiting(self, from_ms: int) -> int | None:
        begin = from_ms // self.precision_ms % self.slots_total
        reach_ms = from_ms + self.slots_total * self.precision_ms
        while self._far and self._far[0] < reach_ms:
            index = self._far.pop(0) // self.precision_ms % self.slots_total
            self._waiting[index] = 1
        index = self._waiting.find(1, begin)
        if index < 0:
            index = self._waiting.find(1, 0, begin)
        if index < 0:
            return self._far[0] if self._far else None
        return self.stored_time_ms(index * self.precision_ms)

    # --- file ------------------------------------------------------------------------------

    def load(self, *, mended: list[str] | None = None) -> bool:
        """Read the file if there is one and say whether there was.

        Raises StoreDamagedError when the file has another length than this wheel: the number of
        slots belongs to the store. With `mended` it is set aside instead, and told there.
        """
        if not self._fs.exists(self._path):
            return False
        found = self._fs.size(self._path)
        if found == 0:
            return False
        if found != self.file_size and mended is not None:
            kept = set_aside(self._fs, self._path)
            mended.append(
                f"{self._path} had {found} instead of {self.file_size} bytes: moved to {kept}, and "
                "made again from the timer log"
            )
            return False
        if found != self.file_size:
            raise StoreDamagedError(
                f"{self._path} has {found} bytes, this wheel needs {self.file_size}: "
                f"{self.slots_total} slots of {SLOT_SIZE}. {ways_out(self._fs)}"
            )
        segment = self._open()
        nothing = bytes(_PAGE_SIZE)
        for start in range(0, segment.data_end(), _PAGE_SIZE):
            length = min(_PAGE_SIZE, self.file_size - start)
            page = segment.read(start, length)
            if page != nothing[:length]:
                self._bytes[start : start + length] = page
                self._used.add(start // _PAGE_SIZE)
        self._dirty.clear()
        return True

    def check_sum(self) -> int:
        """Give a check sum of every slot."""
        self._used |= self._dirty
        found, nothing = 0, bytes(_PAGE_SIZE)
        for page in sorted(self._used):
            content = bytes(self._bytes[page * _PAGE_SIZE : (page + 1) * _PAGE_SIZE])
            if content != nothing[: len(content)]:
                found = crc32(content, crc32(page.to_bytes(4), found))
        return found

    def begin_flush(self) -> WheelFlush:
        """Capture what changed since the last flush."""
        working = self._bytes
        pages = {
            number: bytes(working[number * _PAGE_SIZE : (number + 1) * _PAGE_SIZE])
            for number in sorted(self._dirty)
        }
        self._used |= self._dirty
        self._dirty.clear()
        return WheelFlush(self._open(), pages)

    def flush_failed(self, work: WheelFlush) -> None:
        """Count the captured pages as changed again."""
        self._dirty.update(work.pages)

    def close(self) -> None:
        """Close the file without flushing."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None

    def _open(self) -> Segment:
        if self._segment is None:
            self._segment = self._fs.open_segment(self._path, self.file_size)
        return self._segment


def _zeros(size: int) -> mmap.mmap:
    pages = private_pages(size)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a kernel without huge pages
            pages.madvise(mmap.MADV_NOHUGEPAGE)  # else one used slot costs 2 MiB
    return pages

"""The log of each time slice: the whole messages that wait for a second of it.

Answers: where the bytes of a waiting timer lie. `dcommitlog/<slice>/<20-digit offset>`, files of
`mappedFileSizeDCommitLog` bytes. A record is the commit log's own, byte for byte; one that does
not fit in the rest of a file leaves it blank, with the eight bytes that the commit log writes
then. Only appended to; a slice goes as a whole once its time has passed. So the body of a timer
for next month does not depend on how long the commit log keeps its files.

Must not know: seconds in memory, which messages are done, when to flush. A slice's log needs only
its end in memory, not its files (`SliceHandles`).

Read on: `recovery.py` for how the end of a log is found again.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from attrs import define, field, frozen

from embedded_broker.errors import StoreError
from embedded_broker.store.commit_log import BLANK_SIZE_MIN
from embedded_broker.store.fs import FileSystem, Segment
from embedded_broker.store.mapped_file import NAME_DIGITS, zero_tail
from rocketmq_py.protocol.message_codec import MAGIC_BLANK

DCOMMIT_LOG_FOLDER: Final = "dcommitlog"
OPEN_FILES_MAX: Final = 32
_SIZE_AND_MAGIC: Final = Struct(">ii")

SliceFile = tuple[int, int]
"""A file, by the number of its slice and the position that it begins at."""


class SliceSum(NamedTuple):
    """What a slice's log held up to `end` when that became durable: by this it is known again."""

    end: int = 0
    records: int = 0
    crc: int = 0
    """CRC-32 of all bytes before `end`."""


@define(slots=True)
class SliceLog:
    """What is known of a slice's log without opening it."""

    end: int = 0
    """Where the next record goes."""
    records: int = 0
    summed: SliceSum = field(factory=SliceSum)
    """Of what the last flush made durable."""
    soiled_to: int = 0
    """Up to here a refused write may have left bytes behind the end."""


@frozen
class SliceSync:
    """Files, and folders of slices, to sync; captured under the door, `run` it outside.

    `logs` tells of every slice how its log stood then: its end, its records, its last sum.
    """

    fs: FileSystem
    file_size: int
    files: tuple[SliceFile, ...]
    open_files: dict[SliceFile, Segment]
    folders: tuple[int, ...]
    logs: Mapping[int, tuple[int, int, SliceSum]]

    def run(self) -> dict[int, SliceSum]:
        """Make everything durable; gives the sums of all slices. Raises StoreError."""
        sums = {number: log[2] for number, log in self.logs.items()}
        for file in self.files:
            segment = self.open_files.get(file)
            if segment is not None:
                self._sync(file, segment, sums)
                continue
            segment = self.fs.open_segment(path_of(file), self.file_size, create=False)
            try:
                self._sync(file, segment, sums)
            finally:
                segment.close()
        for number in self.folders:
            self.fs.sync_dir(folder_of(number))
        return sums

    def _sync(self, file: SliceFile, segment: Segment, sums: dict[int, SliceSum]) -> None:
        segment.sync()
        number, start = file
        end, records, known = self.logs.get(number, (0, 0, SliceSum()))
        known = sums.get(number, known)
        upto = min(end, start + self.file_size)
        if start <= known.end < upto:
            # Read here and not where records are appended: no put waits for it.
            data = segment.view(known.end - start, upto - known.end)
            sums[number] = SliceSum(upto, records, crc32(data, known.crc))


class SliceHandles:
    """The open files of all slices, the one used last at the end; at most `most`.

    Forty days have nearly two thousand slices, so only the files used last are open; those of the
    slices in memory are given up last. A flush syncs files outside the door. A handle that it was
    given is not closed under its hands: it is put aside and closed when the next flush begins.
    """

    def __init__(self, fs: FileSystem, file_size: int, *, most: int = OPEN_FILES_MAX) -> None:
        self._fs = fs
        self._most = most
        self.file_size = file_size
        self._open: OrderedDict[SliceFile, Segment] = OrderedDict()
        self._in_flush: set[SliceFile] = set()
        self._aside: list[Segment] = []
        self.keep: Collection[int] = ()
        """The slices in memory: their files are closed last."""
        self.opened = 0
        """How often a file was opened."""

    def __len__(self) -> int:
        return len(self._open) + len(self._aside)

    def get(self, file: SliceFile, *, create: bool = False) -> Segment:
        """Open a file, or give the open one. Raises StoreError."""
        found = self._open.get(file)
        if found is not None:
            self._open.move_to_end(file)
            return found
        found = self._fs.open_segment(path_of(file), self.file_size, create=create)
        self.opened += 1
        self._open[file] = found
        if len(self._open) > self._most:
            self._give_up_one()
        return found

    def lend(self, files: Collection[SliceFile]) -> dict[SliceFile, Segment]:
        """Give those of these files that are open to a flush; the one before has ended."""
        for segment in self._aside:
            segment.close()
        self._aside.clear()
        lent = {file: self._open[file] for file in files if file in self._open}
        self._in_flush = set(lent)
        return lent

    def forget(self, number: int) -> None:
        """Close the files of a slice."""
        for file in [one for one in self._open if one[0] == number]:
            self._close(file)

    def close(self) -> None:
        """Close everything."""
        for segment in (*self._open.values(), *self._aside):
            segment.close()
        self._open.clear()
        self._aside.clear()
        self._in_flush = set()

    def _give_up_one(self) -> None:
        candidates = list(self._open)[:-1]
        others = (one for one in candidates if one[0] not in self.keep)
        self._close(next(others, candidates[0]))

    def _close(self, file: SliceFile) -> None:
        segment = self._open.pop(file)
        if file in self._in_flush:
            self._in_flush.discard(file)
            self._aside.append(segment)
        else:
            segment.close()


class DCommitLog:
    """The logs of all slices that have one, by slice number."""

    def __init__(
        self, fs: FileSystem, file_size: int, *, open_files_max: int = OPEN_FILES_MAX
    ) -> None:
        self.fs = fs
        self.file_size = file_size
        self.slices: dict[int, SliceLog] = {}
        self.handles = SliceHandles(fs, file_size, most=open_files_max)
        self._first_after: tuple[int, int | None] | None = None
        self._unsynced: set[SliceFile] = set()
        self._new_names: set[int] = set()
        """Slices whose folders have new files."""

    @property
    def record_size_max(self) -> int:
        """The largest record that a file can hold."""
        return self.file_size - BLANK_SIZE_MIN

    # --- writing -----------------------------------------------------------------------------

    def append(self, number: int, record: bytes | memoryview) -> int:
        """Write a record at the end of a slice's log; gives its position there.

        Raises StoreError when the disk refuses: then nothing has moved.
        """
        log = self.slices.get(number) or SliceLog()
        size = len(record)
        at = log.end
        inside = at % self.file_size
        if inside and inside + size + BLANK_SIZE_MIN > self.file_size:
            room = self.file_size - inside
            if room >= BLANK_SIZE_MIN:
                self._write(number, log, at, _SIZE_AND_MAGIC.pack(room, MAGIC_BLANK))
            at += room
        self._write(number, log, at, record)
        log.end = at + size
        log.records += 1
        if number not in self.slices:
            self._first_after = None
            self.slices[number] = log
        return at

    def _write(self, number: int, log: SliceLog, at: int, data: bytes | memoryview) -> None:
        file, inside = self._place(number, at)
        if inside == 0:
            self._new_names.add(number)
        segment = self.handles.get(file, create=inside == 0)
        if log.soiled_to > at:
            # What a refused write left behind would look like the rest of a torn one.
            soiled = min(log.soiled_to - at + inside, self.file_size)
            segment.write(inside, bytes(soiled - inside))
            log.soiled_to = 0
        self._unsynced.add(file)
        try:
            segment.write(inside, data)
        except StoreError:
            log.soiled_to = max(log.soiled_to, at + len(data))
            self.slices.setdefault(number, log)
            self._first_after = None
            raise

    # --- reading -----------------------------------------------------------------------------

    def read(self, number: int, position: int) -> memoryview | None:
        """Show the record at a position; None when there is none below the log's end."""
        log = self.slices.get(number)
        if log is None or not 0 <= position < log.end:
            return None
        file, inside = self._place(number, position)
        if self.file_size - inside < _SIZE_AND_MAGIC.size:
            return None
        segment = self.handles.get(file)
        size, _ = _SIZE_AND_MAGIC.unpack(segment.view(inside, _SIZE_AND_MAGIC.size))
        if not 0 < size <= self.file_size - inside or position + size > log.end:
            return None
        return segment.view(inside, size)

    def scan(
        self, number: int, start: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, memoryview]]:
        """Give position and bytes of each record from `start` up to `end` (None: the log's).

        Between two records time may pass: it ends where the slice is over meanwhile.
        """
        log = self.slices.get(number)
        if log is None:
            return
        stop = log.end if end is None else end
        position = start
        while position < stop:
            skipped = self.skip_blank(number, position)
            if skipped != position:
                position = skipped
                continue
            record = self.read(number, position)
            if record is None:
                return
            size = len(record)
            yield position, record
            if self.slices.get(number) is not log:
                return  # its files may be gone
            position += size

    def skip_blank(self, number: int, position: int) -> int:
        """Give where the next record is if it is blank here, else the position.

        Blank is the rest of a file, or what a repair left out.
        """
        file, inside = self._place(number, position)
        room = self.file_size - inside
        if room < BLANK_SIZE_MIN:
            return position + room
        head = self.handles.get(file).view(inside, _SIZE_AND_MAGIC.size)
        size, magic = _SIZE_AND_MAGIC.unpack(head)
        is_blank = magic == MAGIC_BLANK and BLANK_SIZE_MIN <= size <= room
        return position + size if is_blank else position

    def sum_to(self, number: int, end: int, records: int, known: SliceSum) -> SliceSum:
        """Give the sum of a slice's log up to `end`, from a sum that is known."""
        at, crc = known.end, known.crc
        while at < end:
            file, inside = self._place(number, at)
            length = min(end - at, self.file_size - inside)
            crc = crc32(self.handles.get(file).view(inside, length), crc)
            at += length
        return SliceSum(end, records, crc)

    # --- life --------------------------------------------------------------------------------

    def begin_sync(self) -> SliceSync:
        """Capture what is not durable yet."""
        files = tuple(sorted(self._unsynced))
        folders = tuple(sorted(self._new_names))
        self._unsynced.clear()
        self._new_names.clear()
        logs = {number: (log.end, log.records, log.summed) for number, log in self.slices.items()}
        return SliceSync(self.fs, self.file_size, files, self.handles.lend(files), folders, logs)

    def take_sums(self, sums: Mapping[int, SliceSum]) -> None:
        """Remember the sums of a sync that was carried out."""
        for number, one in sums.items():
            log = self.slices.get(number)
            if log is not None:
                log.summed = one

    def sync_failed(self, sync: SliceSync) -> None:
        """Note that a sync was not carried out."""
        self._unsynced |= {file for file in sync.files if file[0] in self.slices}
        self._new_names |= {number for number in sync.folders if number in self.slices}

    def first_after(self, number: int) -> int | None:
        """Give the first slice behind another one; cheap while no slice comes or goes."""
        found = self._first_after
        if found is None or found[0] != number:
            later = min((one for one in self.slices if one > number), default=None)
            found = self._first_after = (number, later)
        return found[1]

    def drop(self, number: int) -> None:
        """Forget a slice; `remove_slice` takes its files away once that is safe."""
        self._first_after = None
        self.slices.pop(number, None)
        self.handles.forget(number)
        self._new_names.discard(number)
        self._unsynced = {file for file in self._unsynced if file[0] != number}

    def close(self) -> None:
        """Give every file back; nothing is synced."""
        self.handles.close()

    def found_slices(self) -> list[int]:
        """Give the numbers of the slices that have files, sorted; empty folders are removed."""
        numbers = []
        for name in self.fs.list(DCOMMIT_LOG_FOLDER):
            if not name.isdecimal():
                raise StoreError(f"{DCOMMIT_LOG_FOLDER}/{name}: not the number of a time slice")
            number = int(name)
            if self.fs.list(folder_of(number)):
                numbers.append(number)
            else:
                self.fs.remove(folder_of(number))
        return sorted(numbers)

    def files_of(self, number: int) -> list[int]:
        """Give the start offsets of a slice's files, sorted, up to the first gap."""
        starts = []
        for name in self.fs.list(folder_of(number)):
            if len(name) != NAME_DIGITS or not name.isdecimal():
                raise StoreError(f"{folder_of(number)}/{name}: not a file name of 20 digits")
            starts.append(int(name))
        return [one for index, one in enumerate(starts) if one == index * self.file_size]

    def truncate(self, number: int, end: int, *, durable_to: int = 0) -> int:
        """End a slice's log: later files go, the rest of its file becomes zero.

        Everything from `durable_to` on is durable afterwards: a process that was killed had
        perhaps not synced it. Gives how many bytes were given up that were not zero.
        """
        lost = 0
        folder = folder_of(number)
        self.handles.forget(number)
        last = (end - 1) // self.file_size * self.file_size if end else -1
        for name in self.fs.list(folder):
            if int(name) > last:
                path = f"{folder}/{name}"
                if self.fs.size(path):
                    lost += self.handles.get((number, int(name))).data_end()
                    self.handles.forget(number)
                self.fs.remove(path)
        if end:
            file, inside = self._place(number, end - 1)
            lost += zero_tail(self.handles.get(file), inside + 1)
            for start in range(durable_to - durable_to % self.file_size, end, self.file_size):
                self.handles.get((number, start)).sync()
        if self.fs.exists(folder):
            self.fs.sync_dir(folder)
        return lost

    def _place(self, number: int, position: int) -> tuple[SliceFile, int]:
        inside = position % self.file_size
        return (number, position - inside), inside


def path_of(file: SliceFile) -> str:
    """Give the path of a file."""
    number, start = file
    return f"{folder_of(number)}/{start:0{NAME_DIGITS}d}"


def folder_of(number: int) -> str:
    """Give the folder of a slice."""
    return f"{DCOMMIT_LOG_FOLDER}/{number}"


def remove_slice(fs: FileSystem, number: int) -> None:
    """Remove the files of a slice that nobody uses any more, the newest first. Raises StoreError.

    The newest first, so that what a crash leaves has no gap.
    """
    folder = folder_of(number)
    for name in reversed(fs.list(folder)):
        fs.remove(f"{folder}/{name}")
    fs.remove(folder)

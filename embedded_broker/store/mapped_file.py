"""Mapped file queue: many files of one size, used as one endless log.

A queue of files named by their start offset in 20 digits; offsets never start again. Bytes are
appended at ``max_offset`` and read anywhere between ``min_offset`` and ``max_offset``. Must not
know: what a record is; the owner decides where one file ends early and where the data end after a
crash. Names, sizes and the rule for an empty last file as in ``MappedFileQueue`` and
``DefaultMappedFile``. Read on: ``commit_log.py``, ``consume_queue.py``, ``fs.py``.
"""

from collections.abc import Callable, Iterator, Sequence

from attrs import define, field, frozen

from embedded_broker.errors import StoreDamagedError, StoreError
from embedded_broker.store.damaged_folder import keep_range, set_aside, ways_out
from embedded_broker.store.fs import Buffer, FileSystem, Segment
from rocketmq_py.logs import get_logger

_LOG = get_logger(__name__)

NAME_DIGITS = 20
_CHUNK = 65_536
_MISSING_MAX = 1000
_ZEROS = bytes(_CHUNK)


@frozen
class SyncPlan:
    """What one queue must sync so that everything below ``upto`` is durable.

    Made under the owner's lock, carried out anywhere: it touches nothing but segments.
    """

    queue: "MappedFileQueue"
    segments: Sequence[Segment]
    upto: int
    files_made: int

    def run(self) -> None:
        """Sync, then move the queue's ``flushed_offset``. Raises ``StoreError``."""
        for segment in self.segments:
            segment.sync()
        self.queue.synced(self)


@define(eq=False, repr=False)
class MappedFileQueue:
    """Files of ``file_size`` bytes in ``directory``, used as one log.

    Nothing is opened before ``load``; a queue that was never loaded is an empty new one.
    """

    fs: FileSystem
    directory: str
    file_size: int
    min_offset: int = field(default=0, init=False)
    max_offset: int = field(default=0, init=False)
    flushed_offset: int = field(default=0, init=False)
    _segments: list[Segment] = field(factory=list, init=False)
    _last: Segment | None = field(default=None, init=False)
    _file_at: int = field(default=0, init=False)  # start offset of the last file
    _soiled_to: int = field(default=0, init=False)
    _files_made: int = field(default=0, init=False)
    _files_named: int = field(default=0, init=False)  # of them, those with a durable folder entry

    def load(self, *, cut_at_gap: bool = False, mended: list[str] | None = None) -> bool:
        """Open every file that exists; ``max_offset`` becomes the end of the last one.

        The owner then finds the true end and calls ``truncate_to``. An empty last file is
        removed, as the original does. Raises ``StoreDamagedError`` for a file of another length, a
        foreign name, or a gap between two files. With ``cut_at_gap`` the files from there on are
        removed instead, and False returned. With ``mended`` zeros stand for what is missing, and
        what was done is added to it, a line each.
        """
        starts = self._existing(mended)
        whole = True
        for position, start in enumerate(starts):
            path, follows = self._path(start), starts[0] + len(self._segments) * self.file_size
            wrong = self._wrong_with(start, follows, is_last=position == len(starts) - 1)
            if wrong is None:
                self._segments.append(
                    self.fs.open_segment(path, self.file_size, create=False, may_rest=True)
                )
            elif cut_at_gap:
                _LOG.warning("removed, to be made again: %s %s", *wrong)
                self.fs.remove(path)
                whole = False
            elif mended is None:
                raise self._damaged(*wrong)
            else:
                mended.append(f"{wrong[0]} {wrong[1]}: zeros stand in its place")
                self._stand_in(start, follows)
        if self._segments:
            self.min_offset = starts[0]
            self._file_at = starts[0] + (len(self._segments) - 1) * self.file_size
            self._last = self._segments[-1]
            self.max_offset = self.flushed_offset = self._file_at + self.file_size
        return whole

    def _wrong_with(self, start: int, follows: int, *, is_last: bool) -> tuple[str, str] | None:
        """Give a file and what is wrong with it; None when the file at ``start`` can be opened."""
        if start != follows:
            return self._path(follows), f"is missing, though there is {self._name(start)}"
        if start % self.file_size:
            what = f"has a name that is no multiple of the files' length, {self.file_size}"
            return self._path(start), what
        length = self.fs.size(self._path(start))
        if length == self.file_size or (is_last and not length):
            return None
        return self._path(start), f"has a length of {length} instead of {self.file_size} bytes"

    def _stand_in(self, start: int, follows: int) -> None:
        """Make the files from ``follows`` to ``start``, with what there is of the last of them."""
        if start % self.file_size or start - follows > _MISSING_MAX * self.file_size:
            raise StoreError(
                f"{self._path(start)}: too far from its predecessor to be mended. Move this file "
                "out of the folder"
            )
        for missing in range(follows, start, self.file_size):
            self._segments.append(self.fs.open_segment(self._path(missing), self.file_size))
        path, data = self._path(start), b""
        if self.fs.size(path) not in {0, self.file_size}:
            data = self.fs.read_file(path)[: self.file_size]
            set_aside(self.fs, path)
        segment = self.fs.open_segment(path, self.file_size)
        if data:
            segment.write(0, data)
            segment.sync()
        self._segments.append(segment)
        self.fs.sync_dir(self.directory)

    def start_at(self, offset: int) -> None:
        """Let an empty queue begin at a later offset: the first file is the one that holds it."""
        if self._segments:
            raise StoreError(f"{self.directory}: cannot start at {offset}, there are files")
        self.min_offset = offset - offset % self.file_size
        self.max_offset = self.flushed_offset = offset

    @property
    def files(self) -> list[tuple[int, Segment]]:
        """The start offset and segment of every file, oldest first."""
        first = self.min_offset - self.min_offset % self.file_size
        return [(first + i * self.file_size, one) for i, one in enumerate(self._segments)]

    @property
    def room(self) -> int:
        """Bytes that still fit in the file at ``max_offset``."""
        return self.file_size - self.max_offset % self.file_size

    def append(self, data: Buffer) -> int:
        """Write at the end; returns the offset where it lies.

        The data must fit in ``room``. Raises ``StoreError`` if the disk refuses; then nothing
        has moved and the next append overwrites what was written.
        """
        at = self.max_offset
        inside = at - self._file_at
        last = self._last
        if last is None or inside >= self.file_size:
            last = self._new_file(at)
            inside = at - self._file_at
        end = inside + len(data)
        if end > self.file_size:
            raise StoreError(
                f"{self.directory}: {len(data)} bytes do not fit behind {at} in a file of "
                f"{self.file_size} bytes"
            )
        if self._soiled_to > at:
            # What a refused write left behind would look like the rest of a torn one.
            soiled = min(self._soiled_to - self._file_at, self.file_size)
            last.write(inside, bytes(soiled - inside))
            self._soiled_to = 0
        try:
            last.write(inside, data)
        except StoreError:
            self._soiled_to = max(self._soiled_to, at + len(data))
            raise
        self.max_offset = self._file_at + end
        return at

    def take_back(self, offset: int) -> None:
        """Undo the appends since ``max_offset`` was ``offset``.

        For an owner that could not finish what the appends belong to. The bytes become zero; if
        even that fails it is logged, and the next append overwrites them.
        """
        length = self.max_offset - offset
        try:
            if offset < self._file_at:
                self.truncate_to(offset)
            elif self._last is not None and length:
                self._last.write(offset - self._file_at, bytes(length))
        except StoreError:
            _LOG.warning("taken back but not erased: %s at %d", self.directory, offset)
        self.max_offset = offset

    def skip_to_next_file(self) -> None:
        """Leave the rest of the current file unused: the next append opens a new one."""
        self.max_offset += self.room % self.file_size

    def write(self, offset: int, data: Buffer) -> None:
        """Overwrite bytes inside one existing file, below ``max_offset``."""
        segment, inside = self.locate(offset)
        segment.write(inside, data)

    def read(self, offset: int, length: int) -> memoryview | None:
        """Show bytes of one file; None when they are not all below ``max_offset`` in one file."""
        if offset < self.min_offset or offset + length > self.max_offset or length < 0:
            return None
        inside = offset - self._file_at
        if inside >= 0:
            last = self._last
            return None if last is None else last.view(inside, length)
        segment, inside = self.locate(offset)
        return segment.view(inside, length) if inside + length <= self.file_size else None

    def read_file_from(self, offset: int, *, with_zeros: bool = False) -> memoryview:
        """Show the rest of the file that holds the offset, up to ``max_offset``; may be empty.

        Zeros behind the last byte that was ever written are left out, unless they are asked for.
        """
        if not self.min_offset <= offset < self.max_offset:
            return memoryview(b"")
        segment, inside = self.locate(offset)
        end = min(self.file_size, inside + self.max_offset - offset)
        if not with_zeros:
            end = min(end, segment.data_end())
        return segment.view(inside, end - inside) if end > inside else memoryview(b"")

    def read_up_to(self, offset: int, most: int) -> memoryview:
        """Show at most so many bytes of the file that holds the offset, written or not.

        All of them lie below ``max_offset``; there may be none.
        """
        if not self.min_offset <= offset < self.max_offset:
            return memoryview(b"")
        segment, inside = self._last, offset - self._file_at
        left = self.max_offset - offset
        if segment is None or inside < 0:
            segment, inside = self.locate(offset)
            left = min(left, self.file_size - inside)
        return segment.view(inside, min(left, most))

    def chunks(
        self, start: int, end: int, *, with_zeros: bool = False
    ) -> Iterator[tuple[int, memoryview]]:
        """Go through a range file by file: offset and bytes of each part."""
        end = min(end, self.max_offset)
        while self.min_offset <= start < end:
            part = self.read_file_from(start, with_zeros=with_zeros)
            if part:
                yield start, part[: end - start]
            start += self.file_size - start % self.file_size

    def data_end(self) -> int:
        """Give an offset from which on everything is zero, by what the files hold."""
        for start, segment in reversed(self.files):
            end = segment.data_end()
            if end:
                return start + end
        return self.min_offset

    def used_behind(self, offset: int) -> int:
        """Count the bytes behind an offset, up to the last one that is not zero."""
        for start, segment in reversed(self.files):
            at = max(0, offset - start)
            if at < self.file_size and (end := _last_data(segment, at)) > at:
                return start + end - offset
        return 0

    def used_in_file(self, offset: int) -> bool:
        """Whether anything but zeros lies in a file from an offset on."""
        if offset % self.file_size == 0:
            return False
        segment, inside = self.locate(offset)
        return _last_data(segment, inside) > inside

    def end_at(self, offset: int) -> None:
        """Show nothing behind an offset, though it is not cut yet: nothing may be appended."""
        self.max_offset = offset

    def truncate_to(self, offset: int, kept: list[str] | None = None) -> int:
        """End the log at an offset: later files go, the tail of its file becomes zero.

        Everything is durable when it returns. Returns how many bytes were given up, counted to
        the last one that was not zero. With ``kept`` they are copied to ``damaged/`` before, and
        the copies' names are added to it; if that fails nothing is cut.
        """
        lost = 0
        for start, segment in self.files if kept is not None else ():
            if kept is not None and start + self.file_size > offset:
                begin = max(0, offset - start)
                kept += keep_range(self.fs, segment, begin, self.file_size)
        while self._segments and self._file_at > offset:
            segment = self._segments.pop()
            end = _last_data(segment, 0)
            lost = max(lost, self._file_at + end - offset if end else 0)
            segment.close()
            self.fs.remove(segment.path)
            self._last = self._segments[-1] if self._segments else None
            self._file_at -= self.file_size
        if self._last is not None and offset - self._file_at < self.file_size:
            lost = max(lost, zero_tail(self._last, offset - self._file_at))
        self.min_offset = min(self.min_offset, offset)
        self.max_offset = offset
        self._make_durable()
        return lost

    def _make_durable(self) -> None:
        """Sync what is there, names included: a process that was killed may not have done it."""
        for segment in self._segments:
            segment.sync()
        if self.fs.exists(self.directory):
            self.fs.sync_dir(self.directory)
        self._files_named = self._files_made
        self.flushed_offset = self.max_offset

    def let_go_before(self, offset: int) -> Callable[[], None] | None:
        """Forget the files that end at or before an offset, never the last one.

        As ``MappedFileQueue.deleteExpiredFileByOffset``. Gives the work that removes them, to be
        run outside the door; None when there are none.
        """
        gone: list[Segment] = []
        first = self.min_offset - self.min_offset % self.file_size
        while len(self._segments) > 1 and first + self.file_size <= offset:
            gone.append(self._segments.pop(0))
            first += self.file_size
        if not gone:
            return None
        self.min_offset = first

        def remove() -> None:
            for segment in gone:
                segment.close()
                self.fs.remove(segment.path)
            self.fs.sync_dir(self.directory)

        return remove

    def plan_sync(self) -> SyncPlan | None:
        """Say what must be synced for everything below ``max_offset``; None when nothing."""
        if self.flushed_offset >= self.max_offset and (self._files_made == self._files_named):
            return None
        first = self.min_offset - self.min_offset % self.file_size
        low = max(0, (self.flushed_offset - first) // self.file_size)
        return SyncPlan(self, tuple(self._segments[low:]), self.max_offset, self._files_made)

    def synced(self, plan: SyncPlan) -> None:
        """Note that a plan was carried out."""
        if plan.files_made > self._files_named:
            self.fs.sync_dir(self.directory)
            self._files_named = plan.files_made
        self.flushed_offset = max(self.flushed_offset, min(plan.upto, self.max_offset))

    def forget_synced(self, offset: int) -> None:
        """Note that bytes from here on were overwritten and must be synced again."""
        self.flushed_offset = min(self.flushed_offset, offset)

    def close(self) -> None:
        """Give every handle back; nothing is synced."""
        for segment in self._segments:
            segment.close()
        self._segments.clear()
        self._last = None

    def _damaged(self, path: str, what: str) -> StoreDamagedError:
        return StoreDamagedError(f"{path} {what}. {ways_out(self.fs)}")

    def _existing(self, mended: list[str] | None) -> list[int]:
        starts = []
        for name in self.fs.list(self.directory):
            if len(name) == NAME_DIGITS and name.isdecimal():
                starts.append(int(name))
                continue
            path, what = f"{self.directory}/{name}", f"is no file name of {NAME_DIGITS} digits"
            if mended is None:
                raise self._damaged(path, what)
            mended.append(f"{path} {what}: moved to {set_aside(self.fs, path)}")
        if starts and self.fs.size(self._path(starts[-1])) == 0:
            _LOG.warning("empty last file removed: %s", self._path(starts[-1]))
            self.fs.remove(self._path(starts.pop()))
        return starts

    def _new_file(self, offset: int) -> Segment:
        start = offset - offset % self.file_size
        segment = self.fs.open_segment(self._path(start), self.file_size, may_rest=True)
        self._segments.append(segment)
        self._last, self._file_at = segment, start
        self._files_made += 1
        return segment

    def locate(self, offset: int) -> tuple[Segment, int]:
        """Give the file that holds an offset, and the place in it. Raises ``StoreError``."""
        index, inside = divmod(offset - self._file_at, self.file_size)
        # Counted from the last file: negative indexes name the earlier ones.
        if not -len(self._segments) < index <= 0:
            raise StoreError(f"{self.directory}: offset {offset} lies outside the files")
        return self._segments[index - 1], inside

    def _path(self, start: int) -> str:
        return f"{self.directory}/{self._name(start)}"

    @staticmethod
    def _name(start: int) -> str:
        return f"{start:0{NAME_DIGITS}d}"


def zero_tail(segment: Segment, at: int) -> int:
    """Make everything from ``at`` on zero and durable.

    Chunks that are zero already are not written, so a sparse file stays sparse. Returns how many
    bytes from ``at`` on were in use, up to the last one that was not zero.
    """
    end = _last_data(segment, at)
    for start in range(at, end, _CHUNK):
        length = min(_CHUNK, end - start)
        if segment.read(start, length) != _ZEROS[:length]:
            segment.write(start, _ZEROS[:length])
    if end > at:
        segment.sync()
    return end - at


def _last_data(segment: Segment, at: int) -> int:
    """Give the end of the last byte at or behind ``at`` that is not zero, or ``at``."""
    end = segment.data_end()
    while end > at:
        start = max(at, end - _CHUNK)
        tail = segment.read(start, end - start).rstrip(b"\0")
        if tail:
            return start + len(tail)
        end = start
    return at

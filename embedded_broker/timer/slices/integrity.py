"""Integrity of the slices' logs: whether they hold what was flushed, and what to do if not.

Answers: which slices are damaged, what is left of each, and how it is mended. Every flush notes
how many bytes each log has, how many records these are and their CRC (`SliceSum`). Opening
compares. After a clean stop that is bounded: what is beyond `CHECKED_MOST` bytes is compared when
its slice is loaded.

No kill and no power loss explains damage, so it refuses the store, unless `damagedRecords` is
`skip`. Then every good record of a damaged log is kept; what lies between is left blank, after a
copy in `damaged/`. What is missing is sent on its way again from the inbound queue, as far as the
commit log still holds it. Timers that neither has are lost. Must not know: seconds in memory,
releases.

Read on: `recovery.py` for when this is done, `dcommit_log.py` for the bytes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from struct import Struct
from typing import Final

from attrs import define, field

from embedded_broker.errors import StoreDamagedError
from embedded_broker.store.commit_log import BLANK_SIZE_MIN
from embedded_broker.store.damaged_folder import keep_copy, set_aside, ways_out
from embedded_broker.timer.slices.dcommit_log import (
    DCommitLog,
    SliceFile,
    SliceLog,
    SliceSum,
    folder_of,
    path_of,
    remove_slice,
)
from embedded_broker.timer.slices.record import glance, source_of
from embedded_broker.timer.slices.state import SliceState
from rocketmq_py.errors import RecordError
from rocketmq_py.protocol.message_codec import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, decode_record

CHECKED_MOST: Final = 256 * 1024 * 1024
"""So many bytes are compared when a store is opened that was stopped cleanly; a second or less."""
_SIZE_AND_MAGIC: Final = Struct(">ii")
_MAGICS: Final = tuple(one.to_bytes(4, "big", signed=True) for one in (MAGIC_V1, MAGIC_V2))


@define(slots=True)
class SliceDamage:
    """A damaged log of a slice, and what is left of it."""

    number: int
    what: str
    known: SliceSum | None
    wrong_length: list[SliceFile] = field(factory=list)
    sources: set[int] = field(factory=set)
    """Of its good records."""
    unproven: int = 0
    """Good records that nothing can be compared with: the commit log does not hold them."""
    bad: list[tuple[int, int]] = field(factory=list)
    """From where to where there is no good record."""
    end: int = 0
    """Behind the last good record."""
    again: int = 0
    """Missing records that the commit log still holds."""

    @property
    def missing(self) -> int | None:
        """How many records are gone; None where no flush has counted them."""
        return None if self.known is None else max(0, self.known.records - len(self.sources))

    @property
    def lost(self) -> int | None:
        """How many of them are nowhere else; None when that cannot be told."""
        if self.missing is None or (not self.missing and not self.bad and self.unproven):
            return None  # a changed property, say, whose record cannot be told
        return max(0, self.missing - self.again)

    def text(self) -> str:
        """Say what was found."""
        places = ", ".join(str(begin) for begin, _ in self.bad[:3])
        of_all = "" if self.known is None else f" of {self.known.records}"
        where = f", bad at {places}" if self.bad else ""
        return f"{self.what}{where}; {len(self.sources)}{of_all} records are good"


# --- finding it ----------------------------------------------------------------------------------


def find_damage(
    state: SliceState,
    numbers: Iterable[int],
    ends: Mapping[int, int],
    sums: Mapping[int, SliceSum],
    *,
    whole: bool,
) -> list[SliceDamage]:
    """Compare the logs of these slices with what was flushed; nothing is changed.

    Not `whole`: slices beyond `CHECKED_MOST` bytes are noted in `state.unchecked` instead.
    """
    found = []
    compared = 0
    for number in sorted(numbers):
        known = sums.get(number)
        end = max(ends.get(number, 0), 0 if known is None else known.end)
        wrong = _wrong_length(state.log, number, end)
        what = wrong[0][1] if wrong else None
        if what is None and known is not None:
            compared += known.end
            if whole or compared <= CHECKED_MOST:
                what = differs(state.log, number, known)
            else:
                state.unchecked[number] = known
        if what is None and known is None and end and not _is_readable(state, number, end):
            what = f"{folder_of(number)} holds bytes that are no records"
        if what is not None:
            damage = SliceDamage(number, what, known, [file for file, _ in wrong])
            _look(state, damage, end)
            found.append(damage)
    return found


def differs(log: DCommitLog, number: int, known: SliceSum) -> str | None:
    """Say that a log does not hold what was flushed; None when it does."""
    found = log.sum_to(number, known.end, known.records, SliceSum())
    if found == known:
        return None
    return f"the first {known.end} bytes of {folder_of(number)} are not those that were flushed"


def _wrong_length(log: DCommitLog, number: int, end: int) -> list[tuple[SliceFile, str]]:
    """Give the files of a slice that are missing or have another length, and what is wrong."""
    fs, size = log.fs, log.file_size
    folder = folder_of(number)
    starts = {int(name) for name in fs.list(folder) if name.isdecimal()}
    found = []
    for start in sorted(starts | set(range(0, end, size))):
        path = path_of((number, start))
        length = fs.size(path) if start in starts else None
        if length is None:
            found.append(((number, start), f"{path} is missing"))
        elif length != size and (length or start < end):
            found.append(((number, start), f"{path} has {length} of {size} bytes"))
    return found


def _is_readable(state: SliceState, number: int, end: int) -> bool:
    """Whether a log that no flush has summed up is good records up to its end."""
    log = state.log
    log.slices[number] = SliceLog(end=end)
    try:
        position = 0
        for at, record in log.scan(number):
            if _good(state, number, record, 0) is None:
                return False
            position = at + len(record)
        return position >= end or log.skip_blank(number, position) >= end
    finally:
        log.slices.pop(number)


def _look(state: SliceState, damage: SliceDamage, end: int) -> None:
    """Find every good record of a damaged log."""
    log, fs, number = state.store.log, state.store.fs, damage.number
    size = state.log.file_size
    starts = {int(name) for name in fs.list(folder_of(number)) if name.isdecimal()}
    last_bad: list[tuple[int, int]] = []
    for start in range(0, max([end, *(one + size for one in starts)]), size):
        data = fs.read_file(path_of((number, start)))[:size] if start in starts else b""
        at = 0
        for position, record in _good_records(state, number, data):
            if position > at:
                last_bad.append((start + at, start + position))
            damage.bad += last_bad
            last_bad = []
            at = position + len(record)
            damage.end = start + at
            source = source_of(record)
            damage.sources.add(source)
            damage.unproven += not log.min_offset <= source < log.max_offset
        if (
            at < size
            and (start + at < end or data[at:].strip(b"\0"))
            and not _is_blank(data, at, size)
        ):
            last_bad.append((start + at, start + size))
    if last_bad and last_bad[0][0] < end:
        damage.bad.append((last_bad[0][0], last_bad[-1][1]))


def _is_blank(data: bytes, at: int, size: int) -> bool:
    if size - at < BLANK_SIZE_MIN:
        return True
    return data[at : at + BLANK_SIZE_MIN] == _SIZE_AND_MAGIC.pack(size - at, MAGIC_BLANK)


def _good_records(state: SliceState, number: int, data: bytes) -> Iterator[tuple[int, memoryview]]:
    """Give every good record of a file, also behind bytes that are none."""
    view = memoryview(data)
    at = 0
    while at + BLANK_SIZE_MIN <= len(data):
        record = _good(state, number, view, at)
        if record is not None:
            yield at, record
            at += len(record)
            continue
        size, magic = _SIZE_AND_MAGIC.unpack_from(data, at)
        if magic == MAGIC_BLANK and BLANK_SIZE_MIN <= size <= len(data) - at:
            at += size
            continue
        places = (data.find(magic_bytes, at + 5) for magic_bytes in _MAGICS)
        at = min((one - 4 for one in places if one >= 0), default=len(data))


def _good(state: SliceState, number: int, view: memoryview, at: int) -> memoryview | None:
    """Give the record at a place if it is whole, of this slice, and the one that was sent here."""
    try:
        whole = decode_record(view, at)
    except RecordError:
        return None
    record = view[at : at + whole.size]
    seen = glance(record)
    if seen is None or state.slice_of(seen.second) != number:
        return None
    entry = state.entry(whole.queue_offset)
    if entry is not None and entry[:2] != (seen.source, seen.size):
        return None
    there = state.store.log.read(seen.source, seen.size)
    if there is None or there == record:
        return record
    try:
        decode_record(there)
    except RecordError:
        return None if entry is None else record  # it is the commit log that is damaged
    return None


# --- weighing it ---------------------------------------------------------------------------------


def weigh(state: SliceState, damages: list[SliceDamage], *, skip: bool) -> list[str]:
    """Say of every damage what comes of it; raises StoreDamagedError unless it may be left out."""
    by_number = {one.number: one for one in damages}
    again: Counter[int] = Counter()
    queue = state.queue
    for queue_offset in () if queue is None else range(queue.min_offset, queue.max_offset):
        seen = state.glance_at(queue_offset)
        damage = None if seen is None else by_number.get(state.slice_of(seen.second))
        if seen is not None and damage is not None and seen.source not in damage.sources:
            again[damage.number] += 1
    lines = []
    all_there = state.store.log.min_offset == 0
    for one in damages:
        one.again = again[one.number]
        lost = 0 if one.lost is None and all_there else one.lost
        number = "an unknown number of" if lost is None else str(lost)
        text = f"{one.text()}, {one.again} more are in the commit log, {number} timers are lost"
        if not skip:
            raise StoreDamagedError(f"{text}. Nothing was changed. {ways_out(state.store.fs)}")
        lines.append(text)
    return lines


# --- mending it ----------------------------------------------------------------------------------


def mend(state: SliceState, damage: SliceDamage) -> None:
    """Let a log hold its good records and nothing else; what is left out is kept aside."""
    fs, log, number = state.store.fs, state.log, damage.number
    log.handles.forget(number)
    for file in damage.wrong_length:
        path = path_of(file)
        if fs.exists(path) and fs.size(path):
            data = fs.read_file(path)[: log.file_size]
            set_aside(fs, path)
            segment = log.handles.get(file, create=True)
            segment.write(0, data)
            segment.sync()
    for begin, end in damage.bad:
        for start in range(begin - begin % log.file_size, end, log.file_size):
            file = (number, start)
            _blank(log, file, max(begin, start) - start, min(end - start, log.file_size), damage)
    log.truncate(number, damage.end)
    if damage.end == 0:
        remove_slice(fs, number)
        return
    records = len(damage.sources)
    summed = log.sum_to(number, damage.end, records, SliceSum())
    log.slices[number] = SliceLog(damage.end, records, summed)


def _blank(log: DCommitLog, file: SliceFile, begin: int, end: int, damage: SliceDamage) -> None:
    """Keep a copy of bytes between two good records, and have readers step over them."""
    path = path_of(file)
    is_there = log.fs.exists(path)
    if not is_there and file[1] >= damage.end:
        return
    segment = log.handles.get(file, create=True)
    data = bytes(segment.view(begin, end - begin)).rstrip(b"\0") if is_there else b""
    if data:
        keep_copy(log.fs, path, file[1] + begin, data)
    if file[1] + begin < damage.end and end - begin >= BLANK_SIZE_MIN:
        segment.write(begin, _SIZE_AND_MAGIC.pack(end - begin, MAGIC_BLANK))
        segment.sync()

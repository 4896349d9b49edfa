"""Commit log: all messages of all topics, in the order in which they came.

One log of records (``rocketmq_py.protocol.message_codec``). A record never crosses a file: when
one does not fit, eight bytes say that the rest of the file is blank and the next file begins. Must
not know: queues, timers, which record means what. Layout as ``CommitLog.doAppend`` and
``checkMessageAndReturnSize``. Read on: ``message_store.py`` for puts, ``recovery.py`` for how the
end is found again.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, TypeAlias, TypeVar

from embedded_broker.settings.options import QUEUE_NUMS_MAX
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.mapped_file import MappedFileQueue, zero_tail
from embedded_broker.store.queue_names import name_problem, queue_problem
from rocketmq_py.clock import LATEST_MS
from rocketmq_py.errors import RecordError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.checksum import CRC_MASK, crc32
from rocketmq_py.protocol.message_codec import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MessageRecord,
    RecordHead,
    decode_record,
    record_head,
    record_properties,
)
from rocketmq_py.protocol.sysflag import BORN_HOST_V6, HOST_MASK

_LOG = get_logger(__name__)

_T = TypeVar("_T")
COMMIT_LOG_FOLDER: Final = "commitlog"
BLANK_SIZE_MIN: Final = 8
"""Every file keeps this much room behind its last record; ``END_FILE_MIN_BLANK_LENGTH``."""

HEAD_IPV4: Final = Struct(">5i2qiq8sq8siqi")
"""Everything before the body of a record whose hosts are IPv4; see ``message_codec``."""
Parts: TypeAlias = tuple[int, int, str, int, int, int, int, bytes]
"""Of a record: its offset, size, topic, queue, queue offset, sys flag, store time, properties."""

_SIZE_AND_MAGIC: Final = Struct(">ii")
_PLACE: Final = Struct(">ii20xq")  # size, magic, then the record's own commit-log offset
_SYS_FLAG_TO_STORE_TIME: Final = Struct(">i16xq")  # with an IPv4 born host between them
_SYS_FLAG_TO_STORE_TIME_V6: Final = Struct(">i28xq")
_SYS_FLAG_AT: Final = 36
_DAMAGE_NOTED_MAX: Final = 1000
_MAGIC_AT: Final = 4
_MAGIC_BEGIN: Final = (MAGIC_V1 & 0xFFFF_FFFF).to_bytes(4)[:3]  # both magics begin with it
_WINDOW: Final = 1024 * 1024


class CommitLog:
    """All records, addressed by their offset.

    Records at or behind ``checked_from`` were checked when the store was opened, or were written
    since. Those before it (of a log too large to be read whole) are checked whenever one is read,
    so that a damaged one is never given out; ``damaged`` says what was wrong with such a one.
    ``skip_damage``: pulls leave it out; else they are refused.
    """

    def __init__(self, fs: FileSystem, file_size: int) -> None:
        self.files = MappedFileQueue(fs, COMMIT_LOG_FOLDER, file_size)
        self.checked_from = 0
        self.skip_damage = False
        self.damaged: dict[int, str] = {}

    @property
    def min_offset(self) -> int:
        """Where the oldest file begins."""
        return self.files.min_offset

    @property
    def max_offset(self) -> int:
        """Where the next record goes, unless it needs the next file."""
        return self.files.max_offset

    @property
    def record_size_max(self) -> int:
        """The largest record that a file can hold."""
        return self.files.file_size - BLANK_SIZE_MIN

    def fits(self, size: int) -> bool:
        """Tell whether so many bytes of records fit in the current file."""
        return size + BLANK_SIZE_MIN <= self.files.room

    def roll(self) -> int:
        """End the current file with a blank; returns where the next record goes.

        Only the first eight bytes of the blank are written, as in the original.
        """
        room = self.files.room
        if room >= BLANK_SIZE_MIN:
            self.files.append(_SIZE_AND_MAGIC.pack(room, MAGIC_BLANK))
        if self.files.room < self.files.file_size:
            self.files.skip_to_next_file()
        return self.files.max_offset

    def append(self, records: bytes) -> int:
        """Write records that ``fits`` said yes to; returns the offset of the first."""
        return self.files.append(records)

    def read(self, offset: int, size: int | None = None) -> memoryview | None:
        """Show the record at an offset, None if there is none (or none of that size).

        A record is taken for one only if it carries a record's magic and names this very offset
        as its own: so an offset into the middle of a message never gives rubbish.
        """
        head = self.files.read(offset, _PLACE.size)
        if head is None:
            return None
        found, magic, own_offset = _PLACE.unpack(head)
        if own_offset != offset or magic not in {MAGIC_V1, MAGIC_V2}:
            return None
        if found < _PLACE.size or (size is not None and size != found):
            return None
        if offset < self.checked_from and self.is_damaged(offset):
            return None
        return self.files.read(offset, found)

    def is_damaged(self, offset: int) -> bool:
        """Check the record that is said to begin at an offset; a bad one is noted and logged."""
        wrong = self.problem_at(offset)
        if wrong is None:
            return False
        if offset not in self.damaged and len(self.damaged) < _DAMAGE_NOTED_MAX:
            self.damaged[offset] = wrong
            _LOG.warning("damaged record in the commit log at %d, not given out: %s", offset, wrong)
        return True

    def problem_at(self, offset: int) -> str | None:
        """Say why no good record begins at an offset; None if one does."""
        part = self.files.read_file_from(offset)
        if _parts_at(part, 0, {}, check_crc=True) is None:
            try:
                wrong = _wrong_in(decode_record(part))
            except RecordError as error:
                return f"{error.field}: {error.reason}"
            if wrong is not None:
                return wrong
        own_offset = _PLACE.unpack_from(part)[2]
        return None if own_offset == offset else f"the record says that it lies at {own_offset}"

    def behind_blank(self, offset: int) -> int:
        """Give where the next file begins if a blank ends this one at the offset, else the offset.

        A file of which fewer bytes are left than a blank has needs none.
        """
        part = self.files.read_file_from(offset)
        room = self.files.file_size - offset % self.files.file_size
        if len(part) >= BLANK_SIZE_MIN:
            size, magic = _SIZE_AND_MAGIC.unpack_from(part)
            if magic != MAGIC_BLANK or size != room:
                return offset
        elif room >= BLANK_SIZE_MIN:
            return offset
        return offset + room

    def mend_blank(self, offset: int) -> bool:
        """Write a file's blank again if a write of it ended in the middle; says whether so.

        Nothing but zeros follows a blank in its file, and the next file begins with a good record.
        """
        file_size = self.files.file_size
        room = file_size - offset % file_size
        segment, inside = self.files.locate(offset)
        if room < BLANK_SIZE_MIN or self.problem_at(offset + room) is not None:
            return False
        blank = _SIZE_AND_MAGIC.pack(room, MAGIC_BLANK)
        found = bytes(segment.view(inside, BLANK_SIZE_MIN))
        if found[:_MAGIC_AT] != blank[:_MAGIC_AT] or not blank.startswith(found.rstrip(b"\0")):
            return False
        if self.files.used_in_file(offset + BLANK_SIZE_MIN):
            return False
        segment.write(inside, blank)
        segment.sync()
        return True

    def write_blank(self, offset: int) -> None:
        """Say that the file that holds this offset ends there; what lies behind becomes zero."""
        segment, inside = self.files.locate(offset)
        zero_tail(segment, inside)
        segment.write(inside, _SIZE_AND_MAGIC.pack(segment.size - inside, MAGIC_BLANK))

    def record(self, offset: int) -> MessageRecord | None:
        """Decode the record at an offset; None if there is none, or not a whole one."""
        return self._decoded(offset, decode_record)

    def head(self, offset: int) -> RecordHead | None:
        """Give what the record at an offset says besides its body; None as `record`."""
        return self._decoded(offset, record_head)

    def properties(self, offset: int) -> bytes | None:
        """Give the properties text of the record at an offset, not its body; None as `record`."""
        return self._decoded(offset, record_properties)

    def _decoded(self, offset: int, decode: Callable[[memoryview], _T]) -> _T | None:
        view = self.read(offset)
        if view is None:
            return None
        try:
            return decode(view)
        except RecordError:
            return None

    def store_timestamp(self, offset: int) -> int:
        """Give the store time of the record at an offset, -1 if there is none."""
        view = self.read(offset)
        if view is None:
            return -1
        sys_flag, stored = _SYS_FLAG_TO_STORE_TIME.unpack_from(view, _SYS_FLAG_AT)
        if sys_flag & BORN_HOST_V6:
            _, stored = _SYS_FLAG_TO_STORE_TIME_V6.unpack_from(view, _SYS_FLAG_AT)
        return int(stored)

    def scan(
        self, start: int, end: int | None = None, *, check_crc: bool = True
    ) -> Iterator[MessageRecord]:
        """Give the records from ``start`` (the begin of a record or of a file) up to ``end``.

        Ends silently at the first bytes that are no good record: wrong size, magic or CRC,
        another offset of its own, a topic, queue or store time that no message can have, or a zero
        byte in the properties (the CRC covers the body alone, and a torn write leaves zeros).
        Before ``checked_from`` it steps over them.
        """
        offset = max(start, self.min_offset)
        end = self.max_offset if end is None else end
        file_size = self.files.file_size
        while offset < end:
            part = self.files.read_file_from(offset)
            if len(part) >= BLANK_SIZE_MIN:
                size, magic = _SIZE_AND_MAGIC.unpack_from(part)
                if magic == MAGIC_BLANK and size == file_size - offset % file_size:
                    offset += size
                    continue
            wary = check_crc or offset < self.checked_from
            record = _whole_record(part, offset, check_crc=wary)
            if record is not None:
                yield record
                offset += record.size
                continue
            behind = None
            if offset < self.checked_from and self.is_damaged(offset):
                behind = self.next_good(offset, end)
            if behind is None:
                return
            offset = behind

    def next_good(self, offset: int, end: int) -> int | None:
        """Find the first good record behind a bad place, but before ``end``; None without one.

        A record names the place where it lies, so one inside a message is not taken for one.
        """
        part = self.files.read_file_from(offset)
        if len(part) >= BLANK_SIZE_MIN:
            behind = self.behind_blank(offset + max(_SIZE_AND_MAGIC.unpack_from(part)[0], 1))
            if offset < behind < end and self.problem_at(behind) is None:
                return behind
        for start, segment in self.files.files:
            file_end = min(start + segment.data_end(), end)
            at = max(start, offset + 1)
            while at < file_end:
                window = bytes(self.files.read_file_from(at)[:_WINDOW])
                hit = window.find(_MAGIC_BEGIN)
                while hit >= 0:
                    found = at + hit - _MAGIC_AT
                    if found > offset and self.problem_at(found) is None:
                        return found
                    hit = window.find(_MAGIC_BEGIN, hit + 1)
                if len(window) < _WINDOW:
                    break
                at += _WINDOW - len(_MAGIC_BEGIN) + 1
        return None

    def scan_parts(
        self, start: int, end: int | None = None, *, check_crc: bool = True
    ) -> Iterator[Parts]:
        """Go through the same records as ``scan``, at a third of its cost."""
        offset = max(start, self.min_offset)
        end = self.max_offset if end is None else end
        topics: dict[bytes, str] = {}
        while offset < end:
            part = self.files.read_file_from(offset)
            begin = offset
            wary = check_crc or offset < self.checked_from
            while offset < end:
                found = _parts_at(part, offset - begin, topics, check_crc=wary)
                if found is None or found[0] != offset:
                    break
                yield found
                offset += found[1]
            else:
                return
            # What is no plain record here: a blank, one of IPv6, or the end.
            single = next(self.scan(offset, end, check_crc=check_crc), None)
            if single is None:
                return
            offset = single.commit_log_offset + single.size
            yield (
                single.commit_log_offset,
                single.size,
                single.topic,
                single.queue_id,
                single.queue_offset,
                single.sys_flag,
                single.store_timestamp,
                single.properties_bytes,
            )


def _parts_at(
    part: memoryview, at: int, topics: dict[bytes, str], *, check_crc: bool
) -> Parts | None:
    """Take the record apart that begins here; None if it is no good one with IPv4 hosts."""
    room = len(part) - at
    if room < HEAD_IPV4.size:
        return None
    size, magic, crc, queue_id, _, queue_offset, offset, flag, _, _, stored, _, _, _, length = (
        HEAD_IPV4.unpack_from(part, at)
    )
    if magic != MAGIC_V1 or size > room or flag & HOST_MASK or length < 0:
        return None
    body_at = at + HEAD_IPV4.size
    topic_at = body_at + length + 1
    end = at + size
    if topic_at + 2 > end:
        return None
    properties_at = topic_at + part[topic_at - 1] + 2
    if properties_at > end:
        return None
    if part[properties_at - 2] << 8 | part[properties_at - 1] != end - properties_at:
        return None
    if check_crc and crc32(part[body_at : topic_at - 1]) & CRC_MASK != crc:
        return None
    properties = bytes(part[properties_at:end])
    name = bytes(part[topic_at : properties_at - 2])
    if b"\0" in properties or not 0 <= queue_id < QUEUE_NUMS_MAX or not 0 <= stored <= LATEST_MS:
        return None
    topic = topics.get(name)
    if topic is None:
        topic = name.decode("utf-8", "replace")
        if name_problem(topic) is not None:
            return None
        topics[name] = topic
    return offset, size, topic, queue_id, queue_offset, flag, stored, properties


def _whole_record(part: memoryview, offset: int, *, check_crc: bool) -> MessageRecord | None:
    try:
        record = decode_record(part, check_crc=check_crc)
    except RecordError:
        return None
    return record if record.commit_log_offset == offset and _wrong_in(record) is None else None


def _wrong_in(record: MessageRecord) -> str | None:
    """Say what of a record cannot be as its broker wrote it, where no check sum tells."""
    if b"\0" in record.properties_bytes:
        return "a zero byte in the properties"
    return queue_problem(record.topic, record.queue_id) or time_problem(record.store_timestamp)


def time_problem(store_ms: int) -> str | None:
    """Say why no broker can have stored a message at this time; None when one can."""
    if 0 <= store_ms <= LATEST_MS:
        return None
    return f"store time {store_ms} is not between 0 and {LATEST_MS}, in the year 9999"

"""Key index: the messages of a topic that carry a key.

Index files, filled lazily: nothing is indexed when a message is stored; a query, a
flush to a real disk or a close reads the commit log from where the last one stopped. So a put
costs nothing, and throwing the index away loses nothing. Must not know: requests. Keys as in
``IndexService.buildIndex``: UNIQ_KEY and every word of KEYS, under ``topic#key``; rolled-back
transactions are left out. Read on: ``index_file.py``.
"""

import posixpath
import threading
from collections.abc import Callable
from itertools import islice
from typing import Final

from embedded_broker.store.commit_log import CommitLog
from embedded_broker.store.damaged_folder import set_aside
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.index_file import IndexFile, IndexShape, index_hash
from rocketmq_py.clock import Clock
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.sysflag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rocketmq_py.protocol.tag_hash import java_hash

_LOG = get_logger(__name__)

INDEX_FOLDER: Final = "index"
INDEX_NAME_DIGITS: Final = 17  # yyyyMMddHHmmssSSS
_CHUNK_RECORDS: Final = 200  # so that a query never waits long for a flush that builds


class KeyIndex:
    """All index files of a store.

    Has its own lock, since a flush fills it outside the broker's door while queries come from
    inside; nothing else is called with it held but the commit log's readers.
    """

    def __init__(self, fs: FileSystem, log: CommitLog, clock: Clock, shape: IndexShape) -> None:
        self._fs = fs
        self._log = log
        self._clock = clock
        self._shape = shape
        self._lock = threading.Lock()
        self._files: list[IndexFile] = []
        self._changed: list[IndexFile] = []
        self._indexed_to = 0
        self._names_changed = False

    @property
    def indexed_to(self) -> int:
        """The commit-log offset up to which keys can be found without reading on."""
        return self._indexed_to

    @property
    def entries(self) -> int:
        """How many keys are in the files."""
        return sum(one.next_number for one in self._files)

    @property
    def is_dirty(self) -> bool:
        """Whether ``sync`` has something to do."""
        return bool(self._changed) or self._names_changed

    @property
    def full_timestamp(self) -> int:
        """Store time of the last message of the newest full file; 0 without one."""
        return max((one.end_timestamp for one in self._files if one.is_full), default=0)

    def load(self, *, clean: bool, index_msg_timestamp: int, problems: list[str] | None) -> None:
        """Open the files; drops those that may be torn or that name messages that are gone.

        After a dirty stop only files that were full and synced are trusted, as the original does
        with ``indexMsgTimestamp``. What is dropped is made again when it is needed. A file of
        another length is set aside and told in ``problems``; with None a crash explains it. The
        original makes such a file longer, or does not look at its end.
        """
        keep = True
        resume_at = self._log.min_offset
        for name in self._fs.list(INDEX_FOLDER):
            if len(name) != INDEX_NAME_DIGITS or not name.isdecimal():
                continue  # the original skips names that are no number
            path = f"{INDEX_FOLDER}/{name}"
            if (length := self._fs.size(path)) != self._shape.file_size:
                keep = False
                if problems is None:
                    self._drop(path)  # its name came to the disk, its size did not
                else:
                    problems.append(self._set_aside(path, length))
                continue
            segment = self._fs.open_segment(path, self._shape.file_size, create=False)
            found = IndexFile(segment, self._shape)
            last = self._log.record(found.end_offset)
            keep = keep and found.next_number > 1 and last is not None
            if not clean:
                keep = keep and found.is_full and found.end_timestamp < index_msg_timestamp
            if keep and last is not None:
                # A full file may hold only some keys of its last message: those are put once
                # more, and a query removes what it finds twice.
                resume_at = found.end_offset + (0 if found.is_full else last.size)
                self._files.append(found)
                continue
            segment.close()
            self._drop(path)
        self._indexed_to = resume_at

    def _drop(self, path: str) -> None:
        _LOG.info("index file dropped, to be made again: %s", path)
        self._fs.remove(path)
        self._names_changed = True

    def _set_aside(self, path: str, length: int) -> str:
        kept = set_aside(self._fs, path)
        self._names_changed = True
        return (
            f"{path} has a length of {length} instead of {self._shape.file_size} bytes: moved to "
            f"{kept}; keys are found again in the commit log"
        )

    def catch_up(self, end: int) -> None:
        """Index every record below a commit-log offset. Raises ``StoreError`` (disk full)."""
        while self._indexed_to < end:
            with self._lock:
                self._index_chunk(end)

    def query(self, topic: str, key: str, max_num: int, begin_ms: int, end_ms: int) -> list[int]:
        """Give the commit-log offsets of the newest ``max_num`` messages, in ascending order.

        Messages whose key only has the same hash are among them, as in the original; clients
        compare. Both times are inclusive; the index knows whole seconds only.
        """
        key_hash = index_hash(java_hash(f"{topic}#{key}"))
        found: dict[int, None] = {}
        with self._lock:
            for one in reversed(self._files):
                if one.overlaps(begin_ms, end_ms):
                    for offset in one.find(key_hash, begin_ms, end_ms):
                        found[offset] = None
                        if len(found) >= max_num:
                            return sorted(found)
        return sorted(found)

    def sync(self) -> None:
        """Make what was indexed durable. Raises ``StoreError``."""
        with self._lock:
            changed, self._changed = self._changed, []
            named, self._names_changed = self._names_changed, False
        try:
            for one in changed:
                one.segment.sync()
            if named:
                self._fs.sync_dir(INDEX_FOLDER)
        except BaseException:
            with self._lock:
                self._changed += changed
                self._names_changed |= named
            raise

    def let_go_before(self, offset: int) -> Callable[[], None] | None:
        """Forget the files that tell only of messages below a commit-log offset, but the last.

        Gives the work that removes them, to be run outside the door; None when there are none.
        """
        gone: list[IndexFile] = []
        with self._lock:
            while len(self._files) > 1 and self._files[0].end_offset < offset:
                gone.append(self._files.pop(0))
            self._changed = [one for one in self._changed if one not in gone]
            self._names_changed |= bool(gone)
        if not gone:
            return None

        def remove() -> None:
            for one in gone:
                one.segment.close()
                self._fs.remove(one.segment.path)

        return remove

    def close(self) -> None:
        """Give the handles back."""
        with self._lock:
            for one in self._files:
                one.segment.close()
            self._files.clear()

    def _index_chunk(self, end: int) -> None:
        records = self._log.scan(self._indexed_to, end, check_crc=False)
        count = 0
        before = max(len(self._changed) - 1, 0)
        try:
            for record in islice(records, _CHUNK_RECORDS):
                count += 1
                self._put_keys(record)
                self._indexed_to = record.commit_log_offset + record.size
        finally:
            for one in self._changed[before:]:
                one.write_header()
        if count < _CHUNK_RECORDS:
            self._indexed_to = end

    def _put_keys(self, record: MessageRecord) -> None:
        if record.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
            return
        properties = record.properties
        keys = properties.get(Prop.KEYS, "").split(" ")
        for key in (properties.get(Prop.UNIQ_KEY, ""), *keys):
            if key:
                key_hash = index_hash(java_hash(f"{record.topic}#{key}"))
                self._writable().put(key_hash, record.commit_log_offset, record.store_timestamp)

    def _writable(self) -> IndexFile:
        last = self._files[-1] if self._files else None
        if last is None or last.is_full:
            segment = self._fs.open_segment(self._new_path(), self._shape.file_size)
            last = IndexFile(segment, self._shape)
            self._files.append(last)
            self._names_changed = True
        if not self._changed or self._changed[-1] is not last:
            self._changed.append(last)
        return last

    def _new_path(self) -> str:
        """Name a file after the broker's local time, or after the last file if that is later."""
        moment = self._clock.now().astimezone()
        number = int(f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03d}")
        if self._files:
            # The original only parses the name as a number and sorts by it.
            number = max(number, int(posixpath.basename(self._files[-1].segment.path)) + 1)
        return f"{INDEX_FOLDER}/{number:0{INDEX_NAME_DIGITS}d}"

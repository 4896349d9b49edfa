"""JSON files under ``config/``: how the broker's tables survive a restart.

A save writes a temporary file, syncs it and renames it into place; the file that stood there
becomes the ``.bak``. So one readable generation is there at every moment, on a full disk too.
Reading accepts what Java writes (bare integer keys, pretty or not). Beside each of ours lies a
``.crc32`` with the checksums of its last two contents: a changed digit is no bad JSON. It is
durable before the file gets its name, so a power loss leaves no file that it does not know. Must
not know: what the tables mean. Rules as ``ConfigManager.persist`` / ``load``; formats in
``rocketmq_py.protocol``. Read on: ``tables/files.py`` for when, ``tables/topics/``.
"""

import contextlib
import posixpath
from typing import Any, Final
from zlib import crc32

from embedded_broker.errors import StoreDamagedError, StoreError
from embedded_broker.store.damaged_folder import set_aside, ways_out
from embedded_broker.store.fs import FileSystem
from rocketmq_py.errors import BodyError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.lenient_json import dumps_fastjson, loads_lenient

_LOG = get_logger(__name__)

_ENTRY_DEPTH: Final = 2
_NEW_ENTRY: Final = "\n" + "\t" * _ENTRY_DEPTH
_PLACE: Final = "the place of the entries"


class EntriesText:
    """The text of an object with many entries under one key, of which few change at a time.

    An entry is written once for each change; the bytes are those of the whole object in Java's
    form, as ``dumps_fastjson(..., pretty=True)`` gives them.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._texts: dict[str, str] = {}
        self._in_order = True
        self.written = 0
        """How many entries were written so far."""

    def __len__(self) -> int:
        return len(self._texts)

    def put(self, name: str, value: object) -> None:
        """Set an entry."""
        quoted = dumps_fastjson(name).decode()
        self._in_order &= quoted in self._texts
        text = dumps_fastjson(value, pretty=True, depth=_ENTRY_DEPTH).decode()
        self._texts[quoted] = f"{_NEW_ENTRY}{quoted}:{text}"
        self.written += 1

    def drop(self, name: str) -> None:
        """Remove an entry, if it is there."""
        self._texts.pop(dumps_fastjson(name).decode(), None)

    def of(self, head: dict[str, Any]) -> bytes:
        """Give the text of the object with what stands beside the entries."""
        if not self._in_order:
            self._texts = dict(sorted(self._texts.items()))
            self._in_order = True
        if not self._texts:
            return dumps_fastjson({**head, self._key: {}}, pretty=True)
        frame = dumps_fastjson({**head, self._key: {_PLACE: 0}}, pretty=True).decode()
        before, _, after = frame.partition(f'{_NEW_ENTRY}"{_PLACE}":0')
        return "".join((before, ",".join(self._texts.values()), after)).encode()


class JsonConfigFile:
    """One file, such as ``config/topics.json``.

    ``pretty`` writes tabs and line breaks as the original's ``topics.json`` has them; without it
    the file is one line, as ``timermetrics`` is. A file without ``key`` is another one in its
    place. ``problem`` says what was wrong at ``load``, None
    when all was well.
    """

    def __init__(
        self, fs: FileSystem, path: str, *, key: str | None = None, pretty: bool = True
    ) -> None:
        self._fs = fs
        self._key = key
        self._pretty = pretty
        self._known_good = False
        self.path = path
        self.backup_path = path + ".bak"
        self._new_path = path + ".tmp"
        self._sums_path = path + ".crc32"
        self._sum: int | None = None  # of what stands in `path`
        self._was_cut_off = False  # a save died between its two renames: `path` is still `.tmp`
        self.problem: str | None = None

    def load(self, *, skip_damage: bool = False) -> dict[str, Any] | None:
        """Give the decoded content, None if there is no file; of the backup if need be.

        Nothing is changed on the disk: an unreadable file is set aside by the next save. If there
        are files and none can be read, it raises ``StoreDamagedError``, or gives None with
        ``skip_damage``.
        """
        self._was_cut_off = self._is_cut_off()
        found, wrong = self._read(self._new_path if self._was_cut_off else self.path)
        self._known_good = found is not None
        if found is not None:
            self._compare()
            return found
        found, wrong_too = self._read(self.backup_path)
        wrong = wrong or (found is not None and "is missing") or None
        if found is not None:
            self.problem = f"{self.path} {wrong}: {self.backup_path}, the one before, was read"
            _LOG.warning("%s", self.problem)
        elif wrong or wrong_too:
            file, what = (self.path, wrong) if wrong else (self.backup_path, wrong_too)
            self.problem = f"{file} {what}, and there is no other generation of it"
            if skip_damage:
                _LOG.warning("%s", self.problem)
                return None
            raise StoreDamagedError(f"{self.problem}. {ways_out(self._fs)}")
        elif self._fs.exists(self._sums_path):
            self.problem = f"{self.path} is missing, although its checksum lies there"
            _LOG.warning("%s", self.problem)
        return found

    def save(self, content: dict[str, Any]) -> None:
        """Write the content durably; the previous file becomes the backup if it can be read.

        Raises ``StoreError``; then a generation that could be read before still can be.
        """
        self.save_text(dumps_fastjson(content, pretty=self._pretty))

    def save_text(self, data: bytes) -> None:
        """Write a text that was made already, as ``save`` does."""
        folder = posixpath.dirname(self.path)
        if self._was_cut_off:
            self._fs.rename(self._new_path, self.path)
            self._was_cut_off = False
        try:
            self._fs.write_file(self._new_path, data)
            self._fs.sync_file(self._new_path)
            self._write_sums(data)
        except StoreError:
            with contextlib.suppress(StoreError):
                self._fs.remove(self._new_path)  # on a full disk half a file is in the way
            raise
        if self._fs.exists(self.path):
            if self._known_good or self._read(self.path)[0] is not None:
                self._fs.rename(self.path, self.backup_path)
            else:
                set_aside(self._fs, self.path)
        self._fs.rename(self._new_path, self.path)
        self._known_good, self._sum = True, crc32(data)
        self._fs.sync_dir(folder)

    def _write_sums(self, data: bytes) -> None:
        """Make the sums of the present and the next content durable."""
        try:
            self._fs.write_file(self._sums_path, f"{self._sum or ''} {crc32(data)}".encode())
            self._fs.sync_file(self._sums_path)
        except StoreError:
            with contextlib.suppress(StoreError):
                self._fs.remove(self._sums_path)  # half a number is no sum of anything
            raise

    def _sums(self) -> list[bytes]:
        """Give the known sums; none while a power loss has taken what was being written."""
        if not self._fs.exists(self._sums_path):
            return []
        return self._fs.read_file(self._sums_path).strip(b"\0").split()

    def _is_cut_off(self) -> bool:
        """Whether the newest content has not got its name yet, though the one before lost it."""
        if self._fs.exists(self.path) or not self._fs.exists(self._new_path):
            return False
        return b"%d" % crc32(self._fs.read_file(self._new_path)) in self._sums()

    def _compare(self) -> None:
        """Note when the file is neither of the two that were saved last."""
        path = self._new_path if self._was_cut_off else self.path
        self._sum = crc32(self._fs.read_file(path))
        known = self._sums()
        if known and b"%d" % self._sum not in known:
            self.problem = (
                f"{self.path} is not as this broker saved it: another program has changed "
                "it, or it is damaged"
            )
            _LOG.warning("%s", self.problem)

    def _read(self, path: str) -> tuple[dict[str, Any] | None, str | None]:
        """Give the content and what is wrong with the file; both None where there is none."""
        if not self._fs.exists(path):
            return None, None
        data = self._fs.read_file(path)
        if not data.strip():
            return None, "is empty"
        try:
            content = loads_lenient(data)
        except BodyError as error:
            return None, f"cannot be read ({error})"
        if not isinstance(content, dict):
            return None, "holds no JSON object"
        if self._key is not None and self._key not in content:
            return None, f"has no {self._key}: another file stands in its place"
        return content, None

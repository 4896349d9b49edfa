"""Open files of a store: how many at once, and what is said when the system refuses one.

Answers: which files give their descriptors back when too many are open. A process may open a
limited number of files (`ulimit -n`), and a used queue wants two descriptors, one to write and one
that Python keeps for its map. So the files that many queues have are closed again, those that were
not written for the longest time first, and opened when they are needed. Half of the limit is never
used here: connections and the small files that are saved need it. Must not know: what is in a file.
Read on: `directory_segment.py` for who rests, `directory_fs.py`.
"""

import errno
import os
import posixpath
import sys
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Final, Protocol

from embedded_broker.errors import StoreError

_OPEN_MAX: Final = 16_384
_OPEN_MIN: Final = 8
_SPARE: Final = 4
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
SECRETS_FILE: Final = "auth.json"
"""The accounts of ACL 2, with their passwords; its copies have the name in theirs."""
PRIVATE_MODE: Final = 0o600
_TOO_MANY: Final = frozenset({errno.EMFILE, errno.ENFILE})
_FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_MAPS_HOLD_FILES: Final = sys.version_info < (3, 13)
_in_use: "set[OpenFiles]" = set()
"""Those of the stores of this process that are open: they share its limit."""


class Resting(Protocol):
    """A file that can give back its descriptor, or its map, and get it again when it is used."""

    path: str

    @property
    def descriptor(self) -> int:
        """The descriptor that is open to be written; negative while there is none."""

    def data_end(self) -> int:
        """Tell up to where it was written."""

    def rest(self) -> None:
        """Close the descriptor."""

    def unmap(self) -> None:
        """Forget the map."""


def is_private(path: str) -> bool:
    """Whether a file of the store holds secrets: the accounts, their copies and their sums."""
    return SECRETS_FILE in posixpath.basename(path)


class OpenFiles:
    """The descriptors of one file system. A file may only rest while its owner writes nothing.

    So ``admit`` is for those who write under the owner's lock, each of them one at a time; all the
    rest may be called by any thread.
    """

    def __init__(self, root: Path, flags: int) -> None:
        self.root = root
        self._flags = flags
        self._lock = Lock()
        self._written: OrderedDict[Resting, int] = OrderedDict()
        self._mapped: OrderedDict[Resting, None] = OrderedDict()
        self._spare: list[int] = []
        self.lost: str | None = None
        """Why nothing is opened any more: the folder is not the one that was locked."""

    @property
    def most(self) -> int:
        """How many files may be open to be written, and as many to be read."""
        return min(max(_descriptor_limit() // 4 // max(1, len(_in_use)), _OPEN_MIN), _OPEN_MAX)

    def open(self, path: str, flags: int | None = None) -> int:
        """Open a file, a segment if no flags are given; raises ``StoreError``.

        A save must be possible even if connections took every descriptor that was left.
        """
        if self.lost is not None:
            raise StoreError(self.lost)
        flags = (self._flags if flags is None else flags) | os.O_CLOEXEC
        full, mode = self.root / path, PRIVATE_MODE if is_private(path) else 0o644
        try:
            return os.open(full, flags, mode)
        except OSError as error:
            if error.errno not in _TOO_MANY or not self._give_way():
                raise disk_refusal(self.root, path, "open", error) from error
        try:
            return os.open(full, flags, mode)
        except OSError as error:
            raise disk_refusal(self.root, path, "open", error) from error

    def admit(self, segment: Resting) -> None:
        """Note that a file is open to be written; others rest if that is one too many.

        One that was written since it was looked at last gets another round.
        """
        most = self.most
        with self._lock:
            self._written[segment] = segment.data_end()
            rounds = len(self._written)
            while len(self._written) > most:
                oldest, end = self._written.popitem(last=False)
                rounds -= 1
                if oldest is segment or (rounds > 0 and oldest.data_end() != end):
                    self._written[oldest] = oldest.data_end()
                else:
                    oldest.rest()

    def mapped(self, segment: Resting) -> None:
        """Note that a file is mapped; the maps of others go if that is one too many."""
        most = self.most if _MAPS_HOLD_FILES else _OPEN_MAX
        with self._lock:
            self._mapped[segment] = None
            while len(self._mapped) > most:
                self._mapped.popitem(last=False)[0].unmap()

    def forget(self, segment: Resting) -> None:
        """Let a file rest for good."""
        with self._lock:
            self._written.pop(segment, None)
            self._mapped.pop(segment, None)
            segment.unmap()
            segment.rest()

    @contextmanager
    def lent(self, segment: Resting) -> Iterator[int]:
        """Give a descriptor of the file that stays open meanwhile, whatever else rests."""
        own = -1
        with self._lock, suppress(OSError):
            # Asked for under the lock: a moment later the number may be that of another file.
            fd = segment.descriptor
            own = os.dup(fd) if fd >= 0 else -1
        if own < 0:
            own = self.open(segment.path)
        try:
            yield own
        finally:
            os.close(own)

    def begin(self) -> None:
        """Take a share of the process's limit, until ``close``."""
        _in_use.add(self)
        self.keep_spare()

    def keep_spare(self) -> None:
        """Hold some descriptors back for saves, while the store is open; to be called often."""
        with self._lock, suppress(OSError):
            while self in _in_use and len(self._spare) < _SPARE:
                self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def close(self) -> None:
        """Give back what was held; files that are still open stay so."""
        with self._lock:
            _in_use.discard(self)
            self.lost = None
            while self._spare:
                os.close(self._spare.pop())

    def _give_way(self) -> bool:
        """Close what can be closed by any thread; says whether that was something."""
        with self._lock:
            found = bool(self._mapped or self._spare)
            while self._mapped:
                self._mapped.popitem()[0].unmap()
            if self._spare:
                os.close(self._spare.pop())
        return found


def disk_refusal(root: Path, path: str, doing: str, error: OSError) -> StoreError:
    """Say which file the system refused what, and what helps."""
    text = f"{path or root}: cannot {doing}: {error.strerror or error}"
    if error.errno in _FULL:
        text += (
            f". {_free_bytes(root)} bytes are free on the file system of {root}: remove other "
            "files there, or let messages go sooner (option fileReservedTime, in hours)"
        )
    elif error.errno in _TOO_MANY:
        text += f". This process may open {_descriptor_limit()} files (ulimit -n)"
    elif error.errno in _FORBIDDEN:
        text += (
            f". A broker and a repair must be able to write in {root}: give its files to their "
            f"user, or use a copy. `rocketmq-py timers {root}` only reads"
        )
    refusal = StoreError(text)
    refusal.disk_full = error.errno in _FULL
    return refusal


def raise_descriptor_limit() -> int:
    """Let this process open as many files as it may be allowed to; gives how many that are."""
    if os.name != "posix":
        return _OPEN_MAX
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # some systems have a limit below the hard one
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return _descriptor_limit()


def _descriptor_limit() -> int:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4 * _OPEN_MAX if soft == resource.RLIM_INFINITY else soft


def _free_bytes(root: Path) -> int:
    try:
        disk = os.statvfs(root)
    except OSError:
        return 0
    return disk.f_bavail * disk.f_frsize

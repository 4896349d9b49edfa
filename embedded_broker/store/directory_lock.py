"""Lock of a store directory: the original's ``lock`` file and a register of this process.

Answers: may this broker open the directory, and if not, who holds it. POSIX locks belong to a
process and vanish when *any* handle of the file is closed in it, so two brokers of one process
are told apart by the register, before the file is touched. The original locks the first byte of
``lock`` (``BrokerStartup``/``DefaultMessageStore``) and writes the word ``lock``; so do we, and a
line of ours behind it names us to the next one. Whoever deletes that file lets another broker in:
so the folder itself is locked as well, and ``problem`` says when either is not there any more.
"""

import errno
import os
import struct
import sys
import threading
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from embedded_broker.errors import StoreLockedError
from embedded_broker.store.open_files import disk_refusal
from rocketmq_py.logs import get_logger

_LOG = get_logger(__name__)

_WORD = b"lock"
_REGISTER: dict[str, tuple[int, str]] = {}
"""Real path of a lock file -> (process id, owner); the id tells a forked child from its parent."""
_REGISTER_LOCK = threading.Lock()
_FOLDERS: set[int] = set()
"""Descriptors of locked folders. A forked child closes its own: their lock would outlive us."""


@frozen
class _Held:
    """A lock that was taken: its file, and the folder that was there then."""

    file: str
    fd: int
    folder_fd: int


class DirectoryLocks:
    """The locks that one file system object holds."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._held: dict[str, _Held] = {}

    def take(self, path: str, owner: str) -> None:
        """Take the lock or raise ``StoreLockedError`` naming the holder."""
        with _REGISTER_LOCK:
            self._take(path, owner)

    def give_back(self, path: str) -> None:
        """Unlock; in a forked child only the handle is closed, the parent's lock stays."""
        held = self._held.pop(path, None)
        if held is None:
            return
        if _REGISTER.get(held.file, (0, ""))[0] == os.getpid():
            _REGISTER.pop(held.file)
            # A real broker that opens the directory later must not be named as us.
            os.ftruncate(held.fd, len(_WORD))
            _unlock_folder(held.folder_fd)
        os.close(held.fd)
        if held.folder_fd in _FOLDERS:
            _FOLDERS.discard(held.folder_fd)
            os.close(held.folder_fd)

    def problem(self) -> str | None:
        """Say what is not where it was when it was locked: the folder or the lock file."""
        for held in self._held.values():
            for fd, path in ((held.folder_fd, str(self._root)), (held.fd, held.file)):
                what = _what_happened(fd, path)
                if what is not None:
                    return (
                        f"{path} was {what} while the broker used it, so nothing more is stored "
                        f"in {self._root}: stop the broker, look at what is there, and start it "
                        "again"
                    )
        return None

    def _take(self, path: str, owner: str) -> None:
        full = os.path.realpath(self._root / path)
        process, holder = _REGISTER.get(full, (0, ""))
        if process == os.getpid():
            raise StoreLockedError(
                f"{self._root} is in use by {holder} of this process: close it first"
            )
        try:
            fd = os.open(full, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise disk_refusal(self._root, path, "open", error) from error
        if not _lock_first_byte(fd):
            who = _holder(fd)
            os.close(fd)
            raise StoreLockedError(f"{self._root} is in use by {who}: close it first")
        folder_fd = os.open(self._root, os.O_RDONLY | os.O_CLOEXEC)
        if not _lock_folder(folder_fd):
            who = _folder_holder(folder_fd)
            os.close(folder_fd)
            os.close(fd)
            raise StoreLockedError(
                f"{self._root} is in use by {who}, though its file {path} was deleted: close it "
                "first"
            )
        text = _WORD + f"\nheld by {owner}, process {os.getpid()}\n".encode()
        try:
            os.pwrite(fd, text, 0)
            os.ftruncate(fd, len(text))
        except OSError as error:  # a full disk: who holds the lock is only told less well
            _LOG.warning("%s", disk_refusal(self._root, path, "write", error))
        _REGISTER[full] = (os.getpid(), owner)
        _FOLDERS.add(folder_fd)
        self._held[path] = _Held(full, fd, folder_fd)


def _what_happened(fd: int, path: str) -> str | None:
    """Compare what is open with what the path leads to now."""
    ours = os.fstat(fd)
    try:
        found = os.stat(path)  # noqa: PTH116 - beside os.fstat
    except OSError:
        return "moved or removed" if ours.st_nlink else "removed"
    if (found.st_dev, found.st_ino) != (ours.st_dev, ours.st_ino):
        return "replaced by another one"
    return None


def holder_of(file: Path) -> str | None:
    """Name who holds this lock file right now, without taking or changing anything; None: nobody.

    A lock that this very process holds is found in the register: opening and closing its file
    would give it back. Other processes are seen on Linux only.
    """
    process, holder = _REGISTER.get(os.path.realpath(file), (0, ""))
    if process == os.getpid():
        return f"{holder} of this process"
    try:
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _holder(fd) if _locking_process(fd) else None
    finally:
        os.close(fd)


def _lock_first_byte(fd: int) -> bool:
    import fcntl

    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
    except OSError:
        return False
    return True


def _lock_folder(fd: int) -> bool:
    """Lock a folder; true as well where a file system cannot do that."""
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in {errno.EWOULDBLOCK, errno.EACCES}
    return True


def _unlock_folder(fd: int) -> None:
    """Unlock it for everybody who inherited the descriptor."""
    import fcntl

    with suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_UN)


def _folder_holder(fd: int) -> str:
    """Name the process that locked a folder, as Linux tells it."""
    status = os.fstat(fd)
    place = f":{status.st_ino} "
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        lines = []
    for line in lines:  # such as: "1: FLOCK  ADVISORY  WRITE 4711 fd:00:1234 0 EOF"
        if " FLOCK " in line and place in line:
            return f"process {line.split()[4]}"
    return "another process"


def _close_folders() -> None:
    """Close, in a forked child, what would keep the parent's folders locked."""
    while _FOLDERS:
        os.close(_FOLDERS.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_folders)


def _holder(fd: int) -> str:
    """Name the other process: by what it wrote, else by the process id the kernel knows."""
    process = _locking_process(fd)
    text = os.pread(fd, 4096, 0)[len(_WORD) :].decode("utf-8", "replace").strip()
    if text.startswith("held by ") and (not process or text.endswith(f"process {process}")):
        return text.removeprefix("held by ")
    return f"process {process}" if process else "another process"


def _locking_process(fd: int) -> int:
    if sys.platform != "linux":
        return 0
    import fcntl

    flock = struct.Struct("@hhqqi4x")  # l_type, l_whence, l_start, l_len, l_pid
    ask = flock.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    try:
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, ask)
    except OSError:
        return 0
    return int(flock.unpack(answer)[4])

"""Who uses a store directory: the original's ``lock`` file and a register of this process.

Answers: may this broker open the directory, and if not, who holds it. POSIX locks belong to a
process and vanish when *any* handle of the file is closed in it, so two brokers of one process
are told apart by the register, before the file is touched. The original locks the first byte of
``lock`` (``BrokerStartup``/``DefaultMessageStore``) and writes the word ``lock``; so do we, and a
line of ours behind it names us to the next one.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
from pathlib import Path

from embedded_broker.errors import StoreError, StoreLockedError

__all__ = ["DirectoryLocks", "holder_of"]

_WORD = b"lock"
_REGISTER: dict[str, tuple[int, str]] = {}
"""Real path of a lock file -> (process id, owner); the id tells a forked child from its parent."""
_REGISTER_LOCK = threading.Lock()


class DirectoryLocks:
    """The locks that one file system object holds."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._held: dict[str, tuple[str, int]] = {}

    def take(self, path: str, owner: str) -> None:
        """Take the lock or raise ``StoreLockedError`` naming the holder."""
        with _REGISTER_LOCK:
            self._take(path, owner)

    def give_back(self, path: str) -> None:
        """Unlock; in a forked child only the handle is closed, the parent's lock stays."""
        held = self._held.pop(path, None)
        if held is None:
            return
        full, fd = held
        if _REGISTER.get(full, (0, ""))[0] == os.getpid():
            _REGISTER.pop(full)
            # A real broker that opens the directory later must not be named as us.
            os.ftruncate(fd, len(_WORD))
        os.close(fd)

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
            raise StoreError(f"{path}: cannot open: {error}") from error
        if not _lock_first_byte(fd):
            who = _holder(fd)
            os.close(fd)
            raise StoreLockedError(f"{self._root} is in use by {who}: close it first")
        os.ftruncate(fd, 0)
        os.pwrite(fd, _WORD + f"\nheld by {owner}, process {os.getpid()}\n".encode(), 0)
        _REGISTER[full] = (os.getpid(), owner)
        self._held[path] = (full, fd)


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

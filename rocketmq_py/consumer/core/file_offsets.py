"""Offsets of a broadcasting consumer: a file of this machine, because each member has its own.

Java's file in Java's place: ``<directory>/<client id>/<group>/offsets.json``, and beside it
``offsets.json.bak`` with what it held before. What a Java client wrote is read, and the other way
round. A file that cannot be read or written stops nobody: offsets then live in memory, and a line a
minute names the directory and its setting. Facts: ``LocalFileOffsetStore``.
"""

import os
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from attrs import define, field

from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.core.offset_table import OffsetTable
from rocketmq_py.errors import RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.document import Document, MessageQueueKey
from rocketmq_py.send_result import MessageQueue

logger = get_logger(__name__)

SETTING: Final = "local_offset_store_dir"
"""The setting of a client that names the directory."""
FILE_NAME: Final = "offsets.json"
FILE_SIZE_MAX: Final = 16 << 20
"""A larger file is neither read nor written; it would hold more than 100,000 queues."""
SOON_MS: Final = 1_000
"""How far apart the writes for emptied queues are: each waits for the disk."""
TOLD_EVERY_S: Final = 60.0

_PLAIN: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-@#%|:+="
)
_NAME_MAX: Final = 200
_numbers: Final = count()


def default_directory() -> Path:
    """Name the directory of Java clients: ``.rocketmq_offsets`` in the user's home.

    For a user without a home it is in the working directory.
    """
    try:
        home = Path.home()
    except RuntimeError:
        home = Path()
    return home / ".rocketmq_offsets"


def safe_name(text: str) -> str:
    """Make a file name of a client id or a group: its own for all that Java clients call theirs.

    Other characters, a name of dots and an empty one are written as ``~`` and hexadecimal digits,
    so that two names never become one; what is too long for a file name ends in a digest.

    >>> safe_name("10.0.0.1@DEFAULT"), safe_name("../a"), safe_name("..")
    ('10.0.0.1@DEFAULT', '..~2Fa', '~2E~2E')
    """
    plain = _PLAIN if text.strip(".") else frozenset[str]()
    name = "".join(one if one in plain else _escaped(one) for one in text) or "~"
    if len(name) <= _NAME_MAX:
        return name
    from hashlib import sha256  # names that long are rare

    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[: _NAME_MAX - 1 - len(digest)]}~{digest}"


def _escaped(character: str) -> str:
    return "".join(f"~{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


@define
class LocalOffsets(Document):
    """What the file holds: the next offset of each queue."""

    offset_table: dict[MessageQueueKey, int] = field(factory=dict)


class OffsetFile:
    """The file of one group and client; one thread at a time may use it.

    `read` and `write` raise OSError that says what the machine said, or `RocketMQError` for what
    is no table of offsets or is too large.
    """

    def __init__(self, directory: Path, client_id: str, group: str) -> None:
        self.path = directory / safe_name(client_id) / safe_name(group) / FILE_NAME
        self._backup = self.path.with_name(f"{FILE_NAME}.bak")
        self._damaged = self.path.with_name(f"{FILE_NAME}.damaged")
        # Of this process and this object: whoever else writes has a file of its own to fill.
        self._fresh = self.path.with_name(f"{FILE_NAME}.{os.getpid()}-{next(_numbers)}.tmp")
        self._is_damaged = False

    def read(self) -> dict[MessageQueue, int]:
        """Read the file; the one before it when there is none or when it is damaged."""
        damage: RocketMQError | None = None
        for path in (self.path, self._backup):
            try:
                table = _read(path)
            except FileNotFoundError:
                continue
            except RocketMQError as error:
                self._is_damaged |= path is self.path
                damage = damage or error
                continue
            if damage is not None:
                logger.warning("%s is not used, %s is: %s", self.path, path, damage)
            return table
        if damage is not None:
            raise damage
        return {}

    def write(self, table: Mapping[MessageQueue, int]) -> None:
        """Replace the file at once and as a whole, and keep the one before it.

        That one becomes ``offsets.json.bak``, or ``offsets.json.damaged`` if it is that.
        """
        keys = {MessageQueueKey(q.topic, q.broker_name, q.queue_id): n for q, n in table.items()}
        content = LocalOffsets(keys).encode()
        if len(content) > FILE_SIZE_MAX:
            raise _too_large(self.path, len(content))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self._fresh.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            former = self._damaged if self._is_damaged else self._backup
            with suppress(FileNotFoundError):
                self.path.replace(former)
            self._fresh.replace(self.path)
        except OSError:
            self._fresh.unlink(missing_ok=True)
            raise
        self._is_damaged = False


def _read(path: Path) -> dict[MessageQueue, int]:
    with path.open("rb") as file:
        content = file.read(FILE_SIZE_MAX + 1)
    if len(content) > FILE_SIZE_MAX:
        raise _too_large(path, len(content))
    table = LocalOffsets.decode(content).offset_table
    return {MessageQueue(*key): offset for key, offset in table.items() if offset >= 0}


def _too_large(path: Path, size: int) -> RocketMQError:
    return RocketMQError(f"{path} has {size} bytes or more, at most {FILE_SIZE_MAX} are possible")


class FileOffsets(OffsetTable):
    """Offsets that are kept in a file. No method raises for what a disk does.

    Nothing is written over a file that could not be read: the next call reads it again. Offsets
    that wait for that, or for a disk that takes them, are given by `load` all the same.
    """

    def __init__(
        self,
        engine: ClientInstance,
        group: str,
        directory: Path,
        *,
        now: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__(engine, SOON_MS)
        self._group = group
        self._directory = directory
        self._file = OffsetFile(directory, engine.client_id, group)
        self._now = now
        self._told_at: float | None = None
        # Held while the file is read or written; all below belongs to it.
        self._turn = threading.Lock()
        self._stored: dict[MessageQueue, int] = {}
        self._is_read = False
        self._is_written = True

    def load(self, queue: MessageQueue) -> int | None:
        """Read the stored offset, None when there is none, and note it."""
        with self._turn:
            self._read()
            stored = self._stored.get(queue)
        if stored is not None:
            self.update(queue, stored, increase_only=False)
        return stored

    def _write(self, queues: Collection[MessageQueue], *, changed_only: bool = False) -> None:
        del changed_only  # a file is written whole, and only when something in it changed
        with self._turn:
            for queue, offset in self._noted(queues).items():
                if self._stored.get(queue) != offset:
                    self._stored[queue] = offset
                    self._is_written = False
            if self._is_written or not self._read():
                return
            try:
                self._file.write(self._stored)
            except (OSError, ValueError, RocketMQError) as error:
                self._tell("written", error)
            else:
                self._is_written = True

    def _read(self) -> bool:
        """Read the file unless that is done; False when it cannot be read now."""
        if self._is_read:
            return True
        try:
            self._stored = self._file.read() | self._stored
        except RocketMQError as error:  # it will not become better
            self._tell("read", error)
        except (OSError, ValueError) as error:  # ValueError: such a directory cannot be
            self._tell("read", error)
            return False
        self._is_read = True
        return True

    def _tell(self, verb: str, error: Exception) -> None:
        now = self._now()
        if self._told_at is not None and now - self._told_at < TOLD_EVERY_S:
            return
        self._told_at = now
        logger.warning(
            "group %s: offsets cannot be %s in %s (setting %s, told once a minute), they stay in "
            "memory: %s",
            self._group,
            verb,
            self._directory,
            SETTING,
            error,
        )

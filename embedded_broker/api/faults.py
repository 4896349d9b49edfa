"""What a test lets go wrong: answers, and the disk under a broker.

Answers: ``broker.faults``. Every fault counts how often it happened (``hits``); one that never did
can be made an error, since a test that expected it proves nothing. Must not know: how files are
written, how requests are handled. Read on: ``embedded_broker/remoting/request_faults.py`` and
``embedded_broker/store/fault_points.py`` for where faults take effect.
"""

from random import Random
from typing import Final, Protocol

from embedded_broker.errors import FaultNotUsedError
from embedded_broker.remoting.request_faults import Fault, RequestFaults
from embedded_broker.store.fault_points import DiskFault
from embedded_broker.store.fs import FileSystem
from rocketmq_py.errors import ConfigError

__all__ = ["DiskFaults", "Faults"]

COMMIT_LOG: Final = "commitlog"


class Disk(Protocol):
    """The disk of one broker; ``embedded_broker.lifecycle.ensemble.BrokerSlot`` has it."""

    @property
    def file_system(self) -> FileSystem:
        """Where the bytes go; the same object in every life of the broker."""
        ...

    @property
    def is_running(self) -> bool:
        """Whether the broker writes to it."""
        ...

    @property
    def random(self) -> Random:
        """What the broker's seed gives."""
        ...

    loses: "bool | None"
    """Whether the next crash loses unsynced bytes: all (False) or random last parts (True)."""


class DiskFaults:
    """``broker.faults.disk``: works for every store, in memory and in a directory."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._asked: list[DiskFault] = []

    def __repr__(self) -> str:
        told = [f"{one.what} ({one.hits} hits)" for one in self._asked]
        if self._disk.loses is not None:
            told.append("the next crash loses unsynced bytes")
        return f"<disk faults: {'; '.join(told) or 'none'}>"

    def fail_next_flush(self, *, times: int = 1, path: str = "") -> DiskFault:
        """Let the next ``times`` syncs fail: nothing is durable that was to become so.

        Sends go on; under ``flushDiskType=SYNC_FLUSH`` their answers wait for a flush that works,
        or say 10 after ``syncFlushTimeout``. ``path``: only those of this file or folder, such as
        ``"timerlog"``.
        """
        if times < 1:
            raise ConfigError("times", times, "1 or more")
        fault = DiskFault("the sync failed, as a test asked for", path, left=times)
        self._disk.file_system.faults.add_sync(fault)
        return self._note(fault)

    def tear_next_write(self, at: int, *, path: str = COMMIT_LOG) -> DiskFault:
        """Let only ``at`` bytes of the next longer write arrive, and that write fail.

        ``path`` is a file or folder, by default the commit log: the next message is torn and its
        send refused. ``crash()`` then leaves the torn bytes to recovery.
        """
        if at < 0:
            raise ConfigError("at", at, "0 or more bytes")
        fault = DiskFault("the write was torn, as a test asked for", path, room=at)
        self._disk.file_system.faults.add_write(fault)
        return self._note(fault)

    def fill_after(self, bytes: int) -> DiskFault:  # noqa: A002 - reads as fill_after(bytes=...)
        """Let the disk be full once so many more bytes were written, until ``clear()``."""
        if bytes < 0:
            raise ConfigError("bytes", bytes, "0 or more")
        fault = DiskFault(
            "no space left on the disk, as a test asked for", left=None, room=bytes, of_all=True
        )
        self._disk.file_system.faults.add_write(fault)
        return self._note(fault)

    def lose_unsynced(self, *, random_prefix: bool = False) -> None:
        """Lose what no sync has made durable: in the next ``crash()``, or now if it is crashed.

        With ``random_prefix`` each file keeps a first part of it, chosen by the broker's seed.
        A clean ``close()`` syncs everything, so nothing is lost then.
        """
        if self._disk.is_running:
            self._disk.loses = random_prefix
            return
        random = self._disk.random if random_prefix else None
        self._disk.file_system.lose_unsynced(random)

    def clear(self) -> None:
        """Let the disk work again."""
        self._disk.file_system.faults.clear()
        self._disk.loses = None
        self._asked.clear()

    @property
    def unused(self) -> list[DiskFault]:
        """The faults that were asked for and never happened."""
        return [fault for fault in self._asked if not fault.hits]

    def _note(self, fault: DiskFault) -> DiskFault:
        self._asked.append(fault)
        return fault


class Faults:
    """``broker.faults``: what goes wrong on purpose."""

    def __init__(self, disk: Disk, requests: RequestFaults) -> None:
        self.disk = DiskFaults(disk)
        """Syncs that fail, writes that are torn, bytes that are lost, a disk that is full."""
        self._requests = requests

    def __repr__(self) -> str:
        told = [repr(one) for one in self._requests.asked]
        return f"<faults: {'; '.join(told) or 'none of requests'}; {self.disk!r}>"

    def on(
        self,
        code: int | str | None,
        *,
        topic: str | None = None,
        group: str | None = None,
        client: str | None = None,
        nth: int = 1,
    ) -> Fault:
        """Begin a fault about requests of clients; a verb says what happens to them.

        ``code`` is the request's, as a number or by its name in ``RequestCode`` (None: any
        request to the broker itself), ``topic``, ``group`` and ``client`` (client id) say more
        about it. The ``nth`` such request from now on is the first that goes wrong, and the only
        one unless ``times`` or ``always`` say otherwise. The name server's requests can go wrong,
        too. Raises ``ConfigError`` for an unknown name, with the nearest ones.

        >>> from embedded_broker import EmbeddedBroker
        >>> from rocketmq_py.protocol.codes import RequestCode, ResponseCode
        >>> broker = EmbeddedBroker(tcp=False)
        >>> busy = broker.faults.on(RequestCode.SEND_MESSAGE_V2, topic="T", nth=2)
        >>> busy.respond(ResponseCode.SYSTEM_BUSY)
        <fault on(SEND_MESSAGE_V2, topic='T', nth=2).respond, 0 hits>
        """
        return self._requests.on(code, topic=topic, group=group, client=client, nth=nth)

    def clear(self) -> None:
        """Let everything work again, and forget what was asked for."""
        self._requests.clear()
        self.disk.clear()

    def assert_all_used(self) -> None:
        """Raise ``FaultNotUsedError`` that names what was asked for and never happened."""
        unused = [repr(fault) for fault in (*self._requests.unused, *self.disk.unused)]
        if unused:
            raise FaultNotUsedError("asked for and never happened: " + "; ".join(unused))

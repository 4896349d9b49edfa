"""Faults that a test asks for: of answers, and of the disk under a broker.

Answers: ``broker.faults``. Every fault counts how often it happened (``hits``). ``assert_all_used``
makes a fault that never happened an error, because the test that asked for it proves nothing. Must
not know: how files are written, how requests are handled. Read on:
``embedded_broker/remoting/request_faults.py`` and ``embedded_broker/store/fault_points.py`` for
where faults take effect.
"""

from typing import Final

from embedded_broker.errors import FaultNotUsedError
from embedded_broker.lifecycle.running_brokers import BrokerSlot
from embedded_broker.remoting.request_faults import Fault
from embedded_broker.store.fault_points import DiskFault
from rocketmq_py.errors import ConfigError

COMMIT_LOG: Final = "commitlog"


class DiskFaults:
    """``broker.faults.disk``: faults of the disk, for stores in memory and in a directory."""

    def __init__(self, slot: BrokerSlot) -> None:
        self._slot = slot
        self._asked: list[DiskFault] = []

    def __repr__(self) -> str:
        told = [f"{one.what} ({one.hits} hits)" for one in self._asked]
        if self._slot.loses is not None:
            told.append("the next crash loses unsynced bytes")
        return f"<disk faults: {'; '.join(told) or 'none'}>"

    def fail_next_flush(self, *, times: int = 1, path: str = "") -> DiskFault:
        """Let the next ``times`` syncs fail, so that nothing becomes durable by them.

        Sends still work. Under ``flushDiskType=SYNC_FLUSH`` their answers wait for a sync that
        works, or are code 10 after ``syncFlushTimeout``. With ``path`` only syncs of this file or
        folder fail, such as ``"timerlog"``.
        """
        if times < 1:
            raise ConfigError("times", times, "1 or more")
        fault = DiskFault("the sync failed because a test asked for it", path, left=times)
        self._slot.file_system.faults.add_sync(fault)
        return self._note(fault)

    def tear_next_write(self, at: int, *, path: str = COMMIT_LOG) -> DiskFault:
        """Cut the next write that is longer than ``at`` bytes after ``at`` bytes, and let it fail.

        ``path`` is a file or folder. By default it is the commit log, so the next message is torn
        and its send refused. After a ``crash()`` recovery finds the torn bytes.
        """
        if at < 0:
            raise ConfigError("at", at, "0 or more bytes")
        fault = DiskFault("the write was torn because a test asked for it", path, room=at)
        self._slot.file_system.faults.add_write(fault)
        return self._note(fault)

    def fill_after(self, bytes: int) -> DiskFault:  # noqa: A002 - reads as fill_after(bytes=...)
        """Let the disk be full after this many more bytes, until ``clear()``."""
        if bytes < 0:
            raise ConfigError("bytes", bytes, "0 or more")
        fault = DiskFault(
            "no space left on the disk: a test asked for it", left=None, room=bytes, of_all=True
        )
        self._slot.file_system.faults.add_write(fault)
        return self._note(fault)

    def lose_unsynced(self, *, random_prefix: bool = False) -> None:
        """Lose all unsynced bytes: in the next ``crash()``, or now if the broker has crashed.

        With ``random_prefix`` each file keeps the first of these bytes; the broker's seed says how
        many. A clean ``close()`` syncs everything, so nothing is lost then.
        """
        if self._slot.is_running:
            self._slot.loses = random_prefix
            return
        random = self._slot.random if random_prefix else None
        self._slot.file_system.lose_unsynced(random)

    def clear(self) -> None:
        """Let the disk work again."""
        self._slot.file_system.faults.clear()
        self._slot.loses = None
        self._asked.clear()

    def end(self, fault: DiskFault) -> None:
        """Let one fault happen no more. Its ``hits`` keep their value."""
        self._slot.file_system.faults.remove(fault)

    @property
    def asked(self) -> list[DiskFault]:
        """The faults that were asked for, also those that are used up."""
        return list(self._asked)

    @property
    def unused(self) -> list[DiskFault]:
        """The faults that were asked for and never happened."""
        return [fault for fault in self._asked if not fault.hits]

    def _note(self, fault: DiskFault) -> DiskFault:
        self._asked.append(fault)
        return fault


class Faults:
    """``broker.faults``: what goes wrong on purpose."""

    def __init__(self, slot: BrokerSlot) -> None:
        self.disk = DiskFaults(slot)
        """Syncs that fail, writes that are torn, bytes that are lost, a disk that is full."""
        self._requests = slot.request_faults

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
        """Choose requests of clients that shall go wrong; a verb then says what happens to them.

        ``code`` is the request code, as a number or by its name in ``RequestCode``. None means any
        request to the broker, but not to the name server. ``topic``, ``group`` and ``client``
        (client id) narrow the choice. The ``nth`` such request from now on goes wrong, and only
        that one, unless ``times`` or ``always`` is called. Requests to the name server can go
        wrong, too. So can calls over gRPC, by their names, such as ``"SendMessage"``. Raises
        ``ConfigError`` for an unknown name and names the nearest ones.

        >>> from embedded_broker import EmbeddedBroker
        >>> from rocketmq_py.protocol.codes import RequestCode, ResponseCode
        >>> broker = EmbeddedBroker(tcp=False)
        >>> busy = broker.faults.on(RequestCode.SEND_MESSAGE_V2, topic="T", nth=2)
        >>> busy.respond(ResponseCode.SYSTEM_BUSY)
        <fault on(SEND_MESSAGE_V2, topic='T', nth=2).respond, 0 hits>
        """
        return self._requests.on(code, topic=topic, group=group, client=client, nth=nth)

    def cut_telemetry(self, client: str, status: str = "UNAVAILABLE") -> None:
        """End the stream by which the broker reaches a gRPC client, with a status of gRPC.

        ``client`` is its id. Raises ``ConfigError`` when it has no stream, or there is no such
        status.
        """
        self._requests.cut_telemetry(client, status)

    def clear(self) -> None:
        """Let everything work again, and forget what was asked for."""
        self._requests.clear()
        self.disk.clear()

    @property
    def asked(self) -> "list[Fault | DiskFault]":
        """The faults that were asked for, also those that have ended."""
        return [*self._requests.asked, *self.disk.asked]

    @property
    def unused(self) -> "list[Fault | DiskFault]":
        """The faults that were asked for and never happened."""
        return [*self._requests.unused, *self.disk.unused]

    def assert_all_used(self) -> None:
        """Raise ``FaultNotUsedError`` if a fault never happened; its text names every such one."""
        unused = [repr(fault) for fault in self.unused]
        if unused:
            raise FaultNotUsedError("asked for, but never happened: " + "; ".join(unused))

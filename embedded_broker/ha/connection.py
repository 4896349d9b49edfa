"""Bytes between a master and one of its slaves: reports in, pieces of the log out.

One object for each accepted socket, on the loop of ``remoting/server.py``; after the carrying half
of ``DefaultHAConnection``. Imported only when a broker listens for slaves. Must not know: what is
sent next, and when. Read on: ``service.py``, which decides.
"""

from collections.abc import Callable
from typing import Final

from embedded_broker.ha.service import HAService, Slave
from embedded_broker.remoting.server import TcpServer
from embedded_broker.remoting.socket_transport import SocketTransport
from embedded_broker.tables.peer import is_loopback
from rocketmq_py.protocol.transfer import ReportDecoder, encode_piece

TURN_BYTES: Final = 1024 * 1024
"""So much is sent before others on the loop have their turn."""
WRITE_BUFFER_MAX: Final = 128 * 1024


class HAConnection:
    """Serves one slave from its first report until its end.

    While the broker is paused nothing is taken note of and nothing leaves.
    ``allow_remote`` says whether slaves of other hosts are served now.
    """

    def __init__(
        self,
        server: TcpServer,
        service: HAService,
        allow_remote: Callable[[], bool],
        refuse: Callable[[str], None],
    ) -> None:
        self._server = server
        self._service = service
        self._allow_remote = allow_remote
        self._refuse = refuse
        self._decoder = ReportDecoder()
        self._report: int | None = None
        self._transport: SocketTransport | None = None
        self._slave: Slave | None = None
        self._is_full = False
        self._is_asked = False

    # -- the socket -------------------------------------------------------------------------

    def connection_made(self, transport: SocketTransport) -> None:
        """Begin to serve a slave, unless there are too many connections or it may not."""
        host, port = transport.remote
        if not is_loopback(host) and not self._allow_remote():
            self._refuse(
                f"a slave at {host} is refused: it would read everything (allowRemoteAdmin=false)"
            )
            transport.abort()
            return
        if not self._server.has_room():
            transport.abort()
            return
        transport.set_write_buffer_limits(WRITE_BUFFER_MAX)
        self._transport = transport
        service = self._service
        self._server.adopt(self, service.address)
        with service.door:
            self._slave = service.add(self, f"{host}:{port}")

    def data_received(self, data: bytes) -> None:
        """Take note of a report, and send what there is."""
        offset = self._decoder.feed(data)
        if offset is not None:
            self._report = offset
            self._go_on()

    def end_received(self, transport: SocketTransport) -> None:
        """End as well: a slave that reports no more is none."""
        transport.abort()

    def pause_writing(self) -> None:
        """Wait: the slave does not read so fast."""
        self._is_full = True

    def resume_writing(self) -> None:
        """Go on: the slave has read."""
        self._is_full = False
        self._go_on()

    def connection_lost(self, error: BaseException | None) -> None:  # noqa: ARG002 - why does not matter
        """Let the broker forget the slave."""
        slave, self._slave = self._slave, None
        if slave is not None:
            with self._service.door:
                self._service.remove(slave)
        if self._transport is not None:
            self._server.forget(self)

    # -- what others ask, on any thread -------------------------------------------------------

    def go_on(self) -> None:
        """Send what there is to send, soon."""
        if not self._is_asked:
            self._is_asked = True
            self._server.call_soon(self._go_on)

    def end(self) -> None:
        """End the connection, soon."""
        self._server.call_soon(self.abort)

    def abort(self) -> None:
        """Close at once. On the loop's thread."""
        if self._transport is not None:
            self._transport.abort()

    def reset_on_close(self) -> None:
        """Let the kernel send a reset when the socket closes. On the loop's thread."""
        if self._transport is not None:
            self._transport.reset_on_close()

    # -- the work, on the loop's thread -----------------------------------------------------

    def _go_on(self) -> None:
        self._is_asked = False
        service, slave, transport = self._service, self._slave, self._transport
        if slave is None or transport is None or transport.is_closing() or service.door.pause.on:
            return
        report, self._report = self._report, None
        if report is not None:
            with service.door:
                service.reported(slave, report)
        elif service.is_expired(slave):
            self._refuse(
                f"slave {slave.address} is given up: it is silent (haHousekeepingInterval)"
            )
            transport.abort()
            return
        self._send(service, slave, transport)

    def _send(self, service: HAService, slave: Slave, transport: SocketTransport) -> None:
        """Send pieces until the slave has all, does not read so fast, or others have their turn."""
        left = TURN_BYTES
        while not self._is_full:
            if left <= 0:
                self.go_on()
                return
            with service.door.quiet:
                piece = service.next_piece(slave)
                is_due = piece is None and service.wants_heartbeat(slave)
            if piece is None:
                if is_due:
                    transport.write(encode_piece(slave.next_offset))
                return
            transport.write(encode_piece(*piece))
            left -= len(piece.data)

"""HA client of a slave: report how far its log is, and take over what the master sends.

One thread of a slave. After ``DefaultHAClient``. Must not know: records, tables, who the master is.
Read on: ``synchronize.py``, which says where it is, ``embedded_broker/store/following.py`` for what
becomes of the bytes, ``rocketmq_py/protocol/transfer.py`` for their form.
"""

import socket
from threading import Event, Thread
from typing import Final

from embedded_broker.door import Door
from embedded_broker.errors import StoreError
from embedded_broker.remoting.rate_limited_log import RateLimitedLog
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.following import Follower
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.transfer import PieceDecoder, encode_report

logger = get_logger(__name__)

CONNECT_S: Final = 3.0
RETRY_S: Final = 5.0
"""After a failure; a new address is tried at once."""
CLOSE_S: Final = 10.0
CHUNK: Final = 256 * 1024


class HAClient:
    """``start`` and ``close`` are called once each; ``go_to`` says where the master is."""

    def __init__(self, door: Door, follower: Follower, config: BrokerConfig) -> None:
        self._door = door
        self._follower = follower
        self._config = config
        self._address = ""
        self._socket: socket.socket | None = None
        self._wake = Event()
        self._is_closed = False
        self._failures = RateLimitedLog(logger)
        self._thread = Thread(target=self._run, name="embedded-broker-slave", daemon=True)

    @property
    def address(self) -> str:
        """Where the master is; "" while it is not known."""
        return self._address

    def start(self) -> None:
        """Begin to follow as soon as a master is known."""
        self._thread.start()

    def go_to(self, address: str) -> None:
        """Follow the master whose HA address this is; "" waits for one."""
        if address != self._address:
            logger.info("slave_follows_master %s", address or "none")
            self._address = address
            self._let_go()
            self._wake.set()

    def close(self) -> None:
        """End the connection and the thread; idempotent. Outside the door."""
        self._is_closed = True
        self._let_go()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)

    def _let_go(self) -> None:
        line = self._socket
        if line is not None:
            try:
                line.shutdown(socket.SHUT_RDWR)
            except OSError:
                logger.debug("the master's connection has ended already")

    def _run(self) -> None:
        while not self._is_closed:
            address = self._address
            if address:
                try:
                    self._follow(address)
                except (OSError, ValueError, StoreError) as error:
                    # Where the master is, a name server said: that may be no address.
                    if not self._is_closed:
                        self._failures.warn(f"master {address}: {error}; trying again")
            self._wake.wait(RETRY_S)
            self._wake.clear()

    def _follow(self, address: str) -> None:
        """Take over pieces until the connection ends. Raises what went wrong."""
        host, _, port = address.rpartition(":")
        patience_s = max(self._config.int("haSendHeartbeatInterval"), 1) / 1000
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_S) as line:
            self._socket = line
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line.settimeout(patience_s)
            decoder, silent_ms = PieceDecoder(), 0.0
            while not self._is_closed and address == self._address:
                with self._door.quiet:
                    end = self._follower.max_offset
                line.sendall(encode_report(end))  # a master gives up a slave that says nothing
                try:
                    data = line.recv(CHUNK)
                except TimeoutError:
                    silent_ms += patience_s * 1000
                    if silent_ms > self._config.int("haHousekeepingInterval"):
                        raise
                    continue
                if not data:
                    raise ConnectionResetError("it has ended the connection")
                silent_ms = 0.0
                self._take(decoder, data)

    def _take(self, decoder: PieceDecoder, data: bytes) -> None:
        for piece in decoder.feed(data):
            if piece.data:
                with self._door:
                    if not self._is_closed:
                        self._follower.append(*piece)

"""A slave's tie to its cluster: where its master is, and what the master's tables hold.

One thread of a slave. It registers at the name servers of ``namesrvAddr``, whose answer tells of
the master, and asks the master for its tables every three seconds. After ``SlaveSynchronize`` and
``BrokerController.registerBrokerAll``. Must not know: the commit log. Read on: ``tables.py`` for
what becomes of the answers, ``client.py`` for the log.
"""

import logging
from collections.abc import Callable
from threading import Event, Thread
from typing import Final

from embedded_broker.door import Door
from embedded_broker.ha.client import HAClient
from embedded_broker.ha.request_line import RequestLine
from embedded_broker.ha.tables import FollowedTables
from embedded_broker.remoting.rare_lines import RareLines
from embedded_broker.settings.config import BrokerConfig
from rocketmq_py.errors import BodyError, MQBrokerException, RocketMQError
from rocketmq_py.protocol.bodies.topics import RegisterBrokerBody
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.namesrv import (
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
)

logger = logging.getLogger(__name__)

TURN_MS: Final = 3000
CLOSE_S: Final = 10.0


class SlaveSynchronize:
    """``start`` and ``close`` are called once each.

    ``header`` is how the slave announces itself, ``topics`` gives with what, under the door.
    ``note`` is called under the door after tables were taken.
    """

    def __init__(
        self,
        *,
        door: Door,
        config: BrokerConfig,
        version: int,
        header: RegisterBrokerRequestHeader,
        topics: Callable[[], RegisterBrokerBody],
        tables: FollowedTables,
        client: HAClient,
        note: Callable[[], None],
    ) -> None:
        self._door = door
        self._config = config
        self._version = version
        self._header = header
        self._topics = topics
        self._tables = tables
        self._client = client
        self._note = note
        self._name_servers = [
            RequestLine(address.strip(), version)
            for address in config.text("namesrvAddr").split(";")
            if address.strip()
        ]
        self._master: RequestLine | None = None
        self._stopped = Event()
        self._failures = RareLines(logger)
        self._thread = Thread(target=self._run, name="embedded-broker-tables", daemon=True)

    def start(self) -> None:
        """Register, and begin to follow."""
        self._thread.start()

    def close(self) -> None:
        """Say goodbye and end; idempotent. Outside the door."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        waited_ms = self._config.int("registerNameServerPeriod")
        while True:
            if waited_ms >= self._config.int("registerNameServerPeriod") or self._master is None:
                waited_ms = 0
                for name_server in self._name_servers:
                    self._attempt(self._register, name_server)
            if self._master is not None:
                self._attempt(self._take_tables, self._master)
            if self._stopped.wait(TURN_MS / 1000):
                break
            waited_ms += TURN_MS
        for name_server in self._name_servers:
            self._attempt(self._unregister, name_server)
            name_server.close()
        if self._master is not None:
            self._master.close()

    def _attempt(self, act: Callable[[RequestLine], None], line: RequestLine) -> None:
        """Do it now or in a later turn: a server may be away."""
        try:
            act(line)
        except (OSError, RocketMQError, ValueError) as error:
            self._failures.warn(f"{line.address}: {error}; trying again")

    def _register(self, name_server: RequestLine) -> None:
        with self._door:
            body = self._topics().encode()
        answer = name_server.ask(RequestCode.REGISTER_BROKER, self._header.to_ext(), body)
        found = RegisterBrokerResponseHeader.from_ext(answer.ext_fields)
        address = found.master_addr or ""
        if (self._master.address if self._master else "") != address:
            if self._master is not None:
                self._master.close()
            self._master = RequestLine(address, self._version) if address else None
        self._client.go_to(
            self._config.text("haMasterAddress") or (found.ha_server_addr or "" if address else "")
        )

    def _unregister(self, name_server: RequestLine) -> None:
        header = self._header
        name_server.ask(
            RequestCode.UNREGISTER_BROKER,
            UnRegisterBrokerRequestHeader(
                broker_name=header.broker_name,
                broker_addr=header.broker_addr,
                cluster_name=header.cluster_name,
                broker_id=header.broker_id,
            ).to_ext(),
        )

    def _take_tables(self, master: RequestLine) -> None:
        for code, take in self._tables.requests().items():
            try:
                body = master.ask(code).body
                with self._door:
                    if self._stopped.is_set():
                        return
                    take(body)
                    self._note()
            except (MQBrokerException, BodyError) as error:
                # One that has none of it (4.9 knows no timers) may have the others.
                self._failures.warn(f"master {master.address}: {error}")

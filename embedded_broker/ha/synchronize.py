"""Slave synchronization: where the master is, and what its tables hold.

One thread of a slave. It registers at the name servers of ``namesrvAddr``, whose answer tells of
the master, and asks the master for its tables every three seconds. With ``enableSlaveActingMaster``
it asks name servers, too, whether a broker with a lesser id is there, and those that they do not
know any more whether they live. After ``SlaveSynchronize`` and
``BrokerController.registerBrokerAll``. Must not know: the commit log. Read on: ``tables.py`` for
what becomes of the answers, ``client.py`` for the log.
"""

from collections.abc import Callable, Mapping
from functools import partial
from threading import Event, Thread
from typing import Final, Protocol

from embedded_broker.door import Door
from embedded_broker.errors import StoreError
from embedded_broker.ha.client import HAClient
from embedded_broker.ha.request_line import RequestLine, lines_to
from embedded_broker.ha.tables import FollowedTables
from embedded_broker.remoting.rate_limited_log import RateLimitedLog
from embedded_broker.settings.config import BrokerConfig
from rocketmq_py.errors import BodyError, MQBrokerException, RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.replication import GetBrokerMemberGroupResponseBody
from rocketmq_py.protocol.bodies.topics import MASTER_ID, RegisterBrokerBody
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.namesrv import (
    GetBrokerMemberGroupRequestHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
)

logger = get_logger(__name__)

TURN_MS: Final = 3000
CLOSE_S: Final = 10.0


class Acting(Protocol):
    """What is told who is there. Used under the door."""

    is_acting: bool

    def look(self, *, is_first: bool) -> None:
        """Act if this is the first broker of its name, or follow. Raises ``StoreError``."""


def members_of(name_server: RequestLine, cluster: str, broker_name: str) -> Mapping[int, str]:
    """Ask for the addresses of master and slaves, by id; empty where the name is not known."""
    header = GetBrokerMemberGroupRequestHeader(cluster_name=cluster, broker_name=broker_name)
    answer = name_server.ask(RequestCode.GET_BROKER_MEMBER_GROUP, header.to_ext())
    body = GetBrokerMemberGroupResponseBody.decode(answer.body)
    return body.broker_member_group.broker_addrs


def say_goodbye(name_server: RequestLine, header: RegisterBrokerRequestHeader) -> None:
    """Tell a name server that a broker leaves."""
    name_server.ask(
        RequestCode.UNREGISTER_BROKER,
        UnRegisterBrokerRequestHeader(
            broker_name=header.broker_name,
            broker_addr=header.broker_addr,
            cluster_name=header.cluster_name,
            broker_id=header.broker_id,
        ).to_ext(),
    )


class SlaveSynchronize:
    """``start`` and ``close`` are called once each.

    ``header`` is how the slave announces itself, ``topics`` gives with what, under the door.
    ``note`` is called under the door after tables were taken, ``acting`` is told when a name server
    said whether this is the first of its name.
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
        acting: Acting | None = None,
    ) -> None:
        self._door = door
        self._config = config
        self._version = version
        self._header = header
        self._topics = topics
        self._tables = tables
        self._client = client
        self._note = note
        self._acting = acting
        self._name_servers = lines_to(config.text("namesrvAddr"), version)
        self._master: RequestLine | None = None
        self._before: dict[int, str] = {}
        """Where the master was, and other brokers with lesser ids when any was known last."""
        self._stopped = Event()
        self._failures = RateLimitedLog(logger)
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
        turn_ms = TURN_MS
        if self._acting is not None:
            turn_ms = min(TURN_MS, self._config.int("syncBrokerMemberGroupPeriod"))
        register_every_ms = self._config.int("registerNameServerPeriod")
        waited_ms, tables_ms = register_every_ms, TURN_MS
        while True:
            if waited_ms >= register_every_ms or self._master is None:
                waited_ms = 0
                for name_server in self._name_servers:
                    self._attempt(self._register, name_server)
            if self._acting is not None:
                self._look_around(self._acting)
            if self._master is not None and tables_ms >= TURN_MS and not self._is_acting:
                tables_ms = 0
                self._attempt(self._take_tables, self._master)
            if self._stopped.wait(turn_ms / 1000):
                break
            waited_ms += turn_ms
            tables_ms += turn_ms
        for name_server in self._name_servers:
            self._attempt(lambda line: say_goodbye(line, self._header), name_server)
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
        if address:
            self._before[MASTER_ID] = address
        if (self._master.address if self._master else "") != address:
            if self._master is not None:
                self._master.close()
            self._master = RequestLine(address, self._version) if address else None
        self._client.go_to(
            self._config.text("haMasterAddress") or (found.ha_server_addr or "" if address else "")
        )

    @property
    def _is_acting(self) -> bool:
        """Whether it acts now: a master that comes back ends it at any time."""
        return self._acting is not None and self._acting.is_acting

    def _look_around(self, acting: Acting) -> None:
        """Find out whether this is the first broker of its name, and where the master is.

        It is if no name server that answers knows a lesser id, and those before it are silent
        themselves: a name server that starts again knows nobody. If none answers everything stays
        as it is.
        """
        own, found = self._header.broker_id, dict[int, str]()
        for name_server in self._name_servers:
            self._attempt(partial(self._look_at_members, found), name_server)
        if not found:
            return
        before = {number: address for number, address in found.items() if number < own}
        if before:  # the master stays known: it is only away
            self._before = {MASTER_ID: self._before.get(MASTER_ID, ""), **before}
        if not before and not self._is_acting and self._one_before_lives():
            return
        try:
            with self._door:
                if not self._stopped.is_set():
                    acting.look(is_first=not before)
        except StoreError as error:
            self._failures.warn(f"the role does not change yet: {error}; trying again")
        if MASTER_ID not in found and self._master is not None:
            for name_server in self._name_servers:
                self._attempt(self._register, name_server)

    def _look_at_members(self, found: dict[int, str], name_server: RequestLine) -> None:
        header = self._header
        members = members_of(name_server, header.cluster_name, header.broker_name)
        found.update(members)
        master = members.get(MASTER_ID, "")
        is_other = master and master != (self._master.address if self._master else "")
        if is_other or header.broker_id not in members:
            self._register(name_server)  # it says where the master is followed

    def _one_before_lives(self) -> bool:
        """Ask those with lesser ids that were known last."""
        return any(self._lives(address) for address in self._before.values() if address)

    def _lives(self, address: str) -> bool:
        line = RequestLine(address, self._version)
        try:
            line.ask(RequestCode.EXCHANGE_BROKER_HA_INFO)
        except MQBrokerException:
            return True
        except (OSError, RocketMQError, ValueError):
            return False
        finally:
            line.close()
        return True

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

"""Registration of a master at name servers of other processes.

One thread of a master with ``namesrvAddr``. With ``enableSlaveActingMaster`` it registers only
after the slaves of its name have made way and told how far they have acted for it; until then it
delivers nothing. So it is, too, when name servers took it for dead because it was slow. After
``BrokerController.registerBrokerAll`` and ``BrokerPreOnlineService``. Must not know: timers.
Read on: ``synchronize.py``, which does it for a slave.
"""

from collections.abc import Callable
from threading import Event, Thread
from typing import Final

from embedded_broker.door import Door
from embedded_broker.ha.request_line import RequestLine, lines_to
from embedded_broker.ha.synchronize import CLOSE_S, members_of, say_goodbye
from embedded_broker.ha.tables import SlavesWork
from embedded_broker.remoting.rate_limited_log import RateLimitedLog
from embedded_broker.settings.config import BrokerConfig
from rocketmq_py.errors import RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.topics import RegisterBrokerBody
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.admin import (
    ExchangeHAInfoRequestHeader,
    ExchangeHAInfoResponseHeader,
)
from rocketmq_py.protocol.headers.namesrv import (
    BrokerHeartbeatRequestHeader,
    RegisterBrokerRequestHeader,
)

logger = get_logger(__name__)

TURN_S: Final = 1.0
AGAIN_S: Final = 0.1
"""Until slaves are asked again whose last messages are still leaving."""
NOT_ACTIVE_MS: Final = 10_000
"""``brokerNotActiveTimeoutMillis``: a master with slaves that is silent for so long is away."""


class NotYetError(RocketMQError):
    """A slave has not made way."""


class Registration:
    """``start`` and ``close`` are called once each, ``topics_changed`` under the door.

    ``header`` is how the master announces itself, ``topics`` gives with what, under the door.
    ``work`` takes over what slaves have done; None: nobody acts for this master.
    """

    def __init__(
        self,
        *,
        door: Door,
        config: BrokerConfig,
        version: int,
        header: RegisterBrokerRequestHeader,
        topics: Callable[[], RegisterBrokerBody],
        work: SlavesWork | None,
    ) -> None:
        self._door = door
        self._config = config
        self._version = version
        self._header = header
        self._topics = topics
        self._work = work
        self._name_servers = lines_to(config.text("namesrvAddr"), version)
        self._stopped = self._says_goodbye = False
        self._wake = Event()
        self._failures = RateLimitedLog(logger)
        self._thread = Thread(target=self._run, name="embedded-broker-tables", daemon=True)
        self.is_online = work is None
        """Whether it may deliver and be found."""

    def start(self) -> None:
        """Begin to register."""
        self._thread.start()

    def topics_changed(self) -> None:
        """Tell the name servers soon."""
        self._wake.set()

    def close(self, *, politely: bool) -> None:
        """Say goodbye and end; without a word the connections end, as those of a killed process.

        Outside the door.
        """
        self._stopped, self._says_goodbye = True, politely
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        period_s = self._config.int("registerNameServerPeriod") / 1000
        waited_s, is_changed = period_s, False
        while not self._stopped:
            wait_s = TURN_S
            if self.is_online and self._work is not None and self._is_forgotten():
                with self._door:
                    if not self._stopped:
                        self._work.go_offline()
                self.is_online = False
            if not self.is_online:
                wait_s, waited_s = self._come_online(), period_s
            if self.is_online:
                act = self._beat
                if is_changed or waited_s >= period_s:
                    act, waited_s = self._register, 0.0
                for name_server in self._name_servers:
                    self._attempt(act, name_server)
            is_changed = self._wake.wait(wait_s)
            self._wake.clear()
            waited_s += wait_s
        for name_server in self._name_servers:
            if self._says_goodbye and self.is_online:
                self._attempt(lambda line: say_goodbye(line, self._header), name_server)
            name_server.close()

    def _attempt(self, act: Callable[[RequestLine], None], line: RequestLine) -> bool:
        """Do it now or in a later turn: a server may be away."""
        try:
            act(line)
        except (OSError, RocketMQError, ValueError) as error:
            self._failures.warn(f"{line.address}: {error}; trying again")
            return False
        return True

    def _register(self, name_server: RequestLine) -> None:
        with self._door:
            body = self._topics().encode()
        name_server.ask(RequestCode.REGISTER_BROKER, self._header.to_ext(), body)

    def _beat(self, name_server: RequestLine) -> None:
        """Say that this master is still there; only where slaves wait for the opposite."""
        header = self._header
        if self._work is not None:
            fields = BrokerHeartbeatRequestHeader(
                broker_addr=header.broker_addr,
                broker_name=header.broker_name,
                cluster_name=header.cluster_name,
            ).to_ext()
            name_server.ask(RequestCode.BROKER_HEARTBEAT, fields)

    def _is_forgotten(self) -> bool:
        """Say whether every name server that answers took this master for dead: a slave may act."""
        header = self._header
        known: list[bool] = []

        def look(name_server: RequestLine) -> None:
            members = members_of(name_server, header.cluster_name, header.broker_name)
            known.append(header.broker_id in members)

        for name_server in self._name_servers:
            self._attempt(look, name_server)
        return bool(known) and not any(known)

    # -- coming back ------------------------------------------------------------------------------

    def _come_online(self) -> float:
        """Let slaves make way and take over what they did; gives how long to wait if they do not.

        As long as no name server answers nobody knows who acts: nothing is delivered.
        """
        header, work = self._header, self._work
        for name_server in self._name_servers:
            try:
                members = members_of(name_server, header.cluster_name, header.broker_name)
                for broker_id, address in members.items():
                    if broker_id != header.broker_id:
                        self._take_back(address)
                with self._door:
                    if not self._stopped and work is not None:
                        work.go_online()
                        self.is_online = True
            except NotYetError:
                return AGAIN_S
            except (OSError, RocketMQError, ValueError) as error:
                self._failures.warn(f"not online yet: {error}; trying again")
                continue
            return TURN_S
        return TURN_S

    def _take_back(self, address: str) -> None:
        """Let a slave make way, and take over what it did. Raises what hinders."""
        line = RequestLine(address, self._version)
        fields = ExchangeHAInfoRequestHeader(
            master_ha_address=self._header.ha_server_addr, master_address=self._header.broker_addr
        ).to_ext()
        try:
            answer = line.ask(RequestCode.EXCHANGE_BROKER_HA_INFO, fields)
            found = ExchangeHAInfoResponseHeader.from_ext(answer.ext_fields)
            if found.timers_are_leaving:
                raise NotYetError(f"slave {address} waits for the answers to its last messages")
            work = self._work
            if work is None:
                return
            for code, take in work.requests(found).items():
                body = line.ask(code).body
                with self._door:
                    if not self._stopped:
                        take(body)
        finally:
            line.close()

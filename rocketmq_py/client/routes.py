"""Which queues a topic has and where its brokers are, as the name servers say.

Routes are immutable snapshots, kept until a newer one differs, so that everybody goes on when all
name servers are down. A route that a broker contradicts is asked for again at once, of every name
server until one tells another one (`RouteTable.look_again`). Client side of the original's
``MQClientInstance`` (route part), ``TopicPublishInfo`` and the name server choice of
``NettyRemotingClient``. Must not know how messages are sent or which queue is taken.
"""

import random
import threading
from collections.abc import Callable, Collection
from concurrent.futures import wait
from typing import NamedTuple

from rocketmq_py.client.name_servers import NAME_THEM, NameServers
from rocketmq_py.client.remoting import Remoting
from rocketmq_py.clock import monotonic
from rocketmq_py.config import ClientConfig, shown_name_servers
from rocketmq_py.errors import (
    MQBrokerException,
    MQClientException,
    NameServerUnavailableError,
    NoRouteError,
    PermissionDeniedError,
    RemotingConnectException,
    RemotingException,
    RemotingTimeoutException,
    RocketMQError,
    RouteTimeoutError,
)
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.topics import MASTER_ID, TopicRouteData
from rocketmq_py.protocol.codes import PERM_READ, PERM_WRITE, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.client import GetRouteInfoRequestHeader
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC
from rocketmq_py.send_result import MessageQueue
from rocketmq_py.transport.calls import LET_GO_S, wait_for

_log = get_logger(__name__)

REFRESH_LOCK_S = 3.0
LEAST_MS = 1.0
"""No name server is asked that has less time for its answer."""
LOOK_AGAIN_S = 1.0
"""The route of a topic is asked for because of contradictions at most so often."""
SECOND_OPINION_MS = 500.0
"""Time of a name server that is asked although another one has answered."""
LOG_AGAIN_S = 60.0
SILENCE = ""
"""What silent name servers are remembered by: no topic has this name."""
LOGGED_TOPICS_MAX = 1_024
MISSED_FOR_S = 300.0
"""A broker that left a route is expected back for so long."""
VIP_PORT_DISTANCE = 2


class PublishInfo(NamedTuple):
    """The writable queues of a topic, in selection order, and the route they come from."""

    queues: tuple[MessageQueue, ...]
    route: TopicRouteData
    broker_names: tuple[str, ...]


class RouteTable:
    """All routes that one client instance has seen. Every call is safe from any thread."""

    def __init__(
        self,
        remoting: Remoting,
        config: ClientConfig,
        name_servers: NameServers,
        *,
        on_change: Callable[[str], None],
    ) -> None:
        self._remoting = remoting
        self._config = config
        self._on_change = on_change
        self._refresh_lock = threading.Lock()
        self._lock = threading.Lock()
        self._routes: dict[str, TopicRouteData] = {}
        self._publish: dict[str, PublishInfo] = {}
        self._subscribe: dict[str, tuple[MessageQueue, ...]] = {}
        self._brokers: dict[str, dict[int, str]] = {}
        self._missed: dict[str, dict[str, float]] = {}
        self._name_servers = name_servers
        self._chosen = 0
        self._silence: RocketMQError | None = None  # why nobody answered when last asked
        self._looked_at: dict[str, float] = {}  # when a topic was asked for by `look_again`
        self._logged: dict[str, float] = {}

    # --- asking ----------------------------------------------------------------------------

    def publish_info(
        self,
        topic: str,
        *,
        create_topic_key: str = AUTO_CREATE_TOPIC,
        default_topic_queue_nums: int = 4,
        timeout_ms: float | None = None,
        stop: threading.Event | None = None,
    ) -> PublishInfo:
        """Return the writable queues: cached, or asked for, or borrowed from ``create_topic_key``.

        Waits no longer than until ``stop`` is set.
        Raises `NoRouteError` (10005), `NameServerUnavailableError` (10004), with the first cause,
        and `RouteTimeoutError` (10002).
        """
        info = self._publish.get(topic)
        if info is not None and info.queues:
            return info
        if timeout_ms is None:
            timeout_ms = self._config.mq_client_api_timeout
        deadline = monotonic() + timeout_ms / 1000
        self._update(topic, deadline, topic, None, stop)
        info = self._publish.get(topic)
        if info is None or not info.queues:
            self._update(topic, deadline, create_topic_key, default_topic_queue_nums, stop)
            info = self._publish.get(topic)
        if info is None:
            problem = (
                f"no route of topic {topic} at name server {shown_name_servers(self._config)}: "
                f"create the topic, or switch on autoCreateTopicEnable at the broker (topic "
                f"{create_topic_key} has no route either)"
            )
        elif not info.queues:
            problem = (
                f"topic {topic} has no writable queue: its permission forbids writing, or its "
                "brokers have no master"
            )
        else:
            return info
        code = ResponseCode.NOT_FOUND_TOPIC_EXCEPTION
        raise NoRouteError(problem, response_code=code, topic=topic)

    def route(self, topic: str, *, refresh: bool = False) -> TopicRouteData | None:
        """Return the route as known; asks when unknown or when ``refresh``.

        None when no name server knows the topic. Raises `NameServerUnavailableError` when none
        answers and nothing is known.
        """
        known = self._routes.get(topic)
        if known is not None and not refresh:
            return known
        try:
            self.update(topic)
        except NameServerUnavailableError:
            if known is None:
                raise
        return self._routes.get(topic)

    def configured_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues of the topic's ORDER_TOPIC_CONFIG as last heard, () without one."""
        route = self._routes.get(topic)
        return _ordered_queues(topic, (route and route.order_topic_conf) or "")

    def update(
        self, topic: str, timeout_ms: float | None = None, stop: threading.Event | None = None
    ) -> bool:
        """Ask now; say whether the route changed. An unknown topic changes nothing.

        Waits no longer than until ``stop`` is set.
        """
        return self._update(topic, self._deadline(timeout_ms), topic, None, stop)

    def look_again(
        self,
        topic: str,
        since: float,
        timeout_ms: float | None = None,
        stop: threading.Event | None = None,
    ) -> bool:
        """Ask for a route that a broker contradicted after ``since``; says whether it changed.

        A name server that tells the same as before gives way to one that tells something else.
        Nothing is asked when that was done after ``since`` (it is waited for), nor within
        `LOOK_AGAIN_S`. Raises as `update`.
        """
        if topic not in self._routes or self.turn_ms(topic, since) > 0:
            return False
        return self._update(topic, self._deadline(timeout_ms), topic, None, stop, since)

    def turn_ms(self, topic: str, since: float) -> float:
        """Return how long it takes until `look_again` asks, or has asked, after ``since``."""
        asked_at = self._looked_at.get(topic)
        if asked_at is None or asked_at >= since:
            return 0.0
        return max(0.0, asked_at + LOOK_AGAIN_S - monotonic()) * 1000

    def topic_at(self, address: str) -> str | None:
        """Return any topic with a broker at this address, to look where that is now."""
        with self._lock:
            names = {name for name, table in self._brokers.items() if address in table.values()}
            for topic, route in self._routes.items() if names else ():
                if any(broker.broker_name in names for broker in route.broker_datas):
                    return topic
        return None

    def check_name_servers(self, timeout_ms: float | None = None) -> None:
        """Ask any name server anything; raises `NameServerUnavailableError`."""
        self._fetch(AUTO_CREATE_TOPIC, self._deadline(timeout_ms))

    def _deadline(self, timeout_ms: float | None) -> float:
        most_ms = self._config.mq_client_api_timeout
        return monotonic() + (most_ms if timeout_ms is None else min(most_ms, timeout_ms)) / 1000

    def subscribe_queues(self, topic: str) -> tuple[MessageQueue, ...] | None:
        """Return the readable queues as known now; None when the route was never seen."""
        return self._subscribe.get(topic)

    def brokers_of(self, topic: str) -> frozenset[str] | None:
        """Return the names of the brokers of the known route; None when none was ever seen."""
        route = self._routes.get(topic)
        return None if route is None else frozenset(one.broker_name for one in route.broker_datas)

    def known_topics(self) -> set[str]:
        """Return the topics whose routes are kept fresh."""
        with self._lock:
            return set(self._publish) | set(self._routes)

    def topics_that_miss_brokers(self) -> list[str]:
        """Return the topics whose routes have lost a broker that may be back soon."""
        with self._lock:
            now = monotonic()
            return sorted(
                topic
                for topic, missed in self._missed.items()
                if max(missed.values(), default=0.0) > now
            )

    def known_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the writable queues; none when a send must ask a name server first."""
        info = self._publish.get(topic)
        return () if info is None else info.queues

    def masters_at(self, addresses: Collection[str]) -> list[str]:
        """Return the names of the brokers whose masters have these addresses."""
        with self._lock:
            tables = list(self._brokers.items())
        return [name for name, table in tables if table.get(MASTER_ID) in addresses]

    def queue_of_broker(self, broker_name: str) -> MessageQueue | None:
        """Return any writable queue of the broker, to ask it something cheap."""
        with self._lock:
            infos = list(self._publish.values())
        for info in infos:
            for queue in info.queues:
                if queue.broker_name == broker_name:
                    return queue
        return None

    # --- brokers ---------------------------------------------------------------------------

    def broker_address(
        self, broker_name: str, *, broker_id: int = MASTER_ID, only_this: bool = False
    ) -> str | None:
        """Return the address of the id, else (unless ``only_this``) of id + 1, else of any.

        Sends and locks are for the master, 0, and nobody else.
        """
        addresses = self._brokers.get(broker_name)
        if not addresses:
            return None
        address = addresses.get(broker_id)
        if address is None and not only_this:
            address = addresses.get(broker_id + 1)
            if address is None:
                address = addresses[min(addresses)]
        return address

    def require_address(
        self,
        topic: str,
        broker_name: str,
        *,
        broker_id: int = MASTER_ID,
        only_this: bool = False,
        timeout_ms: float | None = None,
        stop: threading.Event | None = None,
    ) -> str:
        """Return what `broker_address` does; asks for the topic's route again when it is unknown.

        Raises `MQClientException` (10003) when the broker has no such address then.
        """
        address = self.broker_address(broker_name, broker_id=broker_id, only_this=only_this)
        if address is None:
            self.update(topic, timeout_ms, stop)
            address = self.broker_address(broker_name, broker_id=broker_id, only_this=only_this)
        if address is None:
            master = ", or has no master there" if only_this else ""
            raise MQClientException(
                f"broker {broker_name} is in no route of topic {topic}{master}: no address to "
                "ask. Is it registered at the name server?",
                response_code=ResponseCode.BROKER_NOT_EXIST_EXCEPTION,
                topic=topic,
            )
        return address

    def send_port(self, address: str) -> str:
        """Return where a broker takes sends: at its fast port when the settings say so."""
        return vip_address(address) if self._config.vip_channel_enabled else address

    def addresses_to_ask(self, topic: str) -> list[str]:
        """Return one address of each broker of the topic in any order, the master's when known."""
        route = self._routes.get(topic)
        if route is None:
            return []
        brokers = [self._brokers.get(b.broker_name) or {} for b in route.broker_datas]
        addresses = [b[MASTER_ID] for b in brokers if MASTER_ID in b]
        if not addresses:
            addresses = [b[min(b)] for b in brokers if b]
        random.shuffle(addresses)
        return addresses

    def master_addresses(self, topic: str) -> list[tuple[str, str]]:
        """Return (broker name, address) of every broker of the topic, masters where known."""
        route = self._routes.get(topic)
        names = [] if route is None else sorted(b.broker_name for b in route.broker_datas)
        found = ((name, self.broker_address(name)) for name in names)
        return [(name, address) for name, address in found if address is not None]

    def broker_addresses(self, *, masters_only: bool) -> set[str]:
        """Return the addresses of all known brokers."""
        with self._lock:
            tables = list(self._brokers.values())
        return {
            address
            for table in tables
            for broker_id, address in table.items()
            if broker_id == MASTER_ID or not masters_only
        }

    def drop_offline_brokers(self) -> set[str]:
        """Forget brokers that no route mentions any more; return the addresses still in use.

        As ``MQClientInstance.cleanOfflineBroker``; name servers are in use too.
        """
        with self._lock:
            named = {one.broker_name for r in self._routes.values() for one in r.broker_datas}
            # As last heard: the routes of other topics may be older.
            live = {name: table for name, table in self._brokers.items() if name in named}
            self._brokers = live
        used = {address for table in live.values() for address in table.values()}
        if self._config.vip_channel_enabled:
            used |= {vip_address(address) for address in used}
        return used.union(self._name_servers.addresses)

    # --- refreshing ------------------------------------------------------------------------

    def _update(
        self,
        topic: str,
        deadline: float,
        asked: str,
        queues_max: int | None,
        stop: threading.Event | None,
        doubted_at: float | None = None,
    ) -> bool:
        wait = min(REFRESH_LOCK_S, max(0.0, deadline - monotonic()))
        if not wait_for(self._refresh_lock, wait, stop):
            raise NameServerUnavailableError(
                f"the route of topic {topic} could not be asked for within {wait:.1f} s: another "
                "thread still waits for a name server",
                response_code=ResponseCode.NO_NAME_SERVER_EXCEPTION,
                topic=topic,
            )
        try:
            doubted = None
            if doubted_at is not None:
                asked_at = self._looked_at.get(topic)
                if asked_at is not None and asked_at >= doubted_at:
                    return False  # somebody has, while this one waited
                self._looked_at[topic] = monotonic()
                doubted = self._routes.get(topic)
            route = self._fetch(asked, deadline, stop, doubted)
            if route is None:
                return False
            if queues_max is not None:
                for queue in route.queue_datas:
                    count = min(queues_max, queue.read_queue_nums)
                    queue.read_queue_nums = queue.write_queue_nums = count
            changed = self._keep(topic, route)
        finally:
            self._refresh_lock.release()
        if changed:
            self._on_change(topic)
        return changed

    def _keep(self, topic: str, route: TopicRouteData) -> bool:
        with self._lock:
            for broker in route.broker_datas:
                # A new table, not a changed one: readers take no lock.
                self._brokers[broker.broker_name] = self._mapped(broker.broker_addrs)
            known = self._routes.get(topic)
            if known == route:
                return False
            self._routes[topic] = route
            self._miss(topic, known, route)
            queues = _writable_queues(topic, route)
            names = tuple(sorted({queue.broker_name for queue in queues}))
            self._publish[topic] = PublishInfo(queues, route, names)
            self._subscribe[topic] = _readable_queues(topic, route)
        _log.info("route of topic %s: %s", topic, route)
        return True

    def _miss(self, topic: str, known: TopicRouteData | None, route: TopicRouteData) -> None:
        """Note, under the lock, which brokers a route has no more."""
        gone = {one.broker_name for one in known.broker_datas} if known is not None else set()
        until = monotonic() + MISSED_FOR_S
        missed = self._missed.pop(topic, {}) | dict.fromkeys(gone, until)
        for broker in route.broker_datas:
            missed.pop(broker.broker_name, None)
        if missed:
            self._missed[topic] = missed

    def _mapped(self, addresses: dict[int, str]) -> dict[int, str]:
        mapper = self._config.address_mapper
        if mapper is None:
            return dict(addresses)
        return {broker_id: mapper(address) for broker_id, address in addresses.items()}

    def _fetch(
        self,
        topic: str,
        deadline: float,
        stop: threading.Event | None = None,
        doubted: TopicRouteData | None = None,
    ) -> TopicRouteData | None:
        """Ask the chosen name server, then the next ones; None: nobody knows the topic.

        Who does not know it, refuses, or tells the ``doubted`` route, is not the last to be asked.
        """
        servers = self._servers(topic, deadline, stop)
        silence: RocketMQError | None = None
        refusal: RocketMQError | None = None
        answered: list[tuple[int, TopicRouteData | None]] = []
        began, chosen = monotonic(), self._chosen
        for turn in range(len(servers)):
            left_ms = (deadline - monotonic()) * 1000
            if left_ms < LEAST_MS or (stop is not None and stop.is_set()):
                break
            # Of several servers a silent one must not use up the whole budget.
            budget_ms = left_ms / (len(servers) - turn)
            number = (chosen + turn) % len(servers)
            if answered:
                if servers[number] in self._remoting.connections.silent:
                    continue
                budget_ms = min(left_ms / 2, SECOND_OPINION_MS)
            try:
                route = self._ask_one(servers[number], topic, budget_ms, stop)
            except RemotingException as error:
                silence = silence or error
                continue
            except RocketMQError as error:
                refusal = refusal or error
                continue
            answered.append((number, route))
            if route is not None and route != doubted:
                break
        if answered:
            best = max(answered, key=lambda one: (one[1] is not None, one[1] != doubted))
            self._chosen = best[0]
            return best[1]
        if refusal is not None:
            raise refusal
        self._silence = silence = silence or self._silence
        if silence is None and stop is not None and stop.is_set():
            silence = RemotingConnectException("whoever needs the route was shut down")
        raise self._nobody(topic, silence, (deadline - began) * 1000)

    def _servers(
        self, topic: str, deadline: float, stop: threading.Event | None
    ) -> tuple[str, ...]:
        """Give the name servers; waits while a domain is asked for them."""
        known = self._name_servers.known(topic)
        began = monotonic()
        while not known.done():
            left_s = deadline - monotonic()
            if left_s <= 0 or (stop is not None and stop.is_set()):
                slow = RemotingTimeoutException(
                    f"{shown_name_servers(self._config)} has not yet said where they are"
                )
                raise self._nobody(topic, slow, (deadline - began) * 1000)
            wait([known], min(left_s, LET_GO_S))
        return known.result()

    def _ask_one(
        self, address: str, topic: str, timeout_ms: float, stop: threading.Event | None
    ) -> TopicRouteData | None:
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        code = RequestCode.GET_ROUTEINFO_BY_TOPIC
        command = RemotingCommand(code, ext_fields=header.to_ext())
        answer = self._remoting.invoke(address, command, timeout_ms, stop=stop)
        self._silence = None
        if self._logged.pop(SILENCE, None) is not None:
            _log.warning("name server %s answers again", address)
        return _read_route(topic, address, answer)

    def _nobody(
        self, topic: str, silence: RocketMQError | None, left_ms: float
    ) -> NameServerUnavailableError:
        """Build the error of a question that nobody has answered, or that was not even asked."""
        if silence is None:
            return RouteTimeoutError(
                f"the time was too short to ask a name server for the route of topic {topic}: "
                f"{max(0.0, left_ms):.1f} ms were left. Allow more: send_msg_timeout, or timeout=, "
                "of a send, mq_client_api_timeout of anything else (milliseconds)",
                response_code=ResponseCode.ACCESS_BROKER_TIMEOUT,
                topic=topic,
            )
        error = NameServerUnavailableError(
            f"no name server answers for topic {topic} ({shown_name_servers(self._config)}): "
            f"{silence}",
            response_code=ResponseCode.NO_NAME_SERVER_EXCEPTION,
            topic=topic,
        )
        error.__cause__ = silence
        return error

    def warn_without_name_server(self) -> None:
        """Say at a start that nothing can be found; the lookups of the next minute do not."""
        if not self._name_servers.addresses and not self._name_servers.domain:
            self._logged[SILENCE] = monotonic()
            _log.warning("there is no name server address, so no topic can be found: %s", NAME_THEM)

    def set_name_servers(self, addresses: str) -> None:
        """Use other name servers from now on (``host:port;host:port``)."""
        self._config.namesrv_addr = addresses
        self._name_servers.set(addresses)
        self._chosen, self._silence = 0, None

    def log_failure(self, topic: str, error: RocketMQError) -> None:
        """Log a failed refresh, at most once a minute each topic, and silent name servers too.

        When one of those answers again that is a line, too.
        """
        silent = isinstance(error, NameServerUnavailableError)
        now, key = monotonic(), SILENCE if silent else topic
        if self._logged.get(key, -LOG_AGAIN_S) + LOG_AGAIN_S > now:
            return
        if len(self._logged) >= LOGGED_TOPICS_MAX:
            self._logged.clear()
        self._logged[key] = now
        _log.warning("route refresh failed topic=%s: %s", topic, error)


def vip_address(address: str) -> str:
    """Return the address of a broker's fast port."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - VIP_PORT_DISTANCE}"


def _read_route(topic: str, address: str, answer: RemotingCommand) -> TopicRouteData | None:
    if answer.code == ResponseCode.SUCCESS:
        route = TopicRouteData.decode(answer.body)
        _sort(route)
        return route
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        return None
    advice = ""
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        advice = (
            ". Is this the address of a broker? namesrv_addr names name servers, whose usual port "
            "is 9876"
        )
    refused = PermissionDeniedError if answer.code == ResponseCode.NO_PERMISSION else None
    cause = (refused or MQBrokerException)(answer.code, answer.remark, address, topic=topic)
    raise MQClientException(
        f"name server {address} does not tell the route of topic {topic}: {cause}{advice}",
        response_code=answer.code,
        topic=topic,
        address=address,
    ) from cause


def _sort(route: TopicRouteData) -> None:
    """Put lists in the order of broker names: hash selectors need the same order everywhere."""
    route.queue_datas.sort(key=lambda queue: queue.broker_name)
    route.broker_datas.sort(key=lambda broker: broker.broker_name)


def _writable_queues(topic: str, route: TopicRouteData) -> tuple[MessageQueue, ...]:
    if route.order_topic_conf:
        return _ordered_queues(topic, route.order_topic_conf)
    masters = {b.broker_name for b in route.broker_datas if MASTER_ID in b.broker_addrs}
    return tuple(
        MessageQueue(topic, queue.broker_name, number)
        for queue in route.queue_datas
        if queue.perm & PERM_WRITE and queue.broker_name in masters
        for number in range(queue.write_queue_nums)
    )


def _ordered_queues(topic: str, conf: str) -> tuple[MessageQueue, ...]:
    """Read ``broker:n;broker:n``: the order that an administrator has fixed."""
    queues: list[MessageQueue] = []
    for part in conf.split(";"):
        name, _, count = part.strip().partition(":")
        if name and count.isascii() and count.isdigit():
            queues += [MessageQueue(topic, name, number) for number in range(int(count))]
    return tuple(queues)


def _readable_queues(topic: str, route: TopicRouteData) -> tuple[MessageQueue, ...]:
    return tuple(
        MessageQueue(topic, queue.broker_name, number)
        for queue in route.queue_datas
        if queue.perm & PERM_READ
        for number in range(queue.read_queue_nums)
    )

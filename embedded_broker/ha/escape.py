"""Escape bridge of an acting or a delaying broker: sends due messages on and judges the answers.

Answers: where a slave that acts as master, or a broker that only delays, sends a due message, and
which refusals of the other broker still mean that it has the message. The bridge takes a message
under the door, and a thread of its own asks a name server where the topic is, sends, and brings the
answer back. After ``EscapeBridge`` and ``TopicRouteInfoManager``. What was sent and not answered in
time may be there: it is sent again. Hops of long delays stay here, so that a recall finds its
timer, and so do check points of pops, which name messages of this store. Must not know: timers,
levels, who is master. Read on: ``embedded_broker/timer/delivery.py`` for what an answer means,
``request_line.py`` for the way.
"""

from collections.abc import Callable
from itertools import count
from queue import SimpleQueue
from threading import Thread
from typing import Final

from attrs import frozen

from embedded_broker.door import Door
from embedded_broker.ha.request_line import RequestLine, lines_to
from embedded_broker.remoting.rate_limited_log import RateLimitedLog
from embedded_broker.store.put_values import InnerMessage, PutResult, PutStatus
from embedded_broker.timer.delivery import Bridge, LatePut
from rocketmq_py.clock import monotonic_ns
from rocketmq_py.errors import MQBrokerException, RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.topics import MASTER_ID, TopicRouteData
from rocketmq_py.protocol.codes import PERM_WRITE, RequestCode, ResponseCode
from rocketmq_py.protocol.headers.client import GetRouteInfoRequestHeader
from rocketmq_py.protocol.headers.send import send_fields
from rocketmq_py.protocol.names import ESCAPE_PRODUCER_PREFIX, TIMER_TOPIC, is_broker_topic
from rocketmq_py.protocol.properties import OWN_TIMER_PROPERTIES, encode_properties

logger = get_logger(__name__)

SEND_TIMEOUT_S: Final = 3.0
"""For a message, its route included. Those behind it wait as long."""
ROUTE_LIFE_NS: Final = 30_000_000_000
CLOSE_S: Final = 10.0
STORED: Final[dict[int, PutStatus]] = {
    ResponseCode.FLUSH_DISK_TIMEOUT: PutStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: PutStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: PutStatus.SLAVE_NOT_AVAILABLE,
}
"""Refusals of a broker that has the message all the same."""


@frozen
class _Target:
    """A queue that takes messages."""

    broker_name: str
    address: str
    queue_id: int


class EscapeBridge:
    """Call it with a message, under the door; ``close`` ends its thread, outside.

    ``put_here`` takes what stays. ``name`` and ``address`` are this broker's; with ``avoids_name``
    no broker of this name gets anything. ``answered`` is called under the door after each answer.
    """

    def __init__(
        self,
        *,
        door: Door,
        name_servers: str,
        version: int,
        name: str,
        broker_id: int = MASTER_ID,
        address: str,
        avoids_name: bool,
        put_here: Bridge,
        answered: Callable[[], None],
    ) -> None:
        self._door = door
        self._version = version
        self._group = f"{ESCAPE_PRODUCER_PREFIX}{name}_{broker_id}"
        self._own_address = address
        self._avoid = name if avoids_name else ""
        self._keeps_pops = not avoids_name  # a slave's store takes nothing
        self._put_here = put_here
        self._answered = answered
        self._name_servers = lines_to(name_servers, version)
        self._brokers: dict[str, RequestLine] = {}
        self._routes: dict[str, tuple[int, list[_Target]]] = {}
        self._turn = count()
        self._waiting: SimpleQueue[tuple[InnerMessage, LatePut] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._is_closed = False
        self._failures = RateLimitedLog(logger)
        self.in_flight = 0
        """Messages whose answer is missing. Under the door."""
        self.has_failed = False
        """Whether the last message could not be sent."""

    # -- what the timers call, under the door -------------------------------------------------

    def __call__(self, message: InnerMessage) -> PutResult | LatePut:
        """Take a message that is due, or hops."""
        if message.topic == TIMER_TOPIC or (self._keeps_pops and is_broker_topic(message.topic)):
            return self._put_here(message)
        put = LatePut(is_promised=True)
        if self._is_closed:
            put.finish(_failed("the broker ends"))
            return put
        if self._thread is None:
            self._thread = Thread(target=self._run, name="embedded-broker-escape", daemon=True)
            self._thread.start()
        self.in_flight += 1
        self._waiting.put((message, put))
        return put

    def close(self) -> None:
        """Send nothing more; idempotent. Outside the door."""
        self._is_closed = True
        self._waiting.put(None)
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    # -- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        while (one := self._waiting.get()) is not None and not self._is_closed:
            message, put = one
            result = self._deliver(message)
            with self._door:
                self.in_flight -= 1
                self.has_failed = result.status is PutStatus.PUT_TO_REMOTE_BROKER_FAIL
                put.finish(result)
                self._answered()
        for line in (*self._name_servers, *self._brokers.values()):
            line.close()

    def _deliver(self, message: InnerMessage) -> PutResult:
        """Send a message; what went wrong is an answer, too."""
        until_ns = monotonic_ns() + int(SEND_TIMEOUT_S * 1e9)
        try:
            place = self._place_for(message.topic, until_ns)
            return self._send(message, place, until_ns)
        except MQBrokerException as error:
            if (status := STORED.get(error.code)) is not None:
                return PutResult(status)
            problem: Exception = error
        except (OSError, RocketMQError, ValueError) as error:
            problem = error
        self._routes.pop(message.topic, None)
        told = f"a message of {message.topic} is not delivered yet: {problem}; trying again"
        self._failures.warn(told)
        return _failed(told)

    def _send(self, message: InnerMessage, place: _Target, until_ns: int) -> PutResult:
        properties = {
            name: value
            for name, value in message.properties.items()
            if name not in OWN_TIMER_PROPERTIES  # places in our log: they mean others there
        }
        fields = send_fields(
            self._group,
            message.topic,
            queue_id=place.queue_id,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_timestamp,
            flag=message.flag,
            properties=encode_properties(properties).decode(),
            reconsume_times=message.reconsume_times,
            broker_name=place.broker_name,
        )
        line = self._brokers.get(place.address)
        if line is None:
            line = self._brokers[place.address] = RequestLine(place.address, self._version)
        line.ask(RequestCode.SEND_MESSAGE_V2, fields, message.body, until_ns=until_ns)
        return PutResult(PutStatus.PUT_OK)

    # -- where to -------------------------------------------------------------------------------

    def _place_for(self, topic: str, until_ns: int) -> _Target:
        """Choose a queue, each in its turn. Raises ``ValueError`` where there is none."""
        now_ns = monotonic_ns()
        asked_ns, places = self._routes.get(topic, (0, []))
        if not places or now_ns - asked_ns > ROUTE_LIFE_NS:
            places = self._places(self._route(topic, until_ns))
            self._routes[topic] = now_ns, places
        if not places:
            raise ValueError(f"no other broker takes messages of {topic}")
        return places[next(self._turn) % len(places)]

    def _route(self, topic: str, until_ns: int) -> TopicRouteData:
        """Ask the name servers, one after the other. Raises what the last one said."""
        fields = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True).to_ext()
        problem: Exception = ValueError("there is no name server")
        for line in self._name_servers:
            try:
                found = line.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields, until_ns=until_ns)
                return TopicRouteData.decode(found.body)
            except (OSError, RocketMQError) as error:
                problem = error
        raise problem

    def _places(self, route: TopicRouteData) -> list[_Target]:
        """Give the queues of masters of others that may be written."""
        masters = {
            one.broker_name: one.broker_addrs[MASTER_ID]
            for one in route.broker_datas
            if MASTER_ID in one.broker_addrs and one.broker_name != self._avoid
        }
        return [
            _Target(one.broker_name, masters[one.broker_name], number)
            for one in route.queue_datas
            if one.perm & PERM_WRITE
            and masters.get(one.broker_name, self._own_address) != self._own_address
            for number in range(one.write_queue_nums)
        ]


def _failed(remark: str) -> PutResult:
    return PutResult(PutStatus.PUT_TO_REMOTE_BROKER_FAIL, remark=remark)

"""How a client asks servers: where a question goes, and what becomes of its answer.

A `Question` says whom to ask, with which request, and how the answer is read. `Asker` finds the
address, asks one question or many side by side, and gives futures: a blocking caller takes their
result, asyncio wraps them. What all requests share stands in ``remoting.py``: hooks, credentials,
GO_AWAY. Must not know what is asked: questions about queues are in ``queue_requests.py``, those of
administrators in ``queries.py`` and ``../administration/table.py``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Future
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from attrs import field, frozen

from rocketmq_py.client.answers import answers_lack_queue, broker_error, lacks_queue
from rocketmq_py.client.background import TimerHandle
from rocketmq_py.client.connections import Connections
from rocketmq_py.client.fan_out import Ladder, SideBySide, fail
from rocketmq_py.client.name_servers import NameServers
from rocketmq_py.client.remoting import Remoting
from rocketmq_py.client.routes import RouteTable
from rocketmq_py.clock import monotonic
from rocketmq_py.errors import ClientClosedError, NoRouteError, RocketMQError
from rocketmq_py.protocol.codes import SEND_REQUESTS, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand

NEXT_AFTER_MS = 200
"""Without an answer for so long another server is asked the same."""

_SUCCESS: Final = frozenset({int(ResponseCode.SUCCESS)})

_K = TypeVar("_K", bound=Hashable)
_T = TypeVar("_T")


@frozen
class Address:
    """One server, by its address."""

    address: str


@frozen
class Broker:
    """A broker of a topic: the master, or the one with the id.

    Another one of that name stands in, unless ``only_this``: only a master stores, or takes
    messages back.
    """

    topic: str
    name: str
    broker_id: int = 0
    only_this: bool = False


@frozen
class AnyOf:
    """Servers of which each can answer: the next is asked when one fails, or is slow.

    Those that do not answer anything now come last.
    """

    addresses: tuple[str, ...]


Where: TypeAlias = Address | Broker | AnyOf


@frozen
class Question(Generic[_T]):
    """What is asked: where, by which request, and how an answer is read.

    ``read`` gets answers whose code is one of ``accepts``, with the address that they come from;
    all others are refusals. It runs on the thread that has the answer and must not block.
    """

    where: Where
    code: int
    read: Callable[[RemotingCommand, str], _T]
    fields: Mapping[str, str] = field(factory=dict)
    body: bytes = b""
    accepts: frozenset[int] = _SUCCESS
    topic: str | None = field()
    """The topic that it is about, for errors."""

    first_alone: bool = field(default=False, kw_only=True)
    """Of many, the first of each topic must have succeeded before the others are asked."""

    @topic.default
    def _topic_of_broker(self) -> str | None:
        return self.where.topic if isinstance(self.where, Broker) else None

    def command(self) -> RemotingCommand:
        """Make the request; each time it is asked it needs one of its own."""
        return RemotingCommand(self.code, ext_fields=dict(self.fields), body=self.body)


def nothing(_: RemotingCommand, __: str) -> None:
    """Read an answer that only says success."""


class Means(Protocol):
    """What a client instance asks with; `ClientInstance` has it."""

    remoting: Remoting
    routes: RouteTable
    connections: Connections
    name_servers: NameServers

    def submit(self, task: Callable[..., object], *args: object) -> bool:
        """Run what works on an answer; False: full or closed."""

    def submit_background(self, task: Callable[..., object], *args: object) -> bool:
        """Run what may wait for a server; False: full or closed."""

    def schedule_after(self, delay_ms: float, task: Callable[[], object]) -> TimerHandle:
        """Run something once on the timer thread; it must not block."""

    def look_again_soon(self, topic: str) -> None:
        """Ask in background for a route that a broker contradicts now."""


class Asker:
    """Asks what one client instance can reach. Every call is safe from any thread.

    Outcomes are `MQClientException` (no route names the broker), `RemotingException` (no answer in
    time), `MQBrokerException` (refused), and what ``read`` raises.
    """

    def __init__(self, instance: Means) -> None:
        self._instance = instance

    def ask(self, question: Question[_T], timeout_ms: float) -> Future[_T]:
        """Ask without waiting; every outcome is in the future, whose callbacks must not block."""
        where = question.where
        if isinstance(where, AnyOf):
            return self._ask_any(question, where, timeout_ms)
        result: Future[_T] = Future()
        if isinstance(where, Address):
            self._begin(question, where.address, timeout_ms, result)
            return result
        address = self._instance.routes.broker_address(
            where.name, broker_id=where.broker_id, only_this=where.only_this
        )
        if address is not None:
            self._begin(question, address, timeout_ms, result)
        elif not self._instance.submit_background(
            self._look_and_ask, question, where, timeout_ms, result
        ):
            fail(result, ClientClosedError("the client is shut down, or asks too much at a time"))
        return result

    def _ask_any(self, question: Question[_T], where: AnyOf, timeout_ms: float) -> Future[_T]:
        silent = self._instance.connections.silent

        def begin(address: str) -> Future[_T]:
            one: Future[_T] = Future()
            self._begin(question, address, timeout_ms, one)
            return one

        return Ladder(sorted(where.addresses, key=silent.__contains__), begin, self._later).result

    def answer(
        self, question: Question[_T], timeout_ms: float, stop: threading.Event | None = None
    ) -> _T:
        """Ask and wait: as the result of `ask`, but the caller reads its own answer.

        One server is waited for no longer than until ``stop`` is set.
        """
        if isinstance(question.where, AnyOf):
            return self.ask(question, timeout_ms).result()
        address = self._port(question, self.address(question.where))
        command = question.command()
        answer = self._instance.remoting.invoke(address, command, timeout_ms, None, stop)
        return self._read(question, answer, address)

    def ask_many(
        self, questions: Mapping[_K, Question[_T]], timeout_ms: float
    ) -> Future[dict[_K, _T | RocketMQError]]:
        """Ask side by side, `fan_out.IN_FLIGHT_MOST` before each server at a time, without waiting.

        The future has what became of each question, in their order, and fails only by what is no
        error of ours. Who does not answer one question is not asked the later ones.
        """
        lanes: dict[_K, object] = {
            key: (lane_of(question.where), question.topic if question.first_alone else None)
            for key, question in questions.items()
        }
        begin = lambda key: self.ask(questions[key], timeout_ms)  # noqa: E731 - a short argument
        alone = any(question.first_alone for question in questions.values())
        return SideBySide(lanes, begin, self._instance.submit, first_alone=alone).result

    def ask_all(
        self, questions: Mapping[_K, Question[_T]], timeout_ms: float
    ) -> dict[_K, _T | RocketMQError]:
        """Ask side by side and wait: as the result of `ask_many`."""
        if len(questions) != 1:
            return self.ask_many(questions, timeout_ms).result()
        ((key, question),) = questions.items()
        try:
            return {key: self.answer(question, timeout_ms)}
        except RocketMQError as error:
            return {key: error}

    # --- where -----------------------------------------------------------------------------

    def name_servers(self) -> Future[tuple[str, ...]]:
        """Give the addresses of the name servers, at least one, or why there is none.

        It takes no longer than `name_servers.LOOK_MS`.
        """
        return self._instance.name_servers.known()

    def address(self, where: Address | Broker) -> str:
        """Return the address to ask; may ask a name server for the topic's route.

        Raises `MQClientException` when no route names the broker.
        """
        if isinstance(where, Address):
            return where.address
        return self._instance.routes.require_address(
            where.topic, where.name, broker_id=where.broker_id, only_this=where.only_this
        )

    def brokers(self, topic: str, *, masters: bool = False) -> list[Broker]:
        """Return every broker of a topic; ``masters``: those that have one, and it alone.

        Raises `NoRouteError` when there is none.
        """
        routes = self._instance.routes
        routes.route(topic)
        found = [
            Broker(topic, name, only_this=masters)
            for name, _ in routes.master_addresses(topic)
            if not masters or routes.broker_address(name, only_this=True) is not None
        ]
        if not found:
            known = routes.master_addresses(topic)
            raise NoRouteError(
                f"topic {topic} has no master now: its brokers are {[name for name, _ in known]}"
                if known
                else f"no route of topic {topic}: does it exist?",
                response_code=ResponseCode.NOT_FOUND_TOPIC_EXCEPTION,
                topic=topic,
            )
        return found

    def _look_and_ask(
        self, question: Question[_T], where: Broker, timeout_ms: float, result: Future[_T]
    ) -> None:
        """Ask a broker that no route names yet, on a thread that may wait for the route."""
        deadline = monotonic() + timeout_ms / 1000
        try:
            address = self._instance.routes.require_address(
                where.topic,
                where.name,
                broker_id=where.broker_id,
                only_this=where.only_this,
                timeout_ms=timeout_ms,
            )
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits
            fail(result, error)
        else:
            left_ms = max(0.0, (deadline - monotonic()) * 1000)
            self._begin(question, address, left_ms, result)

    # --- asking ----------------------------------------------------------------------------

    def _begin(
        self, question: Question[_T], address: str, timeout_ms: float, result: Future[_T]
    ) -> None:
        """Ask one server, and let a future have the outcome."""
        address = self._port(question, address)

        def done(answer: RemotingCommand | None, error: Exception | None) -> None:
            if not result.set_running_or_notify_cancel():
                return  # the caller gave up
            if answer is None:
                result.set_exception(error)
                return
            try:
                value = self._read(question, answer, address)
            except Exception as trouble:  # noqa: BLE001 - it belongs to whoever waits
                result.set_exception(trouble)
            else:
                result.set_result(value)

        try:
            self._instance.remoting.begin(address, question.command(), timeout_ms, done)
        except Exception as error:  # noqa: BLE001 - hooks and sources of keys are the user's code
            done(None, error)

    def _port(self, question: Question[_T], address: str) -> str:
        """Return the port of a server that takes such a question."""
        is_send = question.code in SEND_REQUESTS
        return self._instance.routes.send_port(address) if is_send else address

    def _later(self, task: Callable[[], object]) -> Callable[[], object]:
        """Do something soon on a thread that may work; returns what forgets it."""
        handle = self._instance.schedule_after(NEXT_AFTER_MS, lambda: self._instance.submit(task))
        return handle.cancel

    def _read(self, question: Question[_T], answer: RemotingCommand, address: str) -> _T:
        if answer.code not in question.accepts:
            error = broker_error(answer, address, topic=question.topic)
            self.look_after(error, question.topic)
            raise error
        return question.read(answer, address)

    def look_after(self, error: BaseException | None, topic: str | None) -> None:
        """Ask for a topic's route in background when a broker says that a queue is not there."""
        if topic is not None and lacks_queue(error):
            self._instance.look_again_soon(topic)

    def look_after_all(self, outcomes: Iterable[object], topic: str) -> None:
        """Do so when one of many answers says it."""
        if answers_lack_queue(outcomes):
            self._instance.look_again_soon(topic)


def lane_of(where: Where) -> object:
    """Return what stands for the server of a question: its name, whatever the topic."""
    return where.name if isinstance(where, Broker) else where

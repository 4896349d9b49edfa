"""Who shares one set of connections, routes and background tasks inside a process.

One `ClientInstance` per client id and process; producers and consumers with the same client id
share it (``MQClientInstance`` and ``MQClientManager`` of the original). It keeps routes fresh,
sends heartbeats, asks consumers to rebalance and to persist offsets, and hands broker requests to
whom they concern. Must not know how a message is sent or consumed. Parts: ``routes.py`` (who has
which queue), ``remoting.py`` (connections, hooks, signatures), ``heartbeat.py``, ``background.py``
(timer, workers), ``pool.py`` (the instances of this process, fork and exit).
"""

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from rocketmq_py.client.activity import Activity
from rocketmq_py.client.asking import Asker
from rocketmq_py.client.background import GrowingPool, Timer, TimerHandle, WorkerPool
from rocketmq_py.client.broker_versions import BrokerVersions
from rocketmq_py.client.connections import Connections
from rocketmq_py.client.consumer_face import ConsumerFace
from rocketmq_py.client.heartbeat import Told, heartbeat_body, send_heartbeat, unregister
from rocketmq_py.client.hooks import RPCHook
from rocketmq_py.client.life import Life
from rocketmq_py.client.name_servers import LOOK_EVERY_MS, NameServers
from rocketmq_py.client.remoting import Remoting
from rocketmq_py.client.replies import Replies
from rocketmq_py.client.routes import RouteTable
from rocketmq_py.client.sharing import check_same
from rocketmq_py.client.transaction_checks import TransactionChecks
from rocketmq_py.client.unreachable_servers import UnreachableServers
from rocketmq_py.clock import monotonic
from rocketmq_py.config import ClientConfig
from rocketmq_py.errors import MQClientException, RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.names import is_retry_topic, with_namespace
from rocketmq_py.transport.channel import Channel
from rocketmq_py.transport.inproc import SubscribedRoute

_log = get_logger(__name__)

THREAD_WAIT_S = 2.0
"""How long a start waits for its first thread."""
ROUTE_FIRST_MS = 10
HEARTBEAT_FIRST_MS = 1_000
PERSIST_FIRST_MS = 10_000
REBALANCE_EVERY_MS = 20_000
IDLE_CHECK_EVERY_MS = 30_000
MISSED_EVERY_MS = 3_000
"""How often brokers are looked for that went away: polls and heartbeats are too far apart."""
HEARTBEAT_WAIT_S = 0.5
"""How long anybody waits until brokers know who is here; healthy ones answer in milliseconds."""
GOODBYE_S = 0.15
"""How long brokers have to take the word that a member leaves."""
JOIN_LEAST_S = 0.1
BACKGROUND_THREADS = 32
"""Tasks that may wait for a server at the same time; threads start when they are needed."""
ANSWER_THREADS = max(2, os.cpu_count() or 1)
TASKS_MAX = 65_535

_Member = TypeVar("_Member")


class ClientInstance:
    """Connections (`remoting`), `routes` and background tasks of one client id in this process.

    ``calls_only``: nobody produces or consumes here, so routes are not kept, no heartbeats are
    sent, and a connection stays open although no route names its address.

    Get one with `rocketmq_py.client.pool.acquire_instance`, `start` it, and give it back with
    `shutdown`; the last one who gives it back ends it. All calls are safe from any thread.
    """

    def __init__(
        self,
        client_id: str,
        config: ClientConfig,
        rpc_hooks: Iterable[RPCHook],
        *,
        give_back: "Callable[[ClientInstance], bool]",
        calls_only: bool = False,
    ) -> None:
        self.client_id = client_id
        self._calls_only = calls_only
        self._give_back = give_back  # says whether nobody uses this instance any more
        self.config = ClientConfig.of(config)
        self._hooks = tuple(rpc_hooks)
        self.deciding = threading.Lock()
        """Held for a moment by whoever decides the outcome of a call."""
        self._lock = threading.Lock()
        self._life = Life(lambda: f"client {client_id}")
        self._producers: dict[str, object] = {}
        self._consumers: dict[str, ConsumerFace] = {}
        self.activity = Activity()
        self.transaction_checks = TransactionChecks()
        self.replies = Replies()
        self.unreachable = UnreachableServers()
        self._timer = Timer("rocketmq-client-timer")
        self._callbacks = GrowingPool(
            "rocketmq-client-callback", self.config.client_callback_executor_threads, self._timer
        )
        after = self._timer.schedule_after
        self._answers = WorkerPool(
            "rocketmq-client-answer", ANSWER_THREADS, TASKS_MAX, schedule_after=after
        )
        self._background = WorkerPool(
            "rocketmq-client-background", BACKGROUND_THREADS, TASKS_MAX, schedule_after=after
        )
        self._to_rebalance: dict[str, None] = {}  # groups, in the order of their turns
        self._rebalance_runs = False
        self.name_servers = NameServers(self.config, self)
        self.connections = Connections(
            self.config,
            client_id=client_id,
            timer=self._timer,
            background=self._background,
            on_request=self._on_broker_request,
            on_connected=self._on_connected,
            on_unreachable=self._on_unreachable,
            on_lost=self._on_lost,
            client=self,
            name_servers=self.name_servers,
            unreachable=self.unreachable,
        )
        self.remoting = Remoting(
            self.connections,
            self.config,
            self._hooks,
            background=self._background,
            run_user_code=self.submit_callback,
        )
        self._asker = Asker(self)
        self.broker_versions = BrokerVersions(self._asker, client_id)
        self.routes = RouteTable(
            self.remoting, self.config, self.name_servers, on_change=self._on_route_change
        )
        self.look_at_routes = self._in_background(self._poll)
        """Ask for all routes now, in background; calls while that goes on are merged."""
        self._close_in_order()

    # --- life ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the background tasks; nothing is sent yet. Idempotent while running.

        Raises `ClientClosedError` after the end, `ForkedClientError` in a forked child,
        `MQClientException` when the system starts no thread. Later threads may be missing for a
        while: what they do waits.
        """
        self.check_usable(started=False)
        self._timer.start(THREAD_WAIT_S)
        if not self._life.start_once():
            return
        config = self.config
        self.connections.announce(self.name_servers.addresses)
        every = self.schedule_every
        every(IDLE_CHECK_EVERY_MS, IDLE_CHECK_EVERY_MS, self.connections.close_idle)
        if self.name_servers.domain:
            self.name_servers.look()  # before anybody who would ask once more
            every(LOOK_EVERY_MS, LOOK_EVERY_MS, self.name_servers.look)
        if self._calls_only:
            return
        self.routes.warn_without_name_server()
        every(ROUTE_FIRST_MS, config.poll_name_server_interval, self.look_at_routes)
        every(
            HEARTBEAT_FIRST_MS,
            config.heartbeat_broker_interval,
            self._in_background(self._heartbeat_round),
        )
        every(
            PERSIST_FIRST_MS,
            config.persist_consumer_offset_interval,
            self._in_background(self._persist_offsets),
        )
        every(REBALANCE_EVERY_MS, REBALANCE_EVERY_MS, self.rebalance_soon)
        every(MISSED_EVERY_MS, MISSED_EVERY_MS, self._in_background(self._look_for_missed_brokers))

    def shutdown(self, timeout: float = 3.0) -> None:
        """Give back one acquisition; the last one closes everything within ``timeout`` seconds."""
        if self._give_back(self):
            self.end(timeout)

    def end(self, timeout: float) -> None:
        """Close everything, whoever still uses it; within ``timeout`` seconds. Idempotent."""
        self._life.end(timeout)

    def _close_in_order(self) -> None:
        """Name what must be closed, the last first.

        No new work, then the calls in flight fail, then their callbacks run.
        """
        parts: tuple[Timer | WorkerPool | Connections, ...] = (
            self._callbacks,
            self._answers,
            self._background,
            self.connections,
            self._timer,
        )
        for part in parts:
            self._life.at_end(partial(_close, part))
        self._life.at_end(lambda _: self.unreachable.close())
        self._life.at_end(lambda _: self.name_servers.close())

    def check_same(self, config: ClientConfig, rpc_hooks: tuple[RPCHook, ...]) -> None:
        """Raise `ConfigError` when a client with these cannot share this instance."""
        check_same(self.client_id, self.config, self._hooks, config, rpc_hooks)

    def check_usable(self, *, started: bool = True) -> None:
        """Raise `ForkedClientError`, `ClientClosedError` or `NotStartedError` when not usable."""
        if started or self._life.state == "closed":
            self._life.check_running()
        self._life.check_process()

    @property
    def is_running(self) -> bool:
        """Started and not yet shut down."""
        return self._life.state == "running"

    def drop_inherited(self) -> None:
        """Close what a forked child inherited, without a word to the servers (no locks taken)."""
        self.connections.drop_inherited()

    # --- who is here -----------------------------------------------------------------------

    def register_producer(self, group: str, producer: object) -> None:
        """Make the group known to brokers by heartbeat.

        Raises `MQClientException` when the group has a producer here already.
        """
        self._register(self._producers, "producer", group, producer)

    def unregister_producer(self, group: str, wait_s: float = GOODBYE_S) -> None:
        """Forget the producer and tell the connected brokers (35), for at most ``wait_s``."""
        with self._lock:
            self._producers.pop(group, None)
        self._unregister(group, wait_s, producer=True)

    def register_consumer(self, group: str, consumer: ConsumerFace) -> None:
        """Make the group known to brokers by heartbeat and include it in the background tasks.

        Raises `MQClientException` when the group has a consumer here already.
        """
        self._register(self._consumers, "consumer", group, consumer)

    def unregister_consumer(self, group: str, wait_s: float = GOODBYE_S) -> None:
        """Forget the consumer and tell the connected brokers (35), for at most ``wait_s``."""
        with self._lock:
            self._consumers.pop(group, None)
        self._unregister(group, wait_s, producer=False)

    def groups(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Give the groups of its producers and of its consumers."""
        with self._lock:
            return tuple(self._producers), tuple(self._consumers)

    def _register(self, table: dict[str, _Member], kind: str, group: str, member: _Member) -> None:
        self.check_usable(started=False)
        with self._lock:
            if group in table:
                raise MQClientException(
                    f"the {kind} group {group} has been created before in client "
                    f"{self.client_id}: use another group, or another instance_name"
                )
            table[group] = member

    def _unregister(self, group: str, wait_s: float, *, producer: bool) -> None:
        # Only brokers with a connection know this client: the others need no word.
        known = self.connections.addresses() & self.routes.broker_addresses(masters_only=False)
        calls = [
            (
                address,
                unregister(
                    self._asker, self.unreachable, address, self.client_id, group, producer=producer
                ),
            )
            for address in known
        ]
        Told(calls).wait(wait_s)

    # --- background ------------------------------------------------------------------------

    def schedule_after(self, delay_ms: float, task: Callable[[], object]) -> TimerHandle:
        """Run ``task`` once on the timer thread after ``delay_ms``; it must not block."""
        return self._timer.schedule_after(delay_ms, task)

    def schedule_every(
        self, initial_ms: float, period_ms: float, task: Callable[[], object]
    ) -> TimerHandle:
        """Run ``task`` again and again on the timer thread; it must not block."""
        return self._timer.schedule_every(initial_ms, period_ms, task)

    def submit(self, task: Callable[..., object], *args: object) -> bool:
        """Run the SDK's own ``task(*args)``, which works on an answer; False: full or closed."""
        return self._answers.submit(task, *args)

    def submit_callback(self, task: Callable[..., object], *args: object) -> None:
        """Run code of the application on threads of its own: whatever blocks, blocks only it.

        When these are closed it runs here rather than never.
        """
        if not self._callbacks.submit(task, *args):
            task(*args)

    @property
    def has_callbacks_waiting(self) -> bool:
        """Whether so many callbacks wait that no more may be promised."""
        return self._callbacks.waiting >= TASKS_MAX

    def submit_background(self, task: Callable[..., object], *args: object) -> bool:
        """Run the SDK's own ``task(*args)``, which may block for remote calls."""
        return self._background.submit(task, *args)

    def side_by_side(self, tasks: Sequence[Callable[[], object]], wait_s: float) -> None:
        """Run the SDK's own tasks, each of which may wait for another server, at the same time.

        Returns when all have ended, or after ``wait_s``; those that are left go on.
        """
        ended = threading.Semaphore(0)

        def run(task: Callable[[], object]) -> None:
            try:
                task()
            finally:
                ended.release()

        deadline = monotonic() + wait_s
        begun = [self._background.submit(run, task) for task in tasks]
        for _ in range(sum(begun)):
            ended.acquire(timeout=max(0.0, deadline - monotonic()))

    def rebalance_soon(self, group: str | None = None) -> None:
        """Let the consumer of a group rebalance now, in background; without ``group`` all of them.

        They have their turns one after the other; calls before the turn of a consumer are merged.
        """
        with self._lock:
            if not self.is_running:
                return
            self._to_rebalance.update(dict.fromkeys(_of(self._consumers, group)))
            if self._rebalance_runs or not self._to_rebalance:
                return
            self._rebalance_runs = True
        if not self._background.submit(self._rebalance_in_turn):
            with self._lock:
                self._to_rebalance.clear()
                self._rebalance_runs = False

    def _rebalance_in_turn(self) -> None:
        while True:
            with self._lock:
                if not self._to_rebalance or not self.is_running:
                    self._to_rebalance.clear()
                    self._rebalance_runs = False
                    return
                group = next(iter(self._to_rebalance))
                del self._to_rebalance[group]
                members = _of(self._consumers, group)
            for consumer in members.values():
                _try("rebalance", consumer, lambda one: one.rebalance())

    def send_heartbeats(
        self, wait_s: float = HEARTBEAT_WAIT_S, *, group: str | None = None
    ) -> Told:
        """Send a heartbeat to every known broker now (34), waiting ``wait_s`` at most for answers.

        It names one group, for something new of this one: brokers leave those as they are that a
        heartbeat does not name (``ClientManageProcessor.heartBeat``). Without ``group`` it names
        all. Failures are logged, never raised. Returns whom a caller may still wait for.
        """
        calls = [(address, self._heartbeat(address, group)) for address in self._brokers_to_greet()]
        told = Told(calls)
        told.wait(wait_s)
        return told

    def _brokers_to_greet(self) -> set[str]:
        with self._lock:
            masters_only = not self._consumers
        return self.routes.broker_addresses(masters_only=masters_only)

    def _heartbeat(self, address: str, group: str | None = None) -> Future[None]:
        with self._lock:
            producers, consumers = _of(self._producers, group), _of(self._consumers, group)
        if not self.is_running or not (producers or consumers):
            done: Future[None] = Future()
            done.set_result(None)
            return done
        unit_mode = self.config.unit_mode
        body = heartbeat_body(self.client_id, producers, consumers.values(), unit_mode=unit_mode)
        timeout_ms = self.config.mq_client_api_timeout
        note = self.broker_versions.note
        return send_heartbeat(self._asker, self.unreachable, address, body, timeout_ms, note)

    def _in_background(self, task: Callable[[], None]) -> Callable[[], None]:
        """Wrap a blocking periodic task: off the timer thread, and never twice at a time."""
        running = threading.Lock()

        def run() -> None:
            try:
                task()
            finally:
                running.release()

        def start() -> None:
            if running.acquire(blocking=False) and not self._background.submit(run):
                running.release()

        return start

    def _poll(self) -> None:
        topics = self.routes.known_topics()
        for consumer in self._consumers_now():
            topics.update(item.topic for item in consumer.subscriptions())
        self._ask_for_routes(sorted(topics))

    def _ask_for_routes(self, topics: Iterable[str]) -> None:
        for topic in topics:
            if not self.is_running:
                return
            try:
                self.routes.update(topic)
            except RocketMQError as error:
                if self.is_running:  # else nothing failed: the client itself has closed
                    self.routes.log_failure(topic, error)

    def look_again_soon(self, topic: str) -> None:
        """Ask in background for a route that a broker contradicts now; see `RouteTable`."""
        now = monotonic()
        if self.routes.turn_ms(topic, now) == 0:
            self._background.submit(self._look_again, topic, now)

    def _look_again(self, topic: str, since: float) -> None:
        try:
            self.routes.look_again(topic, since)
        except RocketMQError as error:
            if self.is_running:
                self.routes.log_failure(topic, error)

    def _heartbeat_round(self) -> None:
        self.connections.keep_only(self.routes.drop_offline_brokers())
        self.send_heartbeats(0)

    def _look_for_missed_brokers(self) -> None:
        """Look in the routes that have lost a broker, and greet brokers without a connection.

        One that restarts is consumed from when it is in a route again. All members must be known
        to it at once: those that ask it for the others would take the queues of who is not.
        """
        self._ask_for_routes(self.routes.topics_that_miss_brokers())
        for address in self._brokers_to_greet() - self.connections.addresses():
            self._heartbeat(address)

    def _persist_offsets(self) -> None:
        self._each_consumer("saving offsets", lambda one: one.persist_offsets())

    def _each_consumer(self, what: str, task: Callable[[ConsumerFace], None]) -> None:
        for consumer in self._consumers_now():
            _try(what, consumer, task)

    def _consumers_now(self) -> list[ConsumerFace]:
        with self._lock:
            return list(self._consumers.values())

    # --- what happens to us ----------------------------------------------------------------

    def _on_connected(self, address: str) -> None:
        # A broker that lost the connection forgot this client: tell it again at once, as 5.3
        # clients do (NettyConnectManageHandler, channelActive).
        if address in self.routes.broker_addresses(masters_only=False):
            self._background.submit(self._heartbeat, address)

    def _on_unreachable(self, address: str) -> None:
        """Look whether a broker that takes no connection has another address now.

        One topic is enough: it tells where the broker is for all of them.
        """
        topic = self.routes.topic_at(address)
        if topic is not None:
            self.look_again_soon(topic)

    def _on_lost(self, address: str) -> None:
        """Let consumers know that a connection has ended, on the thread that has seen it."""
        self.broker_versions.forget(address)
        self._each_consumer("the end of a connection", lambda one: one.connection_lost(address))

    def _on_route_change(self, topic: str) -> None:
        for consumer in self._consumers_now():
            if consumer.subscribes(topic):
                self.rebalance_soon(consumer.group)

    def _on_broker_request(self, channel: Channel, command: RemotingCommand) -> None:
        """Take a broker's request on the reading thread; the work happens in background."""
        if self._background.submit(self._serve, channel, command):
            return
        if self._life.state == "closed":
            _log.debug("broker request dropped code=%d: the client is shut down", command.code)
        else:
            _log.warning("broker request dropped code=%d: background is full", command.code)

    def _serve(self, channel: Channel, command: RemotingCommand) -> None:
        namespace = self.remoting.namespace
        if namespace is not None:
            command = namespace.hears(command)
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self.rebalance_soon(command.ext_fields.get("consumerGroup"))
            return
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            self.transaction_checks.serve(channel.address, command)
            return
        answer = self._answer(command)
        if command.is_oneway:
            return
        if answer is None:
            answer = command.answer(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                f" request type {command.code} not supported",
            )
        elif namespace is not None:
            answer = namespace.answers(command.code, answer)
        try:
            channel.reply(answer)
        except RocketMQError as error:
            _log.warning("answer to broker failed code=%d: %s", command.code, error)

    def _answer(self, command: RemotingCommand) -> RemotingCommand | None:
        """Let it be answered by whom it concerns; None: nobody here can."""
        try:
            if command.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT:
                return self.replies.serve(command)
            return self._ask_consumers(command)
        except Exception as error:  # noqa: BLE001 - the broker is told
            _log.exception("broker request failed code=%d", command.code)
            return command.answer(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")

    def _ask_consumers(self, command: RemotingCommand) -> RemotingCommand | None:
        fields = command.ext_fields
        group = fields.get("consumerGroup") or fields.get("group") or ""
        with self._lock:
            consumer = self._consumers.get(group)
        return None if consumer is None else consumer.handle_broker_request(command)

    # --- whether something is going on: a `LocalClient` for brokers of this process ----------

    def told(self) -> str | None:
        """Say what is still worked on, beginning with the group; None when all is idle.

        That is: messages cached or with a listener, offsets not written, sends in flight, answers
        that are being read, callbacks that run, a rebalance. The owner of an embedded broker
        waits for it (``broker.clock.settle``).
        """
        if self._life.state == "closed":
            return None
        for consumer in self._consumers_now():
            reason = consumer.told()
            if reason is not None:
                return f"{consumer.group}: {reason}"
        reason = self.activity.told()
        if reason is not None:
            return reason
        pools = (self._answers, self._callbacks, self._background)
        tasks = sum(pool.unfinished for pool in pools)
        return f"{tasks} background tasks" if tasks else None

    def hasten(self) -> None:
        """Let every consumer do at once, in background, what only waits for its time."""
        self._each_consumer("hastening", lambda one: one.hasten())

    def subscribed_routes(self) -> list[SubscribedRoute]:
        """Give all subscriptions with the brokers that are known for them.

        A retry topic without a route is none: its broker makes it when the group has joined.
        """
        if not self.is_running:
            return []
        name = partial(with_namespace, self.config.namespace)  # servers of this process ask
        found = [
            SubscribedRoute(
                name(consumer.group), name(one.topic), self.routes.brokers_of(one.topic)
            )
            for consumer in self._consumers_now()
            for one in consumer.subscriptions()
        ]
        return [one for one in found if one.brokers is not None or not is_retry_topic(one.topic)]


def _of(members: Mapping[str, _Member], group: str | None) -> dict[str, _Member]:
    """Give the member of a group, if it is here; without a group all."""
    if group is None:
        return dict(members)
    return {group: members[group]} if group in members else {}


def _try(what: str, consumer: ConsumerFace, task: Callable[[ConsumerFace], None]) -> None:
    """Do something for one consumer: its failure does not keep the next from its turn."""
    try:
        task(consumer)
    except Exception:  # noqa: BLE001 - the next consumer must have its turn
        _log.exception("%s failed group=%s", what, consumer.group)


def _close(part: Timer | WorkerPool | Connections, timeout: float) -> None:
    """Close a part; also who comes late gets a moment, in which threads end."""
    part.close(max(JOIN_LEAST_S, timeout))

"""``EmbeddedBroker``: a RocketMQ name server and broker in the test's own process.

Answers: what a test works with: life cycle, addresses, clock, views and waits. Must not know: how
anything inside works. Read on: ``embedded_broker/lifecycle/running_brokers.py`` for how it is put
together, ``embedded_broker/api/views/`` for what can be looked at.
"""

import os
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Literal, Self

from embedded_broker.api.extra_servers import control_face, control_url, grpc_address, grpc_clients
from embedded_broker.api.faults import Faults
from embedded_broker.api.views import (
    GroupsView,
    GrpcClientInfo,
    HasMessageId,
    MessagesView,
    SentMessage,
    TimersView,
    TopicsView,
    delivered,
    members_of,
    redeliver_message,
    send_message,
)
from embedded_broker.api.views.lookup import find_topic
from embedded_broker.clocks.clock import BrokerClock
from embedded_broker.clocks.waiting import describe, wait_until
from embedded_broker.core.put_hooks import PutHooks
from embedded_broker.errors import BrokerStateError
from embedded_broker.lifecycle.arguments import (
    Acl,
    Arguments,
    ListenerFactory,
    Topics,
    check_arguments,
)
from embedded_broker.lifecycle.node import BrokerNode
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.lifecycle.recovery_report import RecoveryReport
from embedded_broker.lifecycle.reset import Connected
from embedded_broker.lifecycle.running_brokers import BrokerSlot, RunningBrokers
from embedded_broker.remoting.journal import Journal
from embedded_broker.settings.config import BrokerConfig, Defaults
from embedded_broker.settings.grpc import GrpcOptions
from embedded_broker.settings.profiles import Limits, LimitsName, Profile, ProfileName
from embedded_broker.settings.tls import Tls
from embedded_broker.store.fs import FileSystem

if TYPE_CHECKING:
    from embedded_broker.api.aio import AsyncFace
    from rocketmq_py.clock import Clock

JOURNAL_LINES_SHOWN = 10
_numbers = count(1)


class EmbeddedBroker:
    """A RocketMQ name server and broker that lives while its ``with`` block does.

    Every argument is optional. ``store``: a directory in RocketMQ's layout, created or opened;
    None keeps everything in memory. A directory raises the soft limit of open files of this process
    to the hard one. ``clock`` and ``session_clock``: a ``VirtualClock``, or None
    for wall time. ``clock`` is the time of messages, ``session_clock`` the time of long polls and
    client sessions. ``profile``: ``"rocketmq-5.x"`` or ``"rocketmq-4.9"``; ``limits``: those of the
    ``"broker"``, of the ``"proxy"`` in front of it (24 hours of delay, typed topics), or of
    ``"aliyun"`` (less than 40 days). ``engine``: how timers are kept, ``"wheel"`` (the default) or
    ``"sliced"``; it sets the option ``timerEngine``. With ``levels="off"`` the engine serves delay
    levels, too. ``defaults="upstream"`` uses RocketMQ's defaults where ours differ. ``config``:
    RocketMQ's own options, such as ``{"timerMaxDelaySec": 3456000}``. ``host`` other than loopback
    needs ``allow_remote=True``. ``acl``: who may do what, a ``PlainAcl`` (RocketMQ 4.9), a
    ``UserAcl`` (5.3) or the path of a `plain_acl.yml` (the extra ``acl``); requests must be signed
    then. ``tls``: certificates for TCP connections, a ``Tls`` or the path of a `tls.properties`.
    Port 0 takes a free port. ``tcp=False`` opens no socket but that of gRPC, ``inproc=False`` makes
    SDK clients of this process use TCP, and so does enforced TLS. ``topics``: names or
    ``TopicSpec``, or a dict of names and numbers of queues, such as ``{"Orders": 6}``; they are
    created before ``start``
    returns. ``seed`` drives every random choice. ``fs`` and ``listener_factory`` replace the file
    system and the listening sockets. ``grpc=True`` lets RocketMQ's official 5.x clients in, at
    ``endpoints`` (the extra ``grpc``); ``GrpcOptions`` has more to say. ``grpc_tls``, a ``Tls``
    or ``"self-signed"``, adds ``tls_endpoints`` for those that insist on TLS. ``control=True`` lets
    programs in any language move the clock and look in over HTTP, at ``control_url`` (the extra
    ``control``). It is on loopback, unless every request has to carry a ``control_token``. Raises
    ``ConfigError`` for an argument that is not possible. Nothing is opened before ``start``.

    >>> with EmbeddedBroker(tcp=False, topics=["greetings"]) as broker:
    ...     _ = broker.send("greetings", b"hello")
    ...     [message.body for message in broker.messages.in_topic("greetings")]
    [b'hello']
    """

    def __init__(
        self,
        *,
        store: str | os.PathLike[str] | None = None,
        clock: "Clock | None" = None,
        session_clock: "Clock | None" = None,
        profile: ProfileName = "rocketmq-5.x",
        limits: LimitsName = "broker",
        engine: Literal["wheel", "sliced"] | None = None,
        levels: Literal["on", "off"] = "on",
        defaults: Defaults = "embedded",
        config: Mapping[str, object] | None = None,
        cluster_name: str = "DefaultCluster",
        broker_name: str = "broker-a",
        host: str = "127.0.0.1",
        namesrv_port: int = 0,
        broker_port: int = 0,
        tcp: bool = True,
        inproc: bool = True,
        topics: Topics = (),
        seed: int | None = None,
        allow_remote: bool = False,
        acl: Acl | None = None,
        tls: Tls | str | os.PathLike[str] | None = None,
        fs: FileSystem | None = None,
        listener_factory: ListenerFactory | None = None,
        grpc: bool | GrpcOptions = False,
        grpc_tls: Tls | str | os.PathLike[str] | None = None,
        control: bool = False,
        control_port: int = 0,
        control_token: str | None = None,
    ) -> None:
        self._arguments: Arguments = check_arguments(
            store=store,
            clock=clock,
            session_clock=session_clock,
            profile=profile,
            limits=limits,
            engine=engine,
            levels=levels,
            defaults=defaults,
            config=config,
            cluster_name=cluster_name,
            broker_name=broker_name,
            host=host,
            namesrv_port=namesrv_port,
            broker_port=broker_port,
            tcp=tcp,
            inproc=inproc,
            topics=topics,
            seed=seed,
            allow_remote=allow_remote,
            acl=acl,
            tls=tls,
            fs=fs,
            listener_factory=listener_factory,
            grpc=grpc,
            grpc_tls=grpc_tls,
        )
        self._slot = BrokerSlot(self._arguments, next(_numbers))
        self._running_brokers = RunningBrokers([self._slot])
        me = [self]
        self._control = control_face(
            self._running_brokers,
            lambda: me,
            control=control,
            port=control_port,
            token=control_token,
        )
        self._make_views()

    def _make_views(self) -> None:
        self._faults = Faults(self._slot)
        self._topics = TopicsView(self._parts)
        self._messages = MessagesView(self._parts)
        self._timers = TimersView(self._parts)
        self._groups = GroupsView(self._parts)

    def __repr__(self) -> str:
        state = f"at {self._slot.address}" if self.is_running else "not running"
        return f"<EmbeddedBroker {self._arguments.broker_name} {state}>"

    def __dir__(self) -> list[str]:
        """Leave out what is only for ``EmbeddedCluster``."""
        return [name for name in super().__dir__() if name not in {"join", "slot"}]

    # -- what is there ----------------------------------------------------------------------

    @property
    def topics(self) -> TopicsView:
        """The topics: create, look up and list them."""
        return self._topics

    @property
    def messages(self) -> MessagesView:
        """What is stored: ``in_topic``, ``by_id``, ``by_key``; ``trace`` tells a message's life."""
        return self._messages

    @property
    def timers(self) -> TimersView:
        """Messages that wait for their time: count, list, recall, fire and reschedule them."""
        return self._timers

    @property
    def groups(self) -> GroupsView:
        """Who consumes, how far each group is, its retries and its dead letters."""
        return self._groups

    @property
    def faults(self) -> Faults:
        """Faults on purpose: of answers (``faults.on``) and of the disk (``faults.disk``)."""
        return self._faults

    # -- attributes -------------------------------------------------------------------------

    @property
    def namesrv_addr(self) -> str:
        """``host:port`` of the name server: what a client is configured with."""
        return self._known(self._running_brokers.namesrv_addr)

    @property
    def addr(self) -> str:
        """``host:port`` of the broker, as routes advertise it."""
        return self._known(self._slot.address)

    @property
    def endpoints(self) -> str:
        """``host:port`` for RocketMQ's gRPC clients; needs ``grpc=True``."""
        return grpc_address(self, self._arguments, self._running_brokers)

    @property
    def tls_endpoints(self) -> str:
        """``host:port`` for gRPC clients that insist on TLS; needs ``grpc_tls``."""
        return grpc_address(self, self._arguments, self._running_brokers, tls=True)

    def grpc_clients(self) -> tuple[GrpcClientInfo, ...]:
        """Give who is connected by gRPC, in the order of arrival; needs ``grpc=True``.

        A client is known from its first settings until it leaves, or was silent for two minutes of
        session time. Brokers of a cluster have the same.
        """
        return grpc_clients(self, self._arguments, self._running_brokers)

    @property
    def ha_addr(self) -> str:
        """``host:port`` where slaves follow the broker; needs the option ``haListenPort``."""
        if self.config["haListenPort"] == -1:
            raise BrokerStateError(f"{self!r} lets no slave follow it: set haListenPort=0")
        return self._known(self._slot.ha_address)

    @property
    def control_url(self) -> str:
        """Where the HTTP face is, such as ``http://127.0.0.1:9880``; its page is at ``/docs``."""
        return control_url(self, self._control)

    @property
    def clock(self) -> BrokerClock:
        """The time of messages. A ``VirtualClock`` can be moved."""
        return self._arguments.clock

    @property
    def config(self) -> BrokerConfig:
        """RocketMQ's options: ``config["timerMaxDelaySec"]``, ``config.update(...)``."""
        return self._arguments.config

    @property
    def journal(self) -> Journal:
        """Requests and answers, newest last. Restarts keep it."""
        return self._running_brokers.journal

    @property
    def profile(self) -> Profile:
        """Which version of RocketMQ the broker behaves as."""
        return self._arguments.profile

    @property
    def limits(self) -> Limits:
        """The limits that are in force besides the broker's own."""
        return self._arguments.limits

    @property
    def broker_name(self) -> str:
        """The name that routes and message queues carry."""
        return self._arguments.broker_name

    @property
    def seed(self) -> int:
        """The seed of every random choice. Pass it again to repeat a run."""
        return self._arguments.seed

    @property
    def put_hooks(self) -> PutHooks:
        """Your own steps before a message is stored: look at it, change it or refuse it."""
        return self._arguments.put_hooks

    @property
    def is_running(self) -> bool:
        """Whether clients can reach it."""
        return self._running_brokers.is_running and self._slot.is_running

    # -- life -------------------------------------------------------------------------------

    def start(self) -> Self:
        """Open the store, listen, and return when clients can find the broker."""
        self._running_brokers.start()
        return self

    def close(self) -> None:
        """Save, sync, and end every connection and thread in bounded time; idempotent."""
        self._running_brokers.close()

    def crash(self) -> None:
        """End as a process that is killed: connections are reset, nothing is saved or synced.

        What was written stays, in memory or on the disk; only ``faults.disk.lose_unsynced()``
        loses bytes. ``restart()`` recovers.
        """
        self._running_brokers.crash()

    @property
    def recovery(self) -> RecoveryReport:
        """What was found and repaired when the store was opened last."""
        return self._node().recovery

    @property
    def retention(self) -> str:
        """How much the store keeps and for how long, in a sentence."""
        return self._node().describe_retention()

    def restart(self, *, crash: bool = False) -> RecoveryReport:
        """Close if it runs, and start again with the same ports and the same data.

        With ``crash`` a running broker ends as in ``crash()``. SDK clients of this process that
        connect meanwhile wait for it; after ``crash()`` and then ``restart()`` they are refused in
        between. Returns what opening the store found, and what it had to repair after a crash.
        """
        self._running_brokers.restart(crash=crash)
        return self._node().recovery

    def pause(self) -> None:
        """Accept connections, but answer nothing until ``resume``. Requests wait.

        Time, timers and this object's own calls go on.
        """
        self._running_brokers.pause()

    def resume(self) -> None:
        """Answer again, beginning with the requests that wait."""
        self._running_brokers.resume()

    def snapshot(self, path: str | os.PathLike[str]) -> Path:
        """Copy the store, as it is at this instant, to a new directory that ``store=path`` opens.

        Works for every store, also one in memory, while clients go on. The time of a virtual clock
        is saved with it: ``EmbeddedBroker(store=path, clock=VirtualClock())`` goes on at that time.
        A broker on wall time logs a warning and uses wall time. Returns the directory. Raises
        ``StoreError`` when the path exists and is no empty directory.
        """
        return self._node().snapshot(path)

    def reset(self, *, clock: bool = False) -> Connected:
        """Empty the broker: remove topics, groups, offsets, messages, timers, faults and journal.

        Addresses, settings and connections stay. The topics of ``topics=`` are created again, and
        so are those that connected consumers read. A consumer that stays connected starts from the
        beginning. Time goes on where it is; with ``clock=True`` a ``VirtualClock`` goes back to
        the time at which it began, which raises ``ClockError`` when other brokers share it.
        Returns who is still connected: a consumer that an earlier test left behind would take part
        in the next one. A warning in the log names such consumers.
        """
        self.faults.clear()
        return self._running_brokers.reset(self._slot, clock=clock)

    async def __aenter__(self) -> Self:
        """Start without blocking the event loop."""
        from asyncio import to_thread

        return await to_thread(self.start)

    async def __aexit__(self, *raised: object) -> None:
        """Close without blocking the event loop."""
        from asyncio import to_thread

        await to_thread(self.close)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *raised: object) -> None:
        self.close()

    # -- doing and waiting --------------------------------------------------------------------

    def send(
        self,
        topic: str,
        body: bytes | bytearray | memoryview,
        *,
        tags: str | None = None,
        keys: str | None = None,
        queue: int | None = None,
        properties: dict[str, str] | None = None,
        delay: float | timedelta | None = None,
        delay_level: int | None = None,
        deliver_at: datetime | None = None,
    ) -> SentMessage:
        """Send one message without any client, for tests of consumers only.

        Give at most one of ``delay`` (seconds or a timedelta, 0 or more, rounded up to a
        millisecond), ``delay_level`` (a number) and ``deliver_at`` (an aware datetime). A delay is
        3 days at most, as on a real broker, unless ``timerMaxDelaySec`` in ``config=`` says more.
        Raises
        ``MQBrokerException`` when the broker refuses the message, ``DelayValueError`` for a delay
        that is not possible, ``ConfigError`` for two delays and ``TypeError`` for a value of
        another type.
        """
        return send_message(
            self._parts(),
            topic,
            body,
            tags=tags,
            keys=keys,
            queue=queue,
            properties=properties,
            delay=delay,
            delay_level=delay_level,
            deliver_at=deliver_at,
        )

    def redeliver(self, message: str | HasMessageId, *, group: str | None = None) -> SentMessage:
        """Deliver a message again, with the same id, as happens after a lost answer.

        RocketMQ delivers at least once, so a listener has to stand this. ``message`` is an id or
        anything with ``msg_id``, also what a listener got. All groups of its topic get it again;
        with ``group`` only this one does, by its retry topic. Raises ``MessageNotFound``, and
        ``KeyError`` for an unknown group.
        """
        return redeliver_message(self._parts, self.messages.by_id(message), group)

    def wait_for(
        self, condition: "Callable[[EmbeddedBroker], object]", *, timeout: float | None = None
    ) -> None:
        """Wait until ``condition(broker)`` is true; ``WaitTimeoutError`` after ``timeout`` seconds.

        The condition is evaluated on the calling thread, after every change of the broker and at
        least every 10 ms, so it may use the test's own variables. Without ``timeout`` it waits
        ``clock.watchdog`` seconds at most. Both are wall time.
        """
        self._wait(lambda: condition(self), lambda: describe(condition), timeout)

    def wait_delivered(self, topic: str, count: int = 1, *, timeout: float | None = None) -> None:
        """Wait until at least ``count`` messages became visible in a topic since its creation.

        The topic may come later. One that never came is named in the error, with the nearest name.
        """
        enough = partial(self.has_delivered, topic, count)
        self._wait(enough, lambda: f"{count} messages in topic {topic!r}", timeout)

    def wait_members(self, group: str, count: int = 1, *, timeout: float | None = None) -> None:
        """Wait until at least ``count`` consumers of a group are connected."""
        enough = partial(self.has_members, group, count)
        self._wait(enough, lambda: f"{count} members in group {group!r}", timeout)

    @property
    def aio(self) -> "AsyncFace[EmbeddedBroker]":
        """The waits and the moves of time as coroutines, for tests in an event loop.

        These are ``settle``, ``advance``, ``jump_to``, ``run``, ``run_until``, ``wait_for``,
        ``wait_delivered`` and ``wait_members``, with the arguments of the blocking calls.
        """
        from embedded_broker.api.aio import AsyncFace

        return AsyncFace(self)

    def wait_idle(self, *, timeout: float = 5) -> None:
        """Wait until the clients are idle, ``SettleTimeout`` after ``timeout`` seconds.

        The same as ``broker.clock.settle(timeout)``.
        """
        self.clock.settle(timeout)

    def _wait(
        self,
        condition: Callable[[], object],
        expected: Callable[[], str],
        timeout: float | None,
    ) -> None:
        wait_until(
            condition,
            door=self._parts().door,
            timeout_s=self.clock.watchdog if timeout is None else timeout,
            expected=expected,
            seen=self.seen,
            onlookers=self.clock.onlookers,
        )

    def watch(self, event: Event) -> None:
        """Set ``event`` after every change of the broker's state, until ``unwatch``."""
        self._parts().door.watch(event)

    def unwatch(self, event: Event) -> None:
        """Undo ``watch``."""
        self._parts().door.unwatch(event)

    def has_delivered(self, topic: str, count: int) -> bool:
        """Whether at least ``count`` messages became visible in a topic since its creation."""
        parts = self._parts()
        with parts.door.quiet:
            find_topic(parts, topic)  # in a wait, no such topic counts as not yet
            return delivered(parts, topic) >= count

    def has_members(self, group: str, count: int) -> bool:
        """Whether at least ``count`` consumers of a group are connected."""
        parts = self._parts()
        with parts.door.quiet:
            return len(members_of(parts, group)) >= count

    def seen(self) -> str:
        """Tell the state in words, as the text of a failed wait does."""
        told = [f"{name}: {self.topics[name].count()} messages" for name in self.topics.names()]
        told += [repr(self.groups[name])[1:-1] for name in self.groups.names()]
        told.append(f"{self.timers.count()} timers pending")
        told.append(f"clock at {self.clock.now().isoformat()}")
        head = self.clock.next_deadline()
        if head is not None:
            advice = "" if self.clock.flows else "; the clock is frozen: broker.clock.advance(...)"
            told.append(f"next is {head.what} at {head.at.isoformat()}{advice}")
        told.append(f"seed {self.seed}")
        lines = self.journal.dump(last=JOURNAL_LINES_SHOWN) or "(nothing was asked)"
        return f"{'; '.join(told)}\nlast requests:\n{lines}"

    # -- inside -----------------------------------------------------------------------------

    @property
    def slot(self) -> BrokerSlot:
        """Its place among brokers that run together. For ``EmbeddedCluster``."""
        return self._slot

    def join(self, brokers: RunningBrokers) -> None:
        """Run together with others from now on. For ``EmbeddedCluster``."""
        self._running_brokers = brokers

    def _parts(self) -> BrokerParts:
        return self._node().parts

    def _node(self) -> BrokerNode:
        self._running_brokers.check_process()
        node = self._slot.node
        if node is None:
            raise BrokerStateError(f"{self!r}: call start(), or use it inside its with block")
        return node

    def _known(self, address: str) -> str:
        if not address:
            raise BrokerStateError(f"{self!r} has no address yet: call start()")
        return address

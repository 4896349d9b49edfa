"""The fixtures of the pytest plugin.

Answers: what a test gets by the name of an argument. ``pytest --fixtures`` shows the docstrings.
Must not know: how a broker is put together. Nothing but pytest is imported before a test asks for
one of them. Read on: ``embedded_broker/kit/pytest_run.py``, ``clients.py``, ``recorder.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from embedded_broker.kit.plugin import option, require, run_of, without_traceback

if TYPE_CHECKING:
    from embedded_broker.api.broker import EmbeddedBroker
    from embedded_broker.api.cluster import EmbeddedCluster
    from embedded_broker.api.faults import Faults
    from embedded_broker.clocks.clock import VirtualClock
    from embedded_broker.kit.clients import AsyncConsumers, Consumers, Recorders
    from embedded_broker.kit.fixture_broker import FixtureBroker
    from embedded_broker.kit.store import Store
    from rocketmq_py import DefaultMQProducer, aio


def _scope(fixture_name: str, config: pytest.Config) -> str:
    del fixture_name
    return str(option(config, "rocketmq_scope"))


@pytest.fixture(scope=_scope)  # type: ignore[arg-type] # pytest takes any of its scopes as str
def rocketmq_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedBroker]:
    """A RocketMQ broker with its name server; clients connect to ``rocketmq_broker.namesrv_addr``.

    Every test gets an empty one that begins at 2030-01-01 and whose clock only the test moves
    (``rocketmq_clock``). With ``--rocketmq-scope=module`` or ``session`` tests share one, which is
    emptied before each of them. ``@pytest.mark.rocketmq(topics=["Orders"], config={...})`` says
    what it has. ``rocketmq_broker.redeliver(message)`` delivers a message again. With
    ``--rocketmq=process:5.3.3`` and the like it is a real broker, which can only be reached.
    """
    run = run_of(request.config)
    if not run.is_embedded:
        from embedded_broker.kit.remote import RemoteBroker

        with without_traceback(request.config):
            backend = run.remote_fixture().backend
        yield RemoteBroker(backend)  # type: ignore[misc] # skips what it lacks
    elif request.scope == "function":
        yield from _own(request, tmp_path_factory)
    else:
        from embedded_broker.kit.pytest_run import mark_options_of_node

        with ExitStack() as ends:
            with without_traceback(request.config):
                fixture = ends.enter_context(
                    run.shared_broker(request.node.nodeid, mark_options_of_node(request.node))
                )
            yield fixture.broker


def _own(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedBroker]:
    from embedded_broker.kit.pytest_run import mark_options_of_node

    run, item = run_of(request.config), request.node
    asked = request.fixturenames
    store = tmp_path_factory.mktemp("rocketmq") if "rocketmq_store" in asked else None
    mark_options = mark_options_of_node(item)
    in_cluster = "rocketmq_cluster" in asked
    with ExitStack() as ends:
        with without_traceback(request.config):
            fixture = ends.enter_context(
                run.own_broker(item.nodeid, mark_options, store=store, in_cluster=in_cluster)
            )
            fixture.store_path = store
            ends.callback(run.begin(item, fixture).end_plans)
        yield fixture.broker


@pytest.fixture
def _rocketmq_fixture(
    request: pytest.FixtureRequest, rocketmq_broker: EmbeddedBroker
) -> FixtureBroker:
    """What the other fixtures do with ``rocketmq_broker``."""
    with without_traceback(request.config):
        return run_of(request.config).trial_on(request.node, rocketmq_broker).fixture


@pytest.fixture
def rocketmq_cluster(
    request: pytest.FixtureRequest,
    rocketmq_broker: EmbeddedBroker,
    _rocketmq_fixture: FixtureBroker,
) -> EmbeddedCluster:
    """Three brokers behind one name server, on one clock: ``rocketmq_cluster.stop("broker-b")``.

    ``@pytest.mark.rocketmq(brokers=5)`` asks for another number. ``rocketmq_broker`` is the first
    of them, and the other fixtures use the cluster.
    """
    require(request, "CLUSTER", "rocketmq_cluster")
    cluster: EmbeddedCluster | None = getattr(_rocketmq_fixture, "cluster", None)
    if cluster is None:
        pytest.fail(
            "rocketmq_cluster is made for one test: use it with --rocketmq-scope=function, and "
            f"name it as an argument of the test or its fixtures ({rocketmq_broker!r} is alone)",
            pytrace=False,
        )
    return cluster


@pytest.fixture
def rocketmq_clock(
    request: pytest.FixtureRequest, _rocketmq_fixture: FixtureBroker
) -> VirtualClock:
    """The time of the broker, which only the test moves: ``rocketmq_clock.run(days=2)``.

    ``run(...)`` goes from deadline to deadline and lets consumers react on the way, ``run_until``
    stops when a condition holds, ``advance(...)`` jumps, ``now()`` tells the time. With
    ``busy()`` and ``idle_when(...)`` they wait for threads of your own, too. Every test begins at
    2030-01-01 UTC; ``@pytest.mark.rocketmq(start=datetime(...))`` says another time.
    """
    from embedded_broker.clocks.clock import VirtualClock

    require(request, "VIRTUAL_CLOCK", "rocketmq_clock")
    clock = getattr(_rocketmq_fixture, "clock", None)
    if not isinstance(clock, VirtualClock):
        pytest.fail(
            "rocketmq_clock: this broker has wall time (virtual_clock=False), which nobody moves",
            pytrace=False,
        )
    return clock


@pytest.fixture
def rocketmq_topic(request: pytest.FixtureRequest, _rocketmq_fixture: FixtureBroker) -> str:
    """The name of a topic of the test's own, which exists and is empty."""
    from embedded_broker.lifecycle.arguments import TopicSpec

    name = _name(request, _rocketmq_fixture)
    _rocketmq_fixture.create_topic(TopicSpec(name))
    return name


@pytest.fixture
def rocketmq_group(request: pytest.FixtureRequest, _rocketmq_fixture: FixtureBroker) -> str:
    """The name of a consumer group of the test's own."""
    return f"{_name(request, _rocketmq_fixture)}-group"


def _name(request: pytest.FixtureRequest, fixture: FixtureBroker) -> str:
    run = run_of(request.config)
    return run.name_of(request.node.nodeid, request.node.name, is_shared=fixture.is_shared)


@pytest.fixture
def rocketmq_endpoints(rocketmq_broker: EmbeddedBroker) -> str:
    """``host:port`` for RocketMQ's gRPC clients: ``ClientConfiguration(rocketmq_endpoints, ...)``.

    The test needs ``@pytest.mark.rocketmq(grpc=True)`` and the extra ``grpc``.
    """
    from embedded_broker.errors import BrokerStateError

    try:
        return rocketmq_broker.endpoints
    except BrokerStateError as error:
        pytest.fail(f"{error}, as @pytest.mark.rocketmq(grpc=True) does", pytrace=False)


@pytest.fixture
def rocketmq_producer(
    request: pytest.FixtureRequest, _rocketmq_fixture: FixtureBroker
) -> Iterator[DefaultMQProducer]:
    """A started producer: ``rocketmq_producer.send(Message(topic, b"...", delay=...))``.

    It is shut down with the test.
    """
    from embedded_broker.kit.clients import start_producer

    with ExitStack() as ends:
        group = f"{_name(request, _rocketmq_fixture)}-producer"
        yield start_producer(_rocketmq_fixture, group, ends)
        _rocketmq_fixture.calm()


@pytest.fixture
def rocketmq_aio_producer(
    request: pytest.FixtureRequest, _rocketmq_fixture: FixtureBroker
) -> Iterator[aio.Producer]:
    """A started producer for a coroutine: ``await rocketmq_aio_producer.send(Message(...))``.

    It belongs to the event loop that uses it first, whatever runs that: ``asyncio.run``,
    pytest-asyncio or anyio. It is shut down with the test.
    """
    from embedded_broker.kit.clients import start_aio_producer

    with ExitStack() as ends:
        group = f"{_name(request, _rocketmq_fixture)}-aio-producer"
        yield start_aio_producer(_rocketmq_fixture, group, ends)
        _rocketmq_fixture.calm()


@pytest.fixture
def rocketmq_consumer(
    request: pytest.FixtureRequest, rocketmq_group: str, _rocketmq_fixture: FixtureBroker
) -> Iterator[Consumers]:
    """Starts consumers: ``rocketmq_consumer("billing", "Orders", listener, tags="paid")``.

    It returns when the consumer has queues, so that it misses nothing that is sent afterwards. The
    consumer is shut down with the test. Call it again for another one. Further keywords are
    settings; ``pull_time_delay_millis_when_exception``, the pause after a failed pull, is 10 ms
    here and 1 s elsewhere, so that a crash costs no second. In a coroutine:
    ``await rocketmq_consumer.aio(...)``, or ``rocketmq_aio_consumer`` for coroutines as listeners.
    """
    from embedded_broker.kit.clients import Consumers

    with ExitStack() as ends:
        yield Consumers(
            _rocketmq_fixture,
            lambda: request.getfixturevalue("rocketmq_topic"),
            rocketmq_group,
            ends,
        )
        _rocketmq_fixture.calm()


@pytest.fixture
def rocketmq_aio_consumer(
    request: pytest.FixtureRequest, rocketmq_group: str, _rocketmq_fixture: FixtureBroker
) -> Iterator[AsyncConsumers]:
    """Starts consumers for a coroutine, as ``rocketmq_consumer`` does for a function.

    ``await rocketmq_aio_consumer("billing", "Orders", handle, tags="paid")``: ``handle`` is a
    coroutine function that gets an ``aio.Delivery``, or an ``aio.Orderly``; without one iterate
    over the ``aio.Consumer`` that this returns. It has queues then. It is shut down with the test,
    and may outlive its event loop.
    """
    from embedded_broker.kit.clients import AsyncConsumers

    with ExitStack() as ends:
        yield AsyncConsumers(
            _rocketmq_fixture,
            lambda: request.getfixturevalue("rocketmq_topic"),
            rocketmq_group,
            ends,
        )
        _rocketmq_fixture.calm()


@pytest.fixture
def rocketmq_recorder(
    request: pytest.FixtureRequest, rocketmq_group: str, _rocketmq_fixture: FixtureBroker
) -> Iterator[Recorders]:
    """Records what arrives in a topic, and goes forward in time until what is expected arrives.

    ``arrived = rocketmq_recorder(topic)`` begins to record, with ``tags="paid"`` only those.
    ``arrived.expect(b"cancel 42", within=timedelta(minutes=30))`` goes forward in virtual time
    until the message is there. If it is not, it tells what arrived and what still waits.
    ``arrived.expect_nothing(within=...)``, ``arrived.bodies``, ``.duplicates`` and
    ``.dead_letters(group)`` tell more. In a coroutine: ``await rocketmq_recorder.aio(topic)`` and
    ``await arrived.aio.expect(...)``.
    """
    from embedded_broker.kit.clients import Recorders

    with ExitStack() as ends:
        yield Recorders(
            _rocketmq_fixture,
            lambda: request.getfixturevalue("rocketmq_topic"),
            rocketmq_group,
            ends,
        )
        _rocketmq_fixture.calm()


@pytest.fixture
def rocketmq_faults(
    request: pytest.FixtureRequest,
    rocketmq_broker: EmbeddedBroker,
    _rocketmq_fixture: FixtureBroker,
) -> Faults:
    """Lets things go wrong: ``rocketmq_faults.on("SEND_MESSAGE_V2").respond("SYSTEM_BUSY")``.

    ``nth=2`` means the second such request, ``.always()`` each of them. A fault that never happens
    fails the test, because it proved nothing. ``rocketmq_faults.disk`` has those of the disk. See
    also ``@pytest.mark.rocketmq_crash(after="SEND_MESSAGE_V2", nth=2)``.
    """
    require(request, "FAULTS", "rocketmq_faults")
    return rocketmq_broker.faults


@pytest.fixture
def rocketmq_store(
    request: pytest.FixtureRequest,
    rocketmq_broker: EmbeddedBroker,
    _rocketmq_fixture: FixtureBroker,
) -> Store:
    """The broker's files in a temporary directory: ``rocketmq_store.reopen(crash=True)``.

    ``reopen()`` ends the broker and starts it again with the same addresses; it returns what was
    found and repaired. ``crash=True`` ends it as by ``kill -9``, ``lose_unsynced=True`` as by a
    power loss: all that was not synced is lost. Nothing is synced because wall time passes, so this
    is the same on every machine; ``config={"flushDiskType": "SYNC_FLUSH"}`` syncs every message.
    ``rocketmq_store.path`` is the directory.
    """
    from embedded_broker.kit.remote import RemoteFixtureBroker, RemoteStore
    from embedded_broker.kit.store import Store

    require(request, "REOPEN", "rocketmq_store")
    if isinstance(_rocketmq_fixture, RemoteFixtureBroker):
        return RemoteStore(_rocketmq_fixture.backend)  # type: ignore[return-value] # reopen alone
    path = getattr(_rocketmq_fixture, "store_path", None)
    if path is None:
        pytest.fail(
            "rocketmq_store belongs to a broker of the test's own: use it with "
            "--rocketmq-scope=function, and name it as an argument of the test or its fixtures",
            pytrace=False,
        )
    return Store(rocketmq_broker, path)

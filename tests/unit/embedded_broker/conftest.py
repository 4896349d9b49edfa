"""A core without store and handlers with peers for it; started brokers with connections."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest
from attrs import define

from embedded_broker import EmbeddedBroker
from embedded_broker.clocks.clock import BrokerClock, VirtualClock
from embedded_broker.door import Door
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.remoting.journal import Journal
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.profiles import find_profile
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame, FrameDecoder
from tests.unit.embedded_broker.peers import Peer, RawClient
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer

if TYPE_CHECKING:
    from embedded_broker.store.message_store import MessageStore
    from embedded_broker.timer.levels.service import ScheduleMessageService
    from embedded_broker.timer.wheel.engine import TimerMessageStore


@define
class FakeStore:
    """As much of a store as the core itself looks at."""

    flushed_offset: int = 0


PartsMaker = Callable[..., BrokerParts]


def frames_of(*commands: RemotingCommand) -> list[Frame]:
    """What an adapter hands over when these commands arrive."""
    return FrameDecoder().feed(b"".join(command.encode() for command in commands))


@pytest.fixture
def cut() -> Callable[..., list[Frame]]:
    return frames_of


@pytest.fixture
def caller() -> Peer:
    return Peer()


@pytest.fixture
def make_parts() -> PartsMaker:
    def make(
        profile: str = "rocketmq-5.x",
        *,
        clock: BrokerClock | None = None,
        session_clock: BrokerClock | None = None,
        **config: object,
    ) -> BrokerParts:
        door = Door()
        clock = clock or VirtualClock()
        return BrokerParts(
            door=door,
            clock=clock,
            session_clock=session_clock or clock,
            config=BrokerConfig(config),
            profile=find_profile(profile),
            store=cast("MessageStore", FakeStore()),
            timers=cast("TimerMessageStore", None),
            levels=cast("ScheduleMessageService", None),
            journal=Journal(),
            random=Random(1),
            cluster_name="DefaultCluster",
            broker_name="broker-a",
            address="127.0.0.1:10911",
        )

    return make


@pytest.fixture(params=["asyncio", "uvloop"])
def either_loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The event loop of servers that the test starts: it runs once with each."""
    name = str(request.param)
    if name == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    return name


@pytest.fixture
def dial() -> Iterator[Callable[[str], RawClient]]:
    """Opens raw clients, and closes them in the end."""
    opened: list[RawClient] = []

    def open_one(address: str) -> RawClient:
        opened.append(RawClient(address))
        return opened[-1]

    yield open_one
    for client in opened:
        client.close()


StartBroker = Callable[..., EmbeddedBroker]


@pytest.fixture
def start_broker() -> Iterator[StartBroker]:
    """Start brokers that are closed after the test; the message clock is frozen by default."""
    with ExitStack() as stack:

        def start(**arguments: Any) -> EmbeddedBroker:
            arguments.setdefault("clock", VirtualClock())
            return stack.enter_context(EmbeddedBroker(**{"seed": 1, **arguments}))

        yield start


@pytest.fixture
def broker(start_broker: StartBroker) -> EmbeddedBroker:
    """A started 5.x broker on a frozen clock."""
    return start_broker()


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Open connections that are closed after the test."""
    with ExitStack() as stack:
        yield lambda address: stack.enter_context(WirePeer(address))


@pytest.fixture
def peer(broker: EmbeddedBroker, connect: Connect) -> WirePeer:
    """A connection to the broker of this test."""
    return connect(broker.addr)

"""A core without store and handlers, and peers for it."""

from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, cast

import pytest
from attrs import define

from embedded_broker.clock import BrokerClock, VirtualClock
from embedded_broker.config import BrokerConfig
from embedded_broker.core import BrokerCore
from embedded_broker.door import Door
from embedded_broker.journal import Journal
from embedded_broker.namesrv.name_server import NameServer
from embedded_broker.profiles import find_profile
from embedded_broker.timeline import SessionTimers
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame, FrameDecoder
from tests.unit.embedded_broker.peers import Peer, RawClient

if TYPE_CHECKING:
    from embedded_broker.store.message_store import MessageStore
    from embedded_broker.timer.engine import TimerMessageStore
    from embedded_broker.timer.levels import ScheduleMessageService


@define
class FakeStore:
    """As much of a store as the core itself looks at."""

    flushed_offset: int = 0


CoreMaker = Callable[..., BrokerCore]


def frames_of(*commands: RemotingCommand) -> list[Frame]:
    """What an adapter hands over when these commands arrive."""
    return FrameDecoder().feed(b"".join(command.encode() for command in commands))


@pytest.fixture
def cut() -> Callable[..., list[Frame]]:
    return frames_of


@pytest.fixture
def peer() -> Peer:
    return Peer()


@pytest.fixture
def make_core() -> CoreMaker:
    def make(
        profile: str = "rocketmq-5.x",
        *,
        clock: BrokerClock | None = None,
        session_clock: BrokerClock | None = None,
        **config: object,
    ) -> BrokerCore:
        door = Door()
        clock = clock or VirtualClock()
        return BrokerCore(
            door=door,
            clock=clock,
            session_clock=session_clock or clock,
            config=BrokerConfig(config),
            profile=find_profile(profile),
            store=cast("MessageStore", FakeStore()),
            timers=cast("TimerMessageStore", None),
            levels=cast("ScheduleMessageService", None),
            namesrv=NameServer(),
            journal=Journal(),
            random=Random(1),
            session_timers=SessionTimers(),
            cluster_name="DefaultCluster",
            broker_name="broker-a",
            address="127.0.0.1:10911",
        )

    return make


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

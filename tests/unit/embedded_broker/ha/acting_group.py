"""A master and its slave, which acts for it while it is away; for tests of both.

Each has a clock of its own, which a test moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from attrs import define

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.timer.wheel.engine import TimerMessageStore
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.embedded_broker.wire_peer import WirePeer

ACTING = {"enableSlaveActingMaster": True, "enableRemoteEscape": True}
START = datetime(2026, 1, 1, tzinfo=UTC)
QUICK = {"syncBrokerMemberGroupPeriod": 20}


@define
class Group:
    """Master and slave, and another broker whose name server knows both."""

    other: EmbeddedBroker
    master: EmbeddedBroker
    slave: EmbeddedBroker

    def timers_of(self, broker: EmbeddedBroker) -> TimerMessageStore:
        timers = broker._parts().timers
        assert isinstance(timers, TimerMessageStore)
        return timers

    def send(self, *bodies: bytes, seconds: float = 0, level: int | None = None) -> None:
        for body in bodies:
            if level is not None:
                self.master.send("T", body, delay_level=level)
            else:
                self.master.send("T", body, delay=timedelta(seconds=seconds))
        self.follow()

    def follow(self) -> None:
        """Wait until the slave has the log, and the wheel as far as the master has it."""
        master, slave = self.master._parts(), self.slave._parts()
        end = master.store.log.max_offset
        self.slave.wait_for(lambda _: slave.store.log.max_offset == end)
        master.flush_everything()
        done = self.timers_of(self.master)._state.curr_queue_offset
        state = self.timers_of(self.slave)._state
        self.slave.wait_for(lambda _: state.curr_queue_offset == done)

    def acts(self) -> bool:
        return self.timers_of(self.slave).should_running_dequeue

    def lose_master(self) -> None:
        self.master.crash()
        self.slave.wait_for(lambda _: self.acts())

    def return_master(self) -> None:
        self.master.restart()
        self.slave.wait_for(lambda _: not self.acts())
        self.master.wait_for(lambda _: self.timers_of(self.master).should_running_dequeue)

    def pass_time(self, seconds: float) -> None:
        """Let time pass for both, also for one that is down."""
        for broker in (self.master, self.slave):
            clock = broker.clock
            assert isinstance(clock, VirtualClock)
            clock.advance(seconds)

    def delivered(self) -> Counter[bytes]:
        """What came, and how often, on either broker."""
        mine = self.master.messages.in_topic("T") if self.master.is_running else []
        return Counter(one.body for one in [*self.other.messages.in_topic("T"), *mine])

    def elsewhere(self) -> list[bytes]:
        return sorted(one.body for one in self.other.messages.in_topic("T"))


Groups = Callable[..., Group]


def forget(broker: EmbeddedBroker, namesrv: WirePeer) -> None:
    """Let a name server take a broker for dead."""
    fields = {
        "brokerName": "broker-a",
        "brokerAddr": broker.addr,
        "clusterName": "DefaultCluster",
        "brokerId": "0",
    }
    assert namesrv.ask(RequestCode.UNREGISTER_BROKER, fields).code == ResponseCode.SUCCESS

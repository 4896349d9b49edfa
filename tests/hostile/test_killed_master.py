"""A master process is killed with timers in it: its slave delivers them elsewhere, each once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from attrs import frozen

from embedded_broker import EmbeddedBroker
from rocketmq_py import SystemClock
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.lenient_json import loads_lenient
from rocketmq_py.protocol.message_codec import MessageRecord
from tests.unit.embedded_broker.control.http_peer import HttpPeer
from tests.unit.embedded_broker.wire_peer import WirePeer, records
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
SERVE = [sys.executable, "-c", "from embedded_broker.cli import main; main()", "serve"]
CLOCK = SystemClock()
TOPIC, QUEUES, TIMERS = "T", 4, 40
STEP_MS, HOUR_MS = 250, 3_600_000
WAIT_S = 30.0


@frozen
class Process:
    """A broker of its own, as `rocketmq-py serve`."""

    pid: int
    address: str
    control: str

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def go_to(self, now_ms: int) -> None:
        """Move its clock; all that is due until then has left when this returns."""
        moment = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat()
        HttpPeer(self.control).post("/clock/jump", to=moment)

    def log_end(self) -> int:
        with WirePeer(self.address) as peer:
            answer = peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        return int(loads_lenient(answer.body)["table"]["commitLogMaxOffset"])


@contextmanager
def serving(
    store: Path, namesrv_addr: str, clock: str = "frozen", **settings: str
) -> Iterator[Process]:
    """Run a broker that is known to a name server of another process; its options are a file."""
    conf = store.with_suffix(".conf")
    options = {
        "namesrvAddr": namesrv_addr,
        "enableSlaveActingMaster": "true",
        "enableRemoteEscape": "true",
        "syncBrokerMemberGroupPeriod": "100",
        **settings,
    }
    conf.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    ports = ["--namesrv-port", "0", "--broker-port", "0", "--control-port", "0"]
    process = subprocess.Popen(
        [*SERVE, *ports, "--clock", clock, "--store", str(store), "-c", str(conf)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline() if process.stdout else ""
        assert line.startswith("ready "), line
        words = dict(word.split("=", 1) for word in line.split()[1:])
        yield Process(process.pid, words["broker"], words["control"])
    finally:
        process.kill()
        process.wait(20)
        if process.stdout is not None:
            process.stdout.close()


def members(other: EmbeddedBroker) -> dict[int, str]:
    """The brokers of the killed one's name, as the name server tells."""
    with WirePeer(other.namesrv_addr) as peer:
        fields = {"brokerName": "broker-a", "clusterName": "DefaultCluster"}
        answer = peer.ask(RequestCode.GET_BROKER_MEMBER_GROUP, fields)
    group = loads_lenient(answer.body)["brokerMemberGroup"]["brokerAddrs"]
    return {int(number): str(address) for number, address in group.items()}


def messages(address: str) -> list[MessageRecord]:
    """Every message of the topic at a broker."""
    found: list[MessageRecord] = []
    with WirePeer(address) as peer:
        for queue in range(QUEUES):
            offset = 0
            while True:
                fields = {"queueId": str(queue), "sysFlag": "4"}
                answer = peer.pull(TOPIC, offset, **fields)
                if answer.code != ResponseCode.SUCCESS:
                    break
                page = records(answer)
                found += page
                offset += len(page)
    return found


def by_due(found: list[MessageRecord]) -> list[MessageRecord]:
    """Sort what was found by its number."""
    return sorted(found, key=lambda one: int(one.body))


def send_timers(address: str, first_ms: int) -> dict[bytes, int]:
    """Send the timers; gives when each is due."""
    due_ms = {b"%d" % number: first_ms + number * STEP_MS for number in range(TIMERS)}
    with WirePeer(address) as peer:
        peer.create_topic(TOPIC, queues=QUEUES)
        for number, (body, at_ms) in enumerate(due_ms.items()):
            answer = peer.send(
                TOPIC, body, properties={"TIMER_DELIVER_MS": str(at_ms)}, e=str(number % QUEUES)
            )
            assert answer.code == ResponseCode.SUCCESS
    return due_ms


@pytest.mark.timeout(120)
def test_timers_of_a_killed_master_are_delivered_once_by_its_slave_until_it_is_back(
    tmp_path: Path,
) -> None:
    slave = {"brokerRole": "SLAVE", "brokerId": "1"}
    with EmbeddedBroker(broker_name="broker-b", topics=[TOPIC]) as other:
        with (
            serving(tmp_path / "slave", other.namesrv_addr, **slave) as follower,
            serving(tmp_path / "master", other.namesrv_addr, haListenPort="0") as master,
        ):
            until(lambda: members(other) == {0: master.address, 1: follower.address}, WAIT_S)
            first_ms = CLOCK.now_ms + HOUR_MS
            due_ms = send_timers(master.address, first_ms)
            until(lambda: follower.log_end() == master.log_end(), WAIT_S)
            master.kill()
            last_there = list(due_ms.values())[TIMERS // 3]
            follower.go_to(last_there)
            there_at_least = TIMERS // 3 + 1
            until(lambda: len(other.messages.in_topic(TOPIC)) >= there_at_least, WAIT_S)
            with serving(tmp_path / "master", other.namesrv_addr, haListenPort="0") as again:
                until(lambda: members(other).get(0) == again.address, WAIT_S)
                again.go_to(max(due_ms.values()))
                until(lambda: len(messages(again.address)) >= TIMERS - there_at_least, WAIT_S)
                until(lambda: follower.log_end() == again.log_end(), WAIT_S)
                follower.go_to(max(due_ms.values()))
                here = messages(again.address)
        there = messages(other.addr)
    assert [one.body for one in by_due(there)] == list(due_ms)[:there_at_least]
    assert [one.body for one in by_due(here)] == list(due_ms)[there_at_least:]
    assert all(one.store_timestamp == due_ms[one.body] for one in here)


@pytest.mark.timeout(60)
def test_a_process_that_only_delays_delivers_elsewhere(tmp_path: Path) -> None:
    with EmbeddedBroker(broker_name="broker-b", topics=[TOPIC]) as other:
        conf = {"escapeNamesrvAddr": other.namesrv_addr, "enableSlaveActingMaster": "false"}
        with (
            serving(tmp_path / "delays", "", "wall", **conf) as delays,
            WirePeer(delays.address) as peer,
        ):
            peer.create_topic(TOPIC, queues=QUEUES)
            soon = datetime.now(UTC) + timedelta(seconds=1)
            due_ms = int(soon.timestamp() * 1000)
            peer.send(TOPIC, b"due", properties={"TIMER_DELIVER_MS": str(due_ms)})
            until(lambda: len(other.messages.in_topic(TOPIC)) == 1)
        (found,) = messages(other.addr)
    assert found.store_timestamp >= due_ms

"""Clients that take without reading: what a broker holds for all of them together has a bound."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from rocketmq_py.clock import monotonic
from rocketmq_py.protocol.codes import PullSysFlag, RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.hostile.greedy import ROLES, dial, play
from tests.hostile.greedy_broker import GreedyBroker, greedy_broker
from tests.unit.embedded_broker.wire_peer import WirePeer, pull_fields

MIB = 1024 * 1024
LONG = 4_000_000
BUDGET = 64 * MIB
FRAME = 16 * MIB
GUARD_S = 60.0


def wait_for(broker: GreedyBroker, what: Callable[[dict[str, int]], bool]) -> dict[str, int]:
    """Ask until something is so."""
    end = monotonic() + GUARD_S
    while monotonic() < end:
        counts = broker.counts()
        if what(counts):
            return counts
    raise AssertionError(f"still {counts}")


def pulls(count: int, offset: int = 0, *, wait: bool = False) -> bytes:
    """Give so many pulls, as one piece of the stream."""
    flag = int(PullSysFlag.SUBSCRIPTION) | (int(PullSysFlag.SUSPEND) if wait else 0)
    fields = pull_fields("T", offset, sysFlag=str(flag), suspendTimeoutMillis="60000")
    return b"".join(
        RemotingCommand(RequestCode.PULL_MESSAGE, opaque, ext_fields=fields).encode()
        for opaque in range(1, count + 1)
    )


def is_closed(one: socket.socket) -> bool:
    """Read to the end of what came; say whether the broker ended it."""
    one.setblocking(False)
    try:
        while one.recv(1 << 20):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True


def test_slow_readers_of_long_answers_are_closed_when_all_together_leave_too_much() -> None:
    with (
        greedy_broker(unreadAnswersMaxBytes=BUDGET) as broker,
        WirePeer(broker.address) as other,
        ExitStack() as stack,
    ):
        for _ in range(4):
            assert other.send("T", b"x" * LONG).code == 0
        before = broker.counts()
        slow = [dial(stack, broker.address) for _ in range(20)]
        for number, one in enumerate(slow):
            for offset in range(4):
                one.sendall(pulls(3, offset=offset))
            assert other.send("T", b"small %d" % number, e="1").code == 0

        after = wait_for(broker, lambda counts: counts["closed"] > 0)
        assert after["most_unread"] <= BUDGET + 16 * MIB  # what one turn of one client adds
        assert after["rss"] - before["rss"] < 3 * BUDGET
        assert other.pull("T", 0).code == 0
        assert any(is_closed(one) for one in slow)


def test_unfinished_requests_of_all_clients_together_have_a_bound() -> None:
    with (
        greedy_broker(unfinishedRequestsMaxBytes=BUDGET) as broker,
        WirePeer(broker.address) as other,
        ExitStack() as stack,
    ):
        before = broker.counts()
        begun = (FRAME - 4).to_bytes(4, "big") + (100).to_bytes(4, "big")
        data = begun + bytes(FRAME - len(begun) - 1)
        for _ in range(40):
            one = dial(stack, broker.address)
            try:
                one.sendall(data)
            except ConnectionError:
                continue
            assert other.send("T").code == 0

        after = wait_for(broker, lambda counts: counts["closed"] >= 30)
        assert after["unfinished"] <= BUDGET
        assert after["most_unfinished"] <= BUDGET + MIB
        assert after["most_rss"] - before["rss"] < 3 * BUDGET
        assert other.send("T").code == 0


def test_one_long_message_for_hundreds_of_parked_readers_is_in_memory_once() -> None:
    with greedy_broker() as broker, WirePeer(broker.address) as other, ExitStack() as stack:
        parked = [dial(stack, broker.address) for _ in range(300)]
        for one in parked:
            one.sendall(pulls(1, wait=True))
        # Whoever comes after the message gets a copy of his own.
        before = wait_for(broker, lambda counts: counts["parked"] == len(parked))

        assert other.send("T", b"x" * LONG, e="0").code == 0
        after = broker.counts()

        assert after["closed"] == 0
        assert after["most_unread"] <= LONG + 2048 + 300 * 2 * 128 * 1024
        assert after["most_rss"] - before["rss"] < 300 * MIB
        for one in parked[30:]:
            one.close()
        for one in parked[:30]:
            wanted = LONG
            while wanted > 0:
                data = one.recv(1 << 20)
                assert data
                wanted -= len(data)
        left = wait_for(broker, lambda counts: counts["unread"] < 16 * MIB)
        assert left["rss"] - before["rss"] < 150 * MIB


def test_ordinary_clients_go_on_beside_all_greedy_ones() -> None:
    report = play(10)
    # How long requests take is judged by the whole program, on a machine that does nothing else.
    assert [one for one in report.missed() if not one.startswith("p99")] == [], str(report)
    assert {role.__name__ for role in ROLES} <= set(report.rounds), str(report)


@pytest.mark.parametrize("count", [150])
def test_long_messages_that_were_consumed_do_not_stay(count: int) -> None:
    with (
        greedy_broker(memoryStoreMaxBytes=256 * MIB) as broker,
        WirePeer(broker.address) as client,
    ):
        before = broker.counts()
        for number in range(count):
            assert client.send("T", b"x" * LONG, e="0").code == 0
            fields = {"commitOffset": str(number + 1), "sysFlag": "5"}
            assert client.pull("T", number, **fields).code == 0
        after = wait_for(broker, lambda counts: counts["stored"] < 200 * MIB)
        assert after["most_stored"] <= 256 * MIB
        assert after["rss"] - before["rss"] < 400 * MIB

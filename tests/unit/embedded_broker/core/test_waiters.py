"""The bookkeeping of waiting pulls, seen from inside."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.core import waiters
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import (
    Connect,
    WirePeer,
    bodies,
    pull_fields,
)


@pytest.fixture
def broker(start_broker: StartBroker) -> EmbeddedBroker:
    return start_broker(topics=["T"])


def park(peer: WirePeer, **fields: str) -> int:
    opaque = peer.post(RequestCode.PULL_MESSAGE, pull_fields("T", 0, **({"sysFlag": "6"} | fields)))
    peer.barrier()
    return opaque


def test_every_pull_that_waits_for_a_queue_is_woken(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    peers = [connect(broker.addr) for _ in range(3)]
    opaques = [park(peer) for peer in peers]
    core = broker._core()
    assert len(core.consume.waiters) == 3
    peers[0].send("T", b"new")
    answers = [peer.answer(opaque) for peer, opaque in zip(peers, opaques, strict=True)]
    assert [bodies(answer) for answer in answers] == [[b"new"]] * 3
    assert (len(core.consume.waiters), core.consume.waiters._waiting) == (0, {})


def test_an_answered_pull_leaves_no_timer_behind(broker: EmbeddedBroker, connect: Connect) -> None:
    peer = connect(broker.addr)
    core = broker._core()
    opaque = park(peer)
    peer.send("T")
    peer.answer(opaque)
    with core.door:
        waiting = [entry[2] for entry in core.session._heap if entry[2].call is not None]
    assert "long poll" not in {timer.what for timer in waiting}


def test_a_message_of_another_queue_wakes_nobody(broker: EmbeddedBroker, connect: Connect) -> None:
    peer = connect(broker.addr)
    opaque = park(peer)
    peer.send("T", e="1")
    assert not peer.has_answer(opaque)


def test_the_pulls_of_one_group_can_be_woken_without_a_message(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    mine, other = connect(broker.addr), connect(broker.addr)
    woken, waiting = park(mine), park(other, consumerGroup="others")
    core = broker._core()
    with core.door:
        core.consume.waiters.wake("consumers", "T", 1)
        core.consume.waiters.wake("consumers", "T", 0)
    assert mine.answer(woken).code == ResponseCode.PULL_NOT_FOUND
    assert not other.has_answer(waiting)
    assert len(core.consume.waiters) == 1


def test_a_pull_that_finds_no_room_to_wait_is_answered_at_once(
    broker: EmbeddedBroker, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiters, "PARKED_MAX", 1)
    peer = connect(broker.addr)
    waiting = park(peer)
    answer = peer.ask(RequestCode.PULL_MESSAGE, pull_fields("T", 0, sysFlag="6"))
    assert answer.code == ResponseCode.PULL_NOT_FOUND
    assert not peer.has_answer(waiting)


def test_a_pull_that_fails_when_it_runs_again_is_answered_1_and_hurts_nobody_else(
    broker: EmbeddedBroker,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer, other = connect(broker.addr), connect(broker.addr)
    opaque = park(peer)

    def broken(*_args: object, **_options: object) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(broker._core().store, "get", broken)
    assert other.send("T").code == 0
    answer = peer.answer(opaque)
    assert (answer.code, answer.remark) == (1, "RuntimeError: out of luck")
    assert "a parked pull of T failed" in caplog.text


def test_a_topic_that_may_no_longer_be_read_ends_the_wait_with_16(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    peer, admin = connect(broker.addr), connect(broker.addr)
    opaque = park(peer)
    admin.create_topic("T", queues=4, perm=2)
    admin.send("T")
    assert peer.answer(opaque).code == ResponseCode.NO_PERMISSION

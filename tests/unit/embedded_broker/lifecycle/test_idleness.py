"""What the broker sees of clients that it cannot ask, and what it asks of those that it can."""

from collections.abc import Iterator

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.lifecycle.idleness import Idleness
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.transport.inproc import SubscribedRoute
from tests.client_instances import AskedClient
from tests.unit.embedded_broker.remoting.handlers.pop.pop_requests import (
    ack,
    handle,
    hide_longer,
    pop,
    pop_fields,
)
from tests.unit.embedded_broker.wire_peer import WirePeer, consumer, pull_fields

GUARD_S = 30.0


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), topics=["T"], inproc=False) as broker:
        yield broker


@pytest.fixture
def peer(broker: EmbeddedBroker) -> Iterator[WirePeer]:
    with WirePeer(broker.addr) as peer:
        yield peer


def busy(broker: EmbeddedBroker, *groups: str) -> tuple[str, ...]:
    return broker.clock.settle(0, check=False, groups=groups or None).busy


def test_a_group_over_tcp_is_busy_until_it_has_committed_and_waits_for_more(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    first = broker.send("T", b"1", queue=0)
    second = broker.send("T", b"2", queue=0)
    peer.heartbeat("c1", consumer("g", {"T": "*"}))
    assert busy(broker) == (
        f"g: 2 of T queue 0 are not handed out yet, first message {first.msg_id} (client c1)",
    )

    peer.pull("T", 0, consumerGroup="g", maxMsgNums="1")
    assert busy(broker) == (
        f"g: 1 of T queue 0 are not handed out yet, first message {second.msg_id} (client c1)",
    )

    peer.pull("T", 1, consumerGroup="g", maxMsgNums="1")
    assert busy(broker) == ("g: no pull waits at T queue 0 (client c1)",)

    fields = pull_fields("T", 2, consumerGroup="g", sysFlag="6", suspendTimeoutMillis="60000")
    peer.post(RequestCode.PULL_MESSAGE, fields)
    broker.wait_for(lambda b: len(b._parts().consume.waiters) == 1, timeout=GUARD_S)
    assert busy(broker) == (
        f"g: message {first.msg_id} of T queue 0 is handed out but not committed (client c1)",
    )
    assert busy(broker, "another") == ()

    commit = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "2"}
    assert peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit).code == 0
    assert busy(broker) == ()

    peer.close()
    broker.wait_for(lambda b: b._parts().tables.consumers.get("g") is None, timeout=GUARD_S)
    broker.send("T", b"3", queue=0)
    assert busy(broker) == ()


def test_a_group_that_pops_is_busy_until_it_has_acked_or_put_off_what_it_got(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    sent = [broker.send("T", b"%d" % number, queue=0) for number in range(2)]
    peer.heartbeat("c1", consumer("G", {"T": "*"}))
    answer = pop(peer)
    peer.post(RequestCode.POP_MESSAGE, pop_fields(pollTime="60000"))
    broker.wait_for(lambda b: len(b._parts().consume.waiters) == 1, timeout=GUARD_S)
    assert busy(broker) == tuple(
        f"G: message {one.msg_id} of T queue 0 is popped but not acked (client c1)" for one in sent
    )
    assert ack(peer, handle(answer, 0), 0).code == 0
    assert len(busy(broker)) == 1
    assert hide_longer(peer, handle(answer, 1), 1).code == 0
    assert busy(broker) == ()
    broker.clock.advance(10)
    assert len(busy(broker)) > 0


def test_what_a_client_had_popped_when_it_left_is_in_nobodys_hand(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    broker.send("T", b"1", queue=0)
    with WirePeer(broker.addr) as other:
        other.heartbeat("c2", consumer("G", {"T": "*"}))
        pop(other)
        peer.heartbeat("c1", consumer("G", {"T": "*"}))
        peer.post(RequestCode.POP_MESSAGE, pop_fields(pollTime="60000"))
        broker.wait_for(lambda b: len(b._parts().consume.waiters) == 1, timeout=GUARD_S)
        assert len(busy(broker)) == 1
    broker.wait_for(lambda _: busy(broker) == (), timeout=GUARD_S)


def test_what_the_tags_of_a_group_leave_out_is_not_waited_for(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    peer.heartbeat("c1", consumer("g", {"T": "paid"}))
    fields = pull_fields(
        "T", 0, consumerGroup="g", sysFlag="6", suspendTimeoutMillis="60000", subscription="paid"
    )
    peer.post(RequestCode.PULL_MESSAGE, fields)
    broker.wait_for(lambda b: len(b._parts().consume.waiters) == 1, timeout=GUARD_S)
    broker.send("T", b"no", tags="new", queue=0)
    assert busy(broker) == ()
    wanted = broker.send("T", b"yes", tags="paid", queue=0)
    assert busy(broker) == ("g: no pull waits at T queue 0 (client c1)",)
    assert wanted.queue_offset == 1


def test_an_empty_topic_must_be_joined_and_an_unknown_one_is_nothing_to_do(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    peer.heartbeat("c1", consumer("g", {"T": "*", "nowhere": "*"}))
    assert busy(broker) == ("g: no pull waits at any queue of T yet (client c1)",)

    peer.pull("T", 0, consumerGroup="g")
    assert busy(broker) == ()


def test_a_group_that_begins_where_it_had_come_to_has_nothing_unread(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    broker.send("T", b"1", queue=0)
    commit = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "1"}
    peer.heartbeat("c1", consumer("g", {"T": "*"}))
    peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
    assert busy(broker) == ("g: no pull waits at T queue 0 (client c1)",)


def test_members_of_a_broadcasting_group_commit_nothing(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    broker.send("T", b"1", queue=0)
    peer.heartbeat("c1", consumer("g", {"T": "*"}, message_model="BROADCASTING"))
    peer.pull("T", 0, consumerGroup="g")
    assert busy(broker) == ()


def test_what_is_due_and_not_fired_yet_counts(broker: EmbeddedBroker) -> None:
    idleness = broker._node()._idleness
    before = idleness.door.entries
    broker.send("T", b"later", delay=5)
    assert idleness.door.entries > before
    assert list(idleness.busy(None)) == []

    clock = broker._arguments.clock
    assert isinstance(clock, VirtualClock)
    clock._set(clock.now_ms + 10_000)  # as a flowing clock is before its thread has woken
    (reason,) = idleness.busy(None)
    assert reason.endswith("is due")
    clock.advance(0)
    assert list(idleness.busy(None)) == []


@pytest.mark.parametrize(
    ("topic", "brokers", "looks"),
    [
        ("T", None, True),
        ("T", {"a-broker-that-left"}, True),
        ("T", {"broker-a"}, False),
        ("Missing", None, False),
        ("Missing", {"broker-a"}, False),
    ],
    ids=["no route", "an old route", "the route", "no topic", "a topic that was deleted"],
)
def test_a_client_looks_at_its_routes_where_it_lacks_that_of_a_topic_that_exists(
    broker: EmbeddedBroker, topic: str, brokers: set[str] | None, looks: bool
) -> None:
    client = AskedClient()
    known = None if brokers is None else frozenset(brokers)
    client.routes = [SubscribedRoute("G", topic, known)]
    (resident,) = broker.clock.residents()
    assert isinstance(resident, Idleness)
    resident._clients.enter(client, "asked")

    resident.hasten()

    assert (client.hastened, client.looked) == (1, looks)
    assert bool(busy(broker)) == looks

"""Offsets of a group get to the brokers, and a broker that does not listen costs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from embedded_broker import EmbeddedBroker, EmbeddedCluster, TopicSpec, VirtualClock
from rocketmq_py import MessageQueue, MQBrokerException, QueueAccess
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from spark_connector.planning.group_offsets import GroupProgress, store_group_offset
from spark_connector.servers.back_off import in_background

A, B = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-b", 0)
GUARD_S = 30.0
LATE_S = 60


@pytest.fixture
def session() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def cluster(session: VirtualClock) -> Iterator[EmbeddedCluster]:
    topics = [TopicSpec("T", queues=1)]
    with EmbeddedCluster(brokers=2, session_clock=session, topics=topics) as started:
        yield started


@pytest.fixture
def access(cluster: EmbeddedCluster) -> Iterator[QueueAccess]:
    server = cluster.namesrv_addr
    with QueueAccess(namesrv_addr=server, mq_client_api_timeout=30_000) as started:
        started.read_queues("T")
        for queue in (A, B):  # the brokers have met the group
            started.pull(queue, 0, group="G").result(GUARD_S)
        yield started


@pytest.mark.case("SP54")
def test_a_broker_that_does_not_listen_delays_nobody_and_hears_the_newest_later(
    cluster: EmbeddedCluster, access: QueueAccess, session: VirtualClock
) -> None:
    one, two = cluster.brokers
    progress = GroupProgress(access, "G")
    progress._patience_s = 0.0
    held = two.faults.on(RequestCode.UPDATE_CONSUMER_OFFSET).always().delay(LATE_S)

    def tell(offset: int) -> bool:
        progress.tell({A: offset, B: offset}, {A, B})
        return progress._stored.get(A) == offset

    for offset in range(1, 6):
        one.wait_for(partial(lambda n, _b: tell(n), offset), timeout=GUARD_S)
        assert access.group_offset("G", A) == offset
    two.wait_for(lambda _b: held.hits == 1, timeout=GUARD_S)
    assert access.group_offset("G", B) is None
    cluster["broker-b"].faults.clear()
    session.advance(LATE_S)
    two.wait_for(lambda _b: tell(5) and progress._stored.get(B) == 5, timeout=GUARD_S)
    assert access.group_offset("G", B) == 5
    updates = two.journal.requests(code=RequestCode.UPDATE_CONSUMER_OFFSET)
    assert len([entry for entry in updates if entry.endpoint == "broker-b"]) == 2


@pytest.mark.case("SP54")
def test_at_the_end_the_newest_offsets_follow_those_that_are_under_way(
    cluster: EmbeddedCluster, access: QueueAccess, session: VirtualClock
) -> None:
    two = cluster["broker-b"]
    progress = GroupProgress(access, "G")
    progress._patience_s = 0.0
    held = two.faults.on(RequestCode.UPDATE_CONSUMER_OFFSET).delay(LATE_S)
    progress.tell({B: 1}, {B})
    two.wait_for(lambda _b: held.hits == 1, timeout=GUARD_S)
    progress._patience_s = GUARD_S
    end = in_background(lambda: progress.finish({B: 2}, {B}))
    session.advance(LATE_S)
    end.result(GUARD_S)
    assert access.group_offset("G", B) == 2


def test_a_group_that_the_broker_has_not_met_is_introduced_once() -> None:
    with (
        EmbeddedBroker(topics=["T"]) as broker,
        QueueAccess(namesrv_addr=broker.namesrv_addr) as access,
    ):
        queue = access.read_queues("T")[0]
        for offset in (3, 4):
            store_group_offset(access, "G", queue, offset)
            assert access.group_offset("G", queue) == offset
        assert len(broker.journal.requests(code=RequestCode.PULL_MESSAGE)) == 1


def test_other_refusals_are_passed_on() -> None:
    with (
        EmbeddedBroker(topics=["T"], config={"autoCreateSubscriptionGroup": False}) as broker,
        QueueAccess(namesrv_addr=broker.namesrv_addr) as access,
    ):
        queue = access.read_queues("T")[0]
        with pytest.raises(MQBrokerException, match="26"):
            store_group_offset(access, "G", queue, 3)
        refused = broker.faults.on(RequestCode.UPDATE_CONSUMER_OFFSET)
        refused.respond(ResponseCode.NO_PERMISSION)
        with pytest.raises(MQBrokerException, match="16"):
            store_group_offset(access, "G", queue, 3)

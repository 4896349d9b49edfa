"""However many queues there are, brokers are asked about all of them in one round or two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from embedded_broker import EmbeddedCluster, TopicSpec, VirtualClock
from embedded_broker.remoting.request_faults import Fault
from embedded_broker.settings.profiles import ProfileName
from rocketmq_py import MessageQueue, QueueAccess, TopicNotExistError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from spark_connector.options.read_options import ReadOptions, read_options
from spark_connector.planning.group_offsets import GroupProgress
from spark_connector.planning.start_places import bounds_of, resolve
from spark_connector.planning.whole_topics import whole_bounds
from spark_connector.servers.back_off import in_background

GUARD_S = 30.0
LATE_S = 60
QUEUES = 40
"""Of each of two brokers."""


@pytest.fixture
def session() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(params=["rocketmq-5.x", "rocketmq-4.9"])
def cluster(request: pytest.FixtureRequest, session: VirtualClock) -> Iterator[EmbeddedCluster]:
    profile: ProfileName = request.param
    topics = [TopicSpec("T", queues=QUEUES)]
    with EmbeddedCluster(
        brokers=2, session_clock=session, topics=topics, profile=profile
    ) as started:
        yield started


@pytest.fixture
def access(cluster: EmbeddedCluster) -> Iterator[QueueAccess]:
    server = cluster.namesrv_addr
    with QueueAccess(namesrv_addr=server, mq_client_api_timeout=30_000) as started:
        yield started


def options(**given: str) -> ReadOptions:
    return read_options({"nameServer": "h:1", "subscribe": "T"} | given, streaming=False)


def hit(fault: Fault, count: int, _broker: object) -> bool:
    return fault.hits == count


def rounds(
    cluster: EmbeddedCluster,
    session: VirtualClock,
    asked: dict[RequestCode, int],
    work: Callable[[], object],
) -> object:
    """Do some work while each broker answers a code only when it was asked so often, no sooner."""
    held = {
        code: [one.faults.on(code).always().delay(LATE_S) for one in cluster.brokers]
        for code in asked
    }
    result = in_background(work)
    for code, count in asked.items():
        for one, fault in zip(cluster.brokers, held[code], strict=True):
            one.wait_for(partial(hit, fault, count), timeout=GUARD_S)
        session.advance(LATE_S)
    return result.result(GUARD_S)


@pytest.mark.case("SP5")
def test_the_offsets_of_a_time_take_two_rounds(
    cluster: EmbeddedCluster, access: QueueAccess, session: VirtualClock
) -> None:
    for one in cluster.brokers:
        for queue in range(QUEUES):
            one.send("T", b"x", queue=queue)
    moment = options(startingTimestamp=str(session.now_ms))
    bounds = bounds_of(access, moment)
    found = rounds(
        cluster,
        session,
        {RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: QUEUES, RequestCode.PULL_MESSAGE: QUEUES},
        lambda: resolve(access, moment, moment.start, bounds, is_end=False),
    )
    assert found == dict.fromkeys(bounds, 0)


def test_the_offsets_of_a_group_take_one_round(
    cluster: EmbeddedCluster, access: QueueAccess, session: VirtualClock
) -> None:
    group = options(startingOffsets="group:latest", groupId="G")
    bounds = bounds_of(access, group)
    found = rounds(
        cluster,
        session,
        {RequestCode.QUERY_CONSUMER_OFFSET: QUEUES},
        lambda: resolve(access, group, group.start, bounds, is_end=False),
    )
    assert found == dict.fromkeys(bounds, 0)


def test_bounds_take_one_round(
    cluster: EmbeddedCluster, access: QueueAccess, session: VirtualClock
) -> None:
    found = rounds(
        cluster,
        session,
        {RequestCode.GET_TOPIC_STATS_INFO: 1},
        lambda: bounds_of(access, options()),
    )
    assert isinstance(found, dict)
    assert len(found) == 2 * QUEUES


def test_to_know_that_many_topics_are_whole_takes_one_round(
    cluster: EmbeddedCluster, access: QueueAccess, session: VirtualClock
) -> None:
    for one in cluster.brokers:
        one.topics.create("U", queues=QUEUES)
    wanted = options(subscribe="T,U")
    found = rounds(
        cluster,
        session,
        {RequestCode.GET_TOPIC_STATS_INFO: 2},
        lambda: whole_bounds(access, wanted),
    )
    assert isinstance(found, dict)
    assert len(found) == 4 * QUEUES


@pytest.mark.case("SP54")
def test_the_offsets_of_a_batch_are_stored_in_two_rounds(
    cluster: EmbeddedCluster, access: QueueAccess, session: VirtualClock
) -> None:
    queues = access.read_queues("T")
    access.pull(queues[0], 0, group="G").result(GUARD_S)
    access.pull(queues[-1], 0, group="G").result(GUARD_S)
    progress = GroupProgress(access, "G")
    progress._patience_s = GUARD_S
    held = [
        one.faults.on(RequestCode.UPDATE_CONSUMER_OFFSET).always().delay(LATE_S)
        for one in cluster.brokers
    ]
    told = in_background(lambda: progress.tell(dict.fromkeys(queues, 7), set(queues)))
    for count in (1, QUEUES):
        for one, fault in zip(cluster.brokers, held, strict=True):
            one.wait_for(partial(hit, fault, count), timeout=GUARD_S)
        session.advance(LATE_S)
    told.result(GUARD_S)
    assert access.group_offsets("G", queues) == dict.fromkeys(queues, 7)


def test_a_topic_whose_offsets_are_refused_keeps_no_other_one_from_being_told(
    cluster: EmbeddedCluster, access: QueueAccess
) -> None:
    refused: list[Fault] = []
    for one in cluster.brokers:
        one.topics.create("U", queues=2)
        fault = one.faults.on(RequestCode.UPDATE_CONSUMER_OFFSET, topic="U").always()
        refused.append(fault.respond(ResponseCode.SYSTEM_BUSY))
    lost, told = access.read_queues("U"), access.read_queues("T")
    access.pull(told[0], 0, group="G").result(GUARD_S)
    access.pull(told[-1], 0, group="G").result(GUARD_S)
    progress = GroupProgress(access, "G")
    progress._patience_s = GUARD_S
    progress.tell(dict.fromkeys([*lost, *told], 7), {*lost, *told})
    assert access.group_offsets("G", told) == dict.fromkeys(told, 7)
    assert access.group_offsets("G", lost) == dict.fromkeys(lost)
    assert [one.hits for one in refused] == [1, 1]


def test_what_fails_for_one_queue_is_said_of_it_alone(
    cluster: EmbeddedCluster, access: QueueAccess
) -> None:
    good, lost = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-z", 0)
    access.read_queues("T")
    found = access.search_offsets({good: 1, lost: 1})
    assert found[good] == 0
    assert not isinstance(found[lost], int)
    assert access.messages_at([(good, 0)]) == {(good, 0): None}
    stored = access.store_group_offsets("G", {lost: 1})
    assert stored[lost] is not None
    (unknown,) = access.bounds_of(["Unknown"], "broker-a").values()
    assert isinstance(unknown, TopicNotExistError)

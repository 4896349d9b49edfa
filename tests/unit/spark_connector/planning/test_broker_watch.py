"""Brokers are asked side by side: who is slow or away keeps nobody waiting."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial

import pytest

from embedded_broker import EmbeddedCluster, TopicSpec, VirtualClock
from rocketmq_py import MessageQueue, QueueAccess
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from spark_connector.frames.lag import lag
from spark_connector.options.read_options import read_options
from spark_connector.planning.backlog import Limit
from spark_connector.planning.stream_offset import StreamOffset
from spark_connector.planning.tracker import Tracker
from spark_connector.servers.back_off import in_background

ANY = Limit()
GUARD_S = 30.0
LATE_S = 60
"""After this time of the session clock a held request is answered."""


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
        yield started


def tracker(access: QueueAccess, **options: object) -> Tracker:
    given = {"nameServer": "h:1", "subscribe": "T", "startingOffsets": "earliest"}
    given |= {"offsetPollIntervalMs": "1", "missingQueueGraceMs": "600000"}
    given |= {name: str(value) for name, value in options.items()}
    if "assign" in given:
        del given["subscribe"]
    return Tracker(access, read_options(given, streaming=True))


def past(end: StreamOffset | None, broker: str) -> int | None:
    return None if end is None else end.topics.get(MessageQueue("T", broker, 0))


@pytest.mark.case("SP51")
def test_a_broker_that_falls_silent_keeps_the_news_of_the_others_from_nobody(
    cluster: EmbeddedCluster, access: QueueAccess, session: VirtualClock
) -> None:
    one, two = cluster.brokers
    made = tracker(access)
    made._watch._patience_s = 0.01
    begin = made.initial()
    held = two.faults.on(RequestCode.GET_TOPIC_STATS_INFO).always().delay(LATE_S)
    two.send("T", b"y", queue=0)
    for count in range(1, 6):
        one.send("T", b"x", queue=0)
        one.wait_for(partial(lambda n, _b: past(made.latest(begin, ANY), "broker-a") == n, count))
    # It is still asked for the first time, and its queue stands where it was seen last.
    two.wait_for(lambda _b: held.hits == 1)
    assert past(made.latest(begin, ANY), "broker-b") == 0
    assert len(made._watch._looks) == 1
    cluster["broker-b"].faults.clear()
    session.advance(LATE_S)
    one.wait_for(lambda _b: past(made.latest(begin, ANY), "broker-b") == 1)


@pytest.mark.case("SP51")
def test_a_broker_that_failed_is_asked_again_without_anybody_waiting_for_it(
    cluster: EmbeddedCluster,
    access: QueueAccess,
    session: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = cluster.brokers
    made = tracker(access, offsetPollIntervalMs=1_000)
    made._watch._patience_s, made._watch._recheck_s = GUARD_S, 0.0
    begin = made.initial()
    now = 1_000.0
    for module in ("planning.tracker", "planning.broker_watch", "servers.back_off"):
        monkeypatch.setattr(f"spark_connector.{module}.monotonic", lambda: now)
    made._watch.asked_at = now
    busy = two.faults.on(RequestCode.GET_TOPIC_STATS_INFO).always()
    busy.respond(ResponseCode.SYSTEM_BUSY)
    now += 2
    made.latest(begin, ANY)
    assert made._watch._away.holds(("", "broker-b"))
    two.faults.clear()
    held = two.faults.on(RequestCode.GET_TOPIC_STATS_INFO).always().delay(LATE_S)
    one.send("T", b"x", queue=0)
    two.send("T", b"y", queue=0)
    now += 2
    assert past(made.latest(begin, ANY), "broker-a") == 1
    two.wait_for(lambda _b: held.hits == 1)
    for count in range(2, 6):  # one probe at a time, however long it takes
        one.send("T", b"x", queue=0)
        now += 2
        assert past(made.latest(begin, ANY), "broker-a") == count
    assert held.hits == 1
    session.advance(LATE_S)
    # The late answer counts at the next call, before the next look is due.
    one.wait_for(lambda _b: past(made.latest(begin, ANY), "broker-b") == 1)
    assert held.hits == 1


@pytest.mark.case("SP42", "SP48")
def test_the_first_look_of_a_run_waits_for_every_broker(
    cluster: EmbeddedCluster, access: QueueAccess, session: VirtualClock
) -> None:
    one, two = cluster.brokers
    one.send("T", b"x", queue=0)
    two.send("T", b"y", queue=0)
    made = tracker(access)
    made._watch._patience_s = made._watch._recheck_s = 0.0
    held = two.faults.on(RequestCode.GET_TOPIC_STATS_INFO).always().delay(LATE_S)
    start = StreamOffset({MessageQueue("T", "broker-a", 0): 0, MessageQueue("T", "broker-b", 0): 0})
    end: Future[StreamOffset | None] = in_background(lambda: made.latest(start, ANY))
    two.wait_for(lambda _b: held.hits == 1)
    session.advance(LATE_S)
    found = end.result(GUARD_S)
    assert (past(found, "broker-a"), past(found, "broker-b")) == (1, 1)


@pytest.mark.case("SP55")
@pytest.mark.parametrize("assign", ["", '{"T":{"broker-a":[0],"broker-b":[0]}}'])
def test_a_broker_that_is_lost_does_not_make_the_lag_smaller(
    cluster: EmbeddedCluster, access: QueueAccess, assign: str
) -> None:
    one, two = cluster.brokers
    one.topics.create("T", queues=2)
    for _ in range(3):
        one.send("T", b"x", queue=0)
        one.send("T", b"x", queue=1)
        two.send("T", b"y", queue=0)
    made = tracker(access, **({"assign": assign} if assign else {}))
    made._watch._wait_s, made._watch._patience_s = 0.0, GUARD_S
    begin = made.initial()
    before = made.ends()
    two.faults.on(RequestCode.GET_TOPIC_STATS_INFO).always().respond(ResponseCode.SYSTEM_BUSY)
    end = made.latest(begin, ANY)
    assert past(end, "broker-b") == 0  # away
    assert end is not None
    ends = made.ends()
    assert ends == before
    assert ends is not None
    behind = lag({"sources": [{"endOffset": end.to_json(), "latestOffset": ends.to_json()}]})
    expected = {("T", "broker-a", 0): 0, ("T", "broker-b", 0): 3}
    assert behind == expected | ({} if assign else {("T", "broker-a", 1): 0})


def test_a_queue_that_the_stream_has_given_up_is_no_lag_for_ever(
    cluster: EmbeddedCluster, access: QueueAccess
) -> None:
    cluster["broker-b"].send("T", b"y", queue=0)
    made = tracker(access, missingQueueGraceMs=0, failOnDataLoss="false")
    made._watch._wait_s, made._watch._patience_s = 0.0, GUARD_S
    begin = StreamOffset(made.initial().topics)
    busy = cluster["broker-b"].faults.on(RequestCode.GET_TOPIC_STATS_INFO).always()
    busy.respond(ResponseCode.SYSTEM_BUSY)
    made.latest(begin, ANY)
    ends = made.ends()
    assert ends is not None
    assert {queue.broker_name for queue in ends.topics} == {"broker-a"}


def test_a_failure_on_another_thread_belongs_to_who_waits() -> None:
    def fail() -> None:
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        in_background(fail).result(GUARD_S)


@pytest.mark.case("SP49", "SP51")
def test_a_name_server_that_falls_silent_keeps_the_news_of_the_brokers_from_nobody(
    cluster: EmbeddedCluster, access: QueueAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tracker(access, routeRefreshMs=1)
    made._watch._wait_s = made._watch._patience_s = made._watch._hurried_s = 0.0
    begin = made.initial()
    one = cluster.brokers[0]
    one.send("T", b"x", queue=0)
    one.wait_for(lambda _b: past(made.latest(begin, ANY), "broker-a") == 1)
    is_asked, may_answer = threading.Event(), threading.Event()
    ask = access.read_queues_of

    def read_queues_of(topics: Iterable[str]) -> Mapping[str, object]:
        is_asked.set()
        assert may_answer.wait(GUARD_S)
        return ask(topics)

    monkeypatch.setattr(access, "read_queues_of", read_queues_of)
    one.wait_for(lambda _b: made.latest(begin, ANY) is not None and is_asked.is_set())
    one.send("T", b"x", queue=0)
    one.wait_for(lambda _b: past(made.latest(begin, ANY), "broker-a") == 2)
    may_answer.set()

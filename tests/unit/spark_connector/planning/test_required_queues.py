"""What a stream says of brokers and queues that the options require and nobody remembers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from embedded_broker import EmbeddedCluster, TopicSpec, VirtualClock
from rocketmq_py import MQClientException, QueueAccess
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from spark_connector.errors import RocketMQDataLossError
from spark_connector.options.positions import user_positions
from spark_connector.planning.backlog import Limit
from spark_connector.planning.stream_offset import StreamOffset
from spark_connector.planning.tracker import Tracker
from tests.unit.spark_connector.planning.by_hand import HandClock, set_clock, tracker

ANY = Limit()
LOOK = RequestCode.GET_TOPIC_STATS_INFO
BROKERS = {"requiredBrokers": "broker-a,broker-b"}
QUEUES = {"requiredQueues": "4"}
BOTH = pytest.mark.parametrize(
    ("required", "text"),
    [
        (BROKERS, r"topic T, broker broker-b \(requiredBrokers\)"),
        (QUEUES, r"topic T: 2 of 4 queues \(requiredQueues\)"),
    ],
    ids=["brokers", "queues"],
)


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    topics = [TopicSpec("T", queues=2)]
    with EmbeddedCluster(brokers=2, clock=VirtualClock(), topics=topics) as started:
        yield started


@pytest.fixture
def access(cluster: EmbeddedCluster) -> Iterator[QueueAccess]:
    with QueueAccess(namesrv_addr=cluster.namesrv_addr, mq_client_api_timeout=3_000) as started:
        yield started


@pytest.fixture
def hand_clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    clock = HandClock()
    set_clock(monkeypatch, clock)
    return clock


def without_b() -> StreamOffset:
    """A checkpoint that has met the first broker only."""
    return StreamOffset(user_positions("places", {"T": {"broker-a": {0: 0, 1: 0}}}, low=0))


class Query:
    """A stream that goes on from a checkpoint, batch after batch."""

    def __init__(self, made: Tracker, clock: HandClock, begin: StreamOffset) -> None:
        self.tracker = made
        self._clock = clock
        self._at = begin

    def after(self, seconds: float) -> dict[str, int]:
        """Return how many messages of each broker the next batch has, so much later."""
        self._clock.advance(seconds)
        end = self.tracker.latest(self._at, ANY)
        found: dict[str, int] = {}
        if end is not None:
            for one in self._at.ranges(end):
                found[one.broker_name] = found.get(one.broker_name, 0) + one.until - one.start
            self._at = StreamOffset.from_json(end.to_json())  # as Spark keeps it
        return found


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for text in caplog.messages if "going on without them" in text]


@BOTH
def test_a_stream_reads_on_and_fails_when_what_is_required_is_away_for_the_grace(
    cluster: EmbeddedCluster,
    access: QueueAccess,
    hand_clock: HandClock,
    required: dict[str, str],
    text: str,
) -> None:
    cluster.stop("broker-b")
    made = tracker(access, missingQueueGraceMs=60_000, **required)
    query = Query(made, hand_clock, without_b())
    assert query.after(1) == {}
    for _ in range(5):
        cluster["broker-a"].send("T", b"x")
        assert query.after(10) == {"broker-a": 1}
        assert query.after(0) == {}
    assert query.after(9.5) == {}
    assert made._idle is not None  # also a stream with nothing to read must tell
    grace = r"have been missing for 60000 ms \(missingQueueGraceMs\)"
    for _ in range(2):  # a loss stays one, however often it is asked for
        with pytest.raises(RocketMQDataLossError, match=f"{grace}: {text}; set failOnDataLoss"):
            query.after(1)


@BOTH
def test_a_tolerant_stream_says_once_for_each_absence_what_it_goes_on_without(
    cluster: EmbeddedCluster,
    access: QueueAccess,
    hand_clock: HandClock,
    caplog: pytest.LogCaptureFixture,
    required: dict[str, str],
    text: str,
) -> None:
    cluster.stop("broker-b")
    given = {"missingQueueGraceMs": 60_000, "failOnDataLoss": "false"} | required
    query = Query(tracker(access, **given), hand_clock, without_b())
    for number in range(10):
        cluster["broker-a"].send("T", b"x")
        assert query.after(10) == {"broker-a": 1}
        assert len(told(caplog)) == (number >= 6)
    assert re.search(f"60000 ms .*: {text}; going on", told(caplog)[0])
    cluster.start("broker-b")
    cluster["broker-b"].send("T", b"y")
    assert query.after(1) == {"broker-b": 1}
    cluster.stop("broker-b")
    query.after(1)
    query.after(59)
    assert len(told(caplog)) == 1
    query.after(2)
    query.after(2)
    assert len(told(caplog)) == 2


def test_a_broker_that_was_read_to_its_end_must_be_there_when_it_is_required(
    cluster: EmbeddedCluster, access: QueueAccess, hand_clock: HandClock
) -> None:
    cluster["broker-b"].send("T", b"y")
    given = {"missingQueueGraceMs": 60_000}
    usual, strict = tracker(access, **given), tracker(access, **given, **BROKERS)
    queries = [Query(one, hand_clock, one.initial()) for one in (usual, strict)]
    assert [query.after(1) for query in queries] == 2 * [{"broker-b": 1}]
    cluster.stop("broker-b")
    assert [query.after(1) for query in queries] == 2 * [{}]
    assert queries[0].after(61) == {}  # nothing is lost that anybody knows of
    with pytest.raises(RocketMQDataLossError, match=r"broker-b \(requiredBrokers\)"):
        queries[1].after(0)


@BOTH
def test_the_grace_begins_anew_when_what_is_required_was_there_meanwhile(
    cluster: EmbeddedCluster,
    access: QueueAccess,
    hand_clock: HandClock,
    required: dict[str, str],
    text: str,
) -> None:
    cluster.stop("broker-b")
    made = tracker(access, missingQueueGraceMs=60_000, **required)
    query = Query(made, hand_clock, without_b())
    query.after(1)
    query.after(50)
    cluster.start("broker-b")
    query.after(1)
    cluster.stop("broker-b")
    query.after(1)
    assert query.after(59) == {}
    with pytest.raises(RocketMQDataLossError, match=text):
        query.after(2)


@BOTH
def test_what_is_back_when_the_grace_ends_is_found_though_routes_are_asked_for_later(
    cluster: EmbeddedCluster,
    access: QueueAccess,
    hand_clock: HandClock,
    required: dict[str, str],
    text: str,
) -> None:
    cluster.stop("broker-b")
    given = {"missingQueueGraceMs": 10_000, "routeRefreshMs": 600_000} | required
    query = Query(tracker(access, **given), hand_clock, without_b())
    assert query.after(1) == {}
    cluster.start("broker-b")
    cluster["broker-b"].send("T", b"y")
    assert query.after(9) == {}  # nobody has asked for the route since
    assert query.after(2) == {"broker-b": 1}, text


@BOTH
@pytest.mark.parametrize("fail_on_loss", ["true", "false"])
def test_a_required_broker_that_refuses_all_the_time_is_told_as_that(
    cluster: EmbeddedCluster,
    access: QueueAccess,
    hand_clock: HandClock,
    required: dict[str, str],
    text: str,
    fail_on_loss: str,
) -> None:
    refused = cluster["broker-b"].faults.on(LOOK).always()
    refused.respond(ResponseCode.NO_PERMISSION, "the key was revoked")
    given = {"missingQueueGraceMs": 60_000, "failOnDataLoss": fail_on_loss} | required
    query = Query(tracker(access, **given), hand_clock, without_b())
    assert query.after(1) == query.after(59) == {}
    expected = f"broker-b has refused for 60000 ms .* topic T; missing is {text}; .*revoked"
    with pytest.raises(MQClientException, match=expected) as caught:
        query.after(2)
    assert caught.value.response_code == ResponseCode.NO_PERMISSION


@BOTH
def test_a_loss_of_what_is_required_says_how_its_broker_failed_last(
    cluster: EmbeddedCluster,
    access: QueueAccess,
    hand_clock: HandClock,
    required: dict[str, str],
    text: str,
) -> None:
    busy = cluster["broker-b"].faults.on(LOOK).always()
    busy.respond(ResponseCode.SYSTEM_BUSY, "too much to do")
    query = Query(tracker(access, missingQueueGraceMs=5_000, **required), hand_clock, without_b())
    assert query.after(1) == {}
    with pytest.raises(RocketMQDataLossError, match=rf"{text} \(.*too much to do.*\); set fail"):
        query.after(6)


def test_queues_that_are_not_assigned_are_there_all_the_same(
    cluster: EmbeddedCluster, access: QueueAccess, hand_clock: HandClock
) -> None:
    given = {"assign": '{"T":{"broker-a":[0]}}'} | BROKERS | QUEUES
    one = tracker(access, **given)
    one._watch._wait_s = 60.0  # the first look of a start serves for a while
    query = Query(one, hand_clock, one.initial())
    cluster["broker-a"].journal.clear()
    assert query.after(0) == {}
    assert not cluster["broker-a"].journal.requests(code=LOOK)
    again = Query(tracker(access, **given), hand_clock, without_b())
    assert again.after(0) == again.after(1) == {}
    cluster.stop("broker-b")
    with pytest.raises(RocketMQDataLossError, match=r"broker-b \(requiredB.*; topic T: 2 of 4"):
        again.after(1)


def test_topics_that_a_pattern_does_not_find_now_must_have_what_is_required(
    cluster: EmbeddedCluster, access: QueueAccess, hand_clock: HandClock
) -> None:
    given = {"subscribePattern": "T|U", "requiredBrokers": '{"U":["broker-b"],"W":["broker-b"]}'}
    with pytest.raises(RocketMQDataLossError, match=r"\): topic U, broker broker-b \(requiredB"):
        Query(tracker(access, **given), hand_clock, without_b()).after(0)
    cluster["broker-b"].topics.create("U", queues=1)
    assert Query(tracker(access, **given), hand_clock, without_b()).after(0) == {}
    each = tracker(access, subscribePattern="T|U", requiredQueues="1", missingQueueGraceMs=60_000)
    query = Query(each, hand_clock, each.initial())
    assert query.after(1) == {}
    cluster.stop("broker-b")
    cluster["broker-a"].send("T", b"x")
    assert query.after(1) == {"broker-a": 1}
    with pytest.raises(RocketMQDataLossError, match=r"\): topic U: 1 of 1 queues \(requiredQ"):
        query.after(61)


@pytest.mark.parametrize(
    ("required", "text"),
    [
        (BROKERS, r"topic U, broker broker-a \(requiredBrokers\)"),
        ({"requiredQueues": "1"}, r"topic U: 1 of 1 queues \(requiredQueues\)"),
    ],
    ids=["brokers", "queues"],
)
def test_a_topic_without_a_route_lacks_what_each_topic_must_have(
    access: QueueAccess, hand_clock: HandClock, required: dict[str, str], text: str
) -> None:
    given = {"subscribe": "T,U", "missingQueueGraceMs": 60_000} | required
    query = Query(tracker(access, **given), hand_clock, without_b())
    assert query.after(1) == query.after(59) == {}
    with pytest.raises(RocketMQDataLossError, match=rf"{text} \(no route of topic U "):
        query.after(2)


def test_what_was_told_at_the_first_start_is_not_told_again_while_it_lasts(
    cluster: EmbeddedCluster,
    access: QueueAccess,
    hand_clock: HandClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster.stop("broker-b")
    one = tracker(access, failOnDataLoss="false", **BROKERS)
    query = Query(one, hand_clock, one.initial())
    assert len(told(caplog)) == 1
    assert query.after(1) == query.after(1) == {}
    assert len(told(caplog)) == 1


@BOTH
def test_a_run_that_ends_wants_what_is_required_before_it_reads(
    cluster: EmbeddedCluster,
    access: QueueAccess,
    caplog: pytest.LogCaptureFixture,
    required: dict[str, str],
    text: str,
) -> None:
    cluster.stop("broker-b")
    cluster["broker-a"].send("T", b"x")
    begin = without_b()
    strict = tracker(access, **required)
    strict.freeze()
    with pytest.raises(RocketMQDataLossError, match=f"missing for 0 ms .*: {text}; set fail"):
        strict.latest(begin, ANY)
    tolerant = tracker(access, failOnDataLoss="false", **required)
    tolerant.freeze()
    for _ in range(2):
        end = tolerant.latest(begin, ANY)
        assert end is not None
        assert [one.broker_name for one in begin.ranges(end)] == ["broker-a"]
    assert len(told(caplog)) == 1

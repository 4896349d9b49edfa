"""How far a stream may read: decisions about offsets, asked of a broker in this process."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from attrs import evolve

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import MQClientException, QueueAccess
from rocketmq_py.clock import wall_ms
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from spark_connector.errors import RocketMQDataLossError
from spark_connector.options.positions import user_positions
from spark_connector.options.read_options import Subscription
from spark_connector.planning.backlog import Limit, share
from spark_connector.planning.queue_ranges import QueueRange
from spark_connector.planning.stream_offset import StreamOffset
from spark_connector.planning.tracker import CLOCK_SLACK_MS
from tests.unit.spark_connector.planning.by_hand import HandClock, set_clock, tracker

ANY = Limit()


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock()) as started:
        started.topics.create("T", queues=2)
        yield started


def ranges(start: StreamOffset, end: StreamOffset | None) -> list[tuple[int, int, int]]:
    assert end is not None
    back = StreamOffset.from_json(end.to_json())
    kept = StreamOffset.from_json(start.to_json())
    return [(one.queue_id, one.start, one.until) for one in kept.ranges(back)]


def at(places: dict[str, dict[str, dict[int, int]]]) -> StreamOffset:
    return StreamOffset(user_positions("places", places, low=0))


def fill(broker: EmbeddedBroker, *counts: int, topic: str = "T") -> None:
    for queue, count in enumerate(counts):
        for _ in range(count):
            broker.send(topic, b"x", queue=queue)


@pytest.mark.case("SP41", "SP42", "SP73")
def test_what_arrives_after_the_first_position_is_read_whatever_spark_forgets(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    fill(broker, 3)
    first = tracker(access, startingOffsets="latest")
    begin = first.initial()
    fill(broker, 2)
    end = first.latest(begin, ANY)
    assert ranges(begin, end) == [(0, 3, 5)]
    fill(broker, 4)
    # Asked again by a restarted query, whose "latest" is a later place: the end tells the truth.
    moved = tracker(access, startingOffsets="latest").initial()
    assert moved != begin
    assert ranges(moved, end) == [(0, 3, 5)]
    # An idle first batch is written down too, else the second answer would lose rows.
    idle = tracker(access, startingOffsets="latest")
    nothing = idle.latest(idle.initial(), ANY)
    fill(broker, 1)
    assert ranges(tracker(access, startingOffsets="latest").initial(), nothing) == []


def test_the_first_position_is_the_same_at_every_call(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    one = tracker(access, startingOffsets="latest")
    begin = one.initial()
    fill(broker, 2)
    assert one.initial() is begin


@pytest.mark.case("SP61")
def test_no_news_is_none_and_equal_offsets_are_equal_texts(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    one = tracker(access)
    end = one.latest(one.initial(), ANY)
    assert end is not None
    assert one.latest(StreamOffset.from_json(end.to_json()), ANY) is None
    assert list(end.to_json()) == sorted(end.to_json())


@pytest.mark.case("SP45")
def test_a_limit_is_shared_in_proportion(broker: EmbeddedBroker, access: QueueAccess) -> None:
    fill(broker, 90, 2)
    one = tracker(access)
    end = one.latest(one.initial(), Limit(offsets_most=10))
    found = ranges(one.initial(), end)
    assert sum(past - first for _, first, past in found) == 10
    assert {queue for queue, *_ in found} == {0, 1}
    sized = tracker(access).latest(one.initial(), Limit(bytes_most=1_000))
    assert 1 <= sum(past - first for _, first, past in ranges(one.initial(), sized)) < 15


@pytest.mark.parametrize(
    ("backlog", "limit", "expected"),
    [
        ({"a": 5, "b": 5}, 20, {"a": 5, "b": 5}),
        ({"a": 5, "b": 5, "c": 5}, 2, {"a": 1, "b": 1, "c": 0}),
        ({"a": 1000, "b": 0}, 7, {"a": 7, "b": 0}),
    ],
)
def test_shares(backlog: dict[str, int], limit: int, expected: dict[str, int]) -> None:
    assert share(backlog, limit) == expected


def test_few_messages_wait_for_more_until_the_delay_is_over(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    fill(broker, 3)
    least = Limit(offsets_least=5)
    waiting = tracker(access)
    begin = waiting.initial()
    assert ranges(begin, waiting.latest(begin, least)) == []
    fill(broker, 2)
    assert ranges(begin, waiting.latest(begin, least)) == [(0, 0, 5)]
    over = tracker(access, maxTriggerDelay="0ms")
    assert ranges(begin, over.latest(begin, Limit(offsets_least=50))) == [(0, 0, 5)]


@pytest.mark.case("SP47")
def test_a_run_that_ends_reads_up_to_the_ends_it_found(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    fill(broker, 4)
    one = tracker(access)
    one.freeze()
    fill(broker, 4)
    begin = one.initial()
    end = one.latest(begin, ANY)
    assert ranges(begin, end) == [(0, 0, 4)]
    assert end is not None
    assert one.latest(StreamOffset(end.topics), ANY) is None


@pytest.mark.case("SP50")
def test_new_topics_of_a_pattern_are_read_from_their_beginning(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    one = tracker(access, subscribePattern="T.*")
    end = one.latest(one.initial(), ANY)
    assert end is not None
    start = StreamOffset.from_json(end.to_json())
    broker.topics.create("T2", queues=1)
    fill(broker, 3, topic="T2")
    one._watch._wait_s, one._watch._routes_at = 0.0, None
    later = one.latest(start, ANY)
    assert later is not None
    assert list(start.ranges(later)) == [QueueRange("T2", "broker-a", 0, 0, 3)]


@pytest.mark.case("SP74")
def test_a_topic_that_went_backwards_is_a_loss_or_begins_anew_once(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    ahead = at({"T": {"broker-a": {0: 10, 1: 0}}})
    with pytest.raises(RocketMQDataLossError, match="stands at 10, available are 0 to 0"):
        tracker(access).latest(ahead, ANY)
    tolerant = tracker(access, failOnDataLoss="false")
    end = tolerant.latest(ahead, ANY)
    assert end is not None
    assert end.to_json()["reset"] == {"T": {"broker-a": {"0": 0}}}
    assert tolerant.latest(StreamOffset(end.topics), ANY) is None
    fill(broker, 1)
    tolerant._watch._wait_s = 0.0
    later = tolerant.latest(StreamOffset(end.topics), ANY)
    assert later is not None
    assert "reset" not in later.to_json()


def test_a_topic_made_anew_is_read_from_its_minimum(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    fill(broker, 3)
    ahead = at({"T": {"broker-a": {0: 10, 1: 0}}})
    end = tracker(access, failOnDataLoss="false").latest(ahead, ANY)
    assert ranges(ahead, end) == [(0, 0, 3)]


@pytest.mark.case("SP52")
def test_a_queue_that_is_gone_too_long_is_a_loss_unless_told_otherwise(
    access: QueueAccess, caplog: pytest.LogCaptureFixture
) -> None:
    gone = at({"Gone": {"broker-a": {0: 5}}, "T": {"broker-a": {0: 0, 1: 0}}})
    with pytest.raises(RocketMQDataLossError, match="missing for 0 ms"):
        tracker(access, subscribe="Gone,T").latest(gone, ANY)
    caplog.clear()
    tolerant = tracker(access, subscribe="Gone,T", failOnDataLoss="false")
    for _ in range(3):  # Spark asks again and again; the user is told once
        assert tolerant.latest(gone, ANY) is None
    assert len([text for text in caplog.messages if "going on without it" in text]) == 1
    patient = tracker(access, subscribe="Gone,T", missingQueueGraceMs=60_000)
    assert patient.latest(gone, ANY) is None


@pytest.mark.case("SP51", "SP52")
def test_a_broker_that_is_away_is_waited_for_and_what_was_read_to_its_end_may_vanish(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    fill(broker, 3)
    one, strict = tracker(access, missingQueueGraceMs=60_000), tracker(access)
    begin = one.initial()
    end = one.latest(begin, ANY)
    assert end is not None
    strict.initial()
    away = broker.faults.on(RequestCode.GET_TOPIC_STATS_INFO).always()
    away.respond(ResponseCode.SYSTEM_BUSY)
    assert ranges(begin, one.latest(begin, ANY)) == []
    assert strict.latest(StreamOffset(end.topics), ANY) is None
    with pytest.raises(RocketMQDataLossError, match="stands at 1"):
        strict.latest(at({"T": {"broker-a": {0: 1, 1: 0}}}), ANY)
    broker.faults.clear()
    one._watch._away.clear(("", "broker-a"))
    one._watch._wait_s = 0.0
    assert ranges(begin, one.latest(begin, ANY)) == [(0, 0, 3)]


@pytest.fixture
def hand_clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    clock = HandClock()
    set_clock(monkeypatch, clock)
    return clock


@pytest.mark.case("SP46")
def test_few_messages_wait_for_the_whole_delay_which_begins_anew_with_every_batch(
    broker: EmbeddedBroker, access: QueueAccess, hand_clock: HandClock
) -> None:
    least = Limit(offsets_least=5)
    one = tracker(access, maxTriggerDelay="3s")
    end = one.latest(one.initial(), least)
    for count, waits in ((3, True), (4, True), (5, False), (1, True)):
        assert end is not None
        place = StreamOffset(end.topics)
        fill(broker, count)
        if waits:
            for _ in range(2):
                hand_clock.advance(1.25)
                assert one.latest(place, least) is None
        hand_clock.advance(0.5)
        end = one.latest(place, least)
        assert [past - first for _, first, past in ranges(place, end)] == [count]


@pytest.mark.case("SP51")
def test_a_topic_that_is_refused_does_not_keep_the_others_of_its_broker_back(
    broker: EmbeddedBroker, access: QueueAccess, hand_clock: HandClock
) -> None:
    broker.topics.create("A", queues=1)
    one = tracker(access, subscribe="A,T", missingQueueGraceMs=600_000)
    begin = one.initial()
    refused = broker.faults.on(RequestCode.GET_TOPIC_STATS_INFO, topic="A").always()
    refused.respond(ResponseCode.NO_PERMISSION)
    for count in range(1, 21):
        fill(broker, 1)
        hand_clock.advance(1.1)
        assert ranges(begin, one.latest(begin, ANY)) == [(0, 0, count)]
    assert refused.hits == 5  # then it is left alone for 1, 2, 4, 8 and 16 s


@pytest.mark.case("SP51")
def test_a_broker_that_is_busy_is_left_alone_for_all_topics(
    broker: EmbeddedBroker, access: QueueAccess, hand_clock: HandClock
) -> None:
    broker.topics.create("A", queues=1)
    one = tracker(access, subscribe="A,T", missingQueueGraceMs=600_000)
    begin = one.initial()
    busy = broker.faults.on(RequestCode.GET_TOPIC_STATS_INFO).always()
    busy.respond(ResponseCode.SYSTEM_BUSY)
    for _ in range(9):
        hand_clock.advance(0.1)
        one._watch._wait_s = 0.0
        one.latest(begin, ANY)
    assert busy.hits == 1


@pytest.mark.case("SP51", "SP52")
@pytest.mark.parametrize("fail_on_loss", ["true", "false"])
def test_a_refusal_that_lasts_is_raised_as_what_it_is_once_the_grace_is_over(
    broker: EmbeddedBroker, access: QueueAccess, hand_clock: HandClock, fail_on_loss: str
) -> None:
    fill(broker, 3)
    one = tracker(access, missingQueueGraceMs=60_000, failOnDataLoss=fail_on_loss)
    read = one.latest(one.initial(), ANY)
    assert read is not None
    # Read to its end as far as known: a refused stream cannot tell what came since.
    begin = StreamOffset(read.topics)
    broker.faults.on(RequestCode.GET_TOPIC_STATS_INFO).always().respond(
        ResponseCode.NO_PERMISSION, "the key was revoked"
    )
    for _ in range(29):
        hand_clock.advance(2)
        assert one.latest(begin, ANY) is None
    hand_clock.advance(5)
    expected = "broker-a has refused for 60000 ms .*topic T; .*the key was revoked"
    with pytest.raises(MQClientException, match=expected) as caught:
        one.latest(begin, ANY)
    assert caught.value.response_code == ResponseCode.NO_PERMISSION


@pytest.mark.case("SP47")
def test_a_run_that_ends_wants_nothing_of_a_broker_once_its_queues_are_read(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    fill(broker, 3)
    one = tracker(access)
    one.freeze()
    read = one.latest(one.initial(), ANY)
    assert read is not None
    refused = broker.faults.on(RequestCode.GET_TOPIC_STATS_INFO).always()
    refused.respond(ResponseCode.NO_PERMISSION)
    one._watch._wait_s = 0.0
    assert one.latest(StreamOffset(read.topics), ANY) is None
    assert refused.hits == 1


@pytest.mark.case("SP52")
@pytest.mark.parametrize(
    ("code", "remark"),
    [(ResponseCode.SYSTEM_BUSY, "too much to do"), (ResponseCode.TOPIC_NOT_EXIST, "no such topic")],
)
def test_a_loss_says_what_the_broker_said_last(
    broker: EmbeddedBroker,
    access: QueueAccess,
    hand_clock: HandClock,
    caplog: pytest.LogCaptureFixture,
    code: int,
    remark: str,
) -> None:
    fill(broker, 3)
    strict = tracker(access, missingQueueGraceMs=5_000)
    tolerant = tracker(access, missingQueueGraceMs=5_000, failOnDataLoss="false")
    begin = StreamOffset(strict.initial().topics)
    tolerant.initial()
    broker.faults.on(RequestCode.GET_TOPIC_STATS_INFO).always().respond(code, remark)
    for _ in range(2):
        hand_clock.advance(1.1)
        assert strict.latest(begin, ANY) is tolerant.latest(begin, ANY) is None
    hand_clock.advance(10)
    with pytest.raises(RocketMQDataLossError, match=f"missing for 5000 ms .*{remark}"):
        strict.latest(begin, ANY)
    assert tolerant.latest(begin, ANY) is None
    assert [text for text in caplog.messages if remark in text and "going on without it" in text]


@pytest.mark.case("SP51")
def test_a_broker_that_is_back_within_the_grace_is_no_loss_though_it_was_to_be_left_alone(
    broker: EmbeddedBroker, access: QueueAccess, hand_clock: HandClock
) -> None:
    fill(broker, 3)
    one = tracker(access, missingQueueGraceMs=10_000, routeRefreshMs=60_000)
    begin = StreamOffset(one.initial().topics)
    busy = broker.faults.on(RequestCode.GET_TOPIC_STATS_INFO).always()
    busy.respond(ResponseCode.SYSTEM_BUSY)
    for _ in range(9):
        hand_clock.advance(1.01)
        one._watch._wait_s = 0.0
        assert one.latest(begin, ANY) is None
    broker.faults.clear()
    hand_clock.advance(2)  # the grace is over, the pause of 8 s is not
    assert one._watch._away.holds(("", "broker-a"))
    assert ranges(begin, one.latest(begin, ANY)) == [(0, 0, 3)]
    assert not one._watch._away.holds(("", "broker-a"))


@pytest.mark.case("SP51", "SP52")
@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.NO_PERMISSION])
def test_an_assigned_queue_that_is_away_when_a_stream_starts_again_is_waited_for(
    broker: EmbeddedBroker, access: QueueAccess, hand_clock: HandClock, code: int
) -> None:
    fill(broker, 3, 2)
    begin = at({"T": {"broker-a": {0: 1}}})
    given = {"assign": '{"T":{"broker-a":[0]}}', "missingQueueGraceMs": 60_000}
    broker.faults.on(RequestCode.GET_TOPIC_STATS_INFO).always().respond(code)
    one = tracker(access, **given)
    assert one.latest(begin, ANY) is None
    broker.faults.clear()
    hand_clock.advance(3)
    assert ranges(begin, one.latest(begin, ANY)) == [(0, 1, 3)]  # and not queue 1


@pytest.mark.case("SP51")
def test_a_name_server_that_is_away_is_asked_once_in_a_while_and_known_topics_go_on(
    broker: EmbeddedBroker, access: QueueAccess, hand_clock: HandClock
) -> None:
    one = tracker(access, subscribePattern="T.*", routeRefreshMs=30_000)
    begin = one.initial()
    one.latest(begin, ANY)
    away = broker.faults.on(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).always()
    away.respond(ResponseCode.SYSTEM_BUSY)
    hand_clock.advance(30)
    for count in range(1, 11):
        fill(broker, 1)
        hand_clock.advance(1.1)
        assert ranges(begin, one.latest(begin, ANY)) == [(0, 0, count)]
    assert away.hits == 1


@pytest.mark.case("SP54")
def test_the_group_is_told_what_is_done(broker: EmbeddedBroker, access: QueueAccess) -> None:
    fill(broker, 3)
    one = tracker(access, groupId="G")
    end = one.latest(one.initial(), ANY)
    assert end is not None
    queue = access.read_queues("T")[0]
    one.push_group(end)  # the broker has not met the group yet: it is introduced
    assert access.group_offset("G", queue) == 3


@pytest.mark.case("SP54")
def test_a_group_that_is_refused_costs_a_request_now_and_then_and_no_more(
    broker: EmbeddedBroker, access: QueueAccess, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker, 3)
    one = tracker(access, groupId="G")
    end = one.latest(one.initial(), ANY)
    assert end is not None
    refused = broker.faults.on(RequestCode.UPDATE_CONSUMER_OFFSET).always()
    refused.respond(ResponseCode.NO_PERMISSION)
    for _ in range(50):
        one.push_group(end)
    assert refused.hits == 1
    assert (
        len([text for text in caplog.messages if "was not stored at broker broker-a" in text]) == 1
    )


@pytest.mark.case("SP49")
def test_an_idle_stream_asks_less_and_less(
    broker: EmbeddedBroker, access: QueueAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count()
    set_clock(monkeypatch, lambda: next(ticks) / 400)
    one = tracker(access, offsetPollIntervalMs=100)
    one._watch._wait_s = 0.1
    start = one.initial()
    broker.journal.clear()
    begin = next(ticks)
    while next(ticks) < begin + 2_000:  # five seconds
        one.latest(start, ANY)
    asked = len(broker.journal.requests(code=RequestCode.GET_TOPIC_STATS_INFO))
    assert 4 <= asked <= 12
    fill(broker, 1)
    while not ranges(start, one.latest(start, ANY)):
        next(ticks)
    assert one._watch._wait_s <= 0.2


@pytest.mark.case("SP55")
def test_the_ends_are_reported(broker: EmbeddedBroker, access: QueueAccess) -> None:
    fill(broker, 3)
    one = tracker(access)
    assert one.ends() is None
    one.initial()
    ends = one.ends()
    assert ends is not None
    assert ends == at({"T": {"broker-a": {0: 3, 1: 0}}})


def test_what_is_found_later_is_read_from_where_the_stream_began(
    broker: EmbeddedBroker, access: QueueAccess, hand_clock: HandClock
) -> None:
    clock = broker.clock
    assert isinstance(clock, VirtualClock)
    broker.topics.create("U", queues=1)
    fill(broker, 4, topic="U")  # as old messages of a broker that is away at the start
    clock.advance(10)
    first = tracker(access, subscribePattern="T|U", startingOffsets="latest")
    first._options = evolve(first._options, subscription=Subscription(topics=("T",)))
    begin = first.initial()
    assert begin.since_ms == clock.now_ms  # the search for it took no time by the planner's clock
    later = tracker(access, subscribe="T,U", startingOffsets="earliest")
    kept = StreamOffset.from_json(begin.to_json())
    assert later.latest(kept, ANY) == StreamOffset(
        kept.topics, lower=kept.topics, since_ms=begin.since_ms
    )
    clock.advance(1)
    fill(broker, 2, topic="U")
    end = later.latest(kept, ANY)
    assert end is not None
    assert [(one.topic, one.start, one.until) for one in kept.ranges(end)] == [("U", 4, 6)]
    assert end.since_ms == begin.since_ms  # whoever goes on from it knows, too


def test_what_is_found_later_is_asked_for_until_somebody_tells_where_it_begins(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    clock = broker.clock
    assert isinstance(clock, VirtualClock)
    broker.topics.create("U", queues=1)
    begin = tracker(access, startingOffsets="latest").initial()
    kept = StreamOffset(begin.topics, since_ms=begin.since_ms)
    clock.advance(5)
    fill(broker, 2, topic="U")
    later = tracker(access, subscribe="T,U")
    code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    with broker.faults.on(code).always().respond(ResponseCode.NO_PERMISSION):
        assert later.latest(kept, ANY) is None
    end = later.latest(kept, ANY)  # the bounds are the same as before, and it is not idle
    assert end is not None
    assert [(one.topic, one.start, one.until) for one in kept.ranges(end)] == [("U", 0, 2)]


@pytest.mark.parametrize(
    ("given", "since"),
    [
        ({"startingOffsets": "earliest"}, None),
        ({"startingTimestamp": "1700000000000"}, 1_700_000_000_000),
        ({"startingOffsets": "group:earliest", "groupId": "G"}, None),
    ],
)
def test_a_start_at_a_time_or_at_the_beginning_says_where_others_begin(
    access: QueueAccess, given: dict[str, str], since: int | None
) -> None:
    options = {"startingOffsetsByTimestampStrategy": "latest"} | given
    assert tracker(access, **options).initial().since_ms == since


def test_a_broker_that_does_not_tell_its_time_is_taken_for_a_minute_late(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    code = RequestCode.GET_BROKER_RUNTIME_INFO
    broker.faults.on(code).always().respond(ResponseCode.NO_PERMISSION)
    since = tracker(access, startingOffsets="latest").initial().since_ms
    assert since is not None
    assert 0 <= wall_ms() - CLOCK_SLACK_MS - since < 30_000


def test_a_run_that_ends_looks_for_what_its_checkpoint_has(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    fill(broker, 3)
    gone = at({"T": {"broker-a": {0: 0}, "broker-b": {0: 5}}})
    strict = tracker(access)
    strict.freeze()
    with pytest.raises(RocketMQDataLossError, match="broker broker-b, queue 0"):
        strict.latest(gone, ANY)
    tolerant = tracker(access, failOnDataLoss="false")
    tolerant.freeze()
    assert ranges(gone, tolerant.latest(gone, ANY)) == [(0, 0, 3)]
    elsewhere = tracker(access, subscribe="Nowhere", failOnDataLoss="false")
    elsewhere.freeze()  # what its checkpoint knows is told later
    assert elsewhere.latest(at({"Nowhere": {"broker-b": {0: 5}}}), ANY) is None

"""Who consumes, how far each group is, and moving it to another place."""

from __future__ import annotations

from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker, GroupOffset, VirtualClock, WaitTimeoutError
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.embedded_broker.api.views.manual_consumer import ManualConsumer


@pytest.fixture
def consumer(broker: EmbeddedBroker) -> ManualConsumer:
    return ManualConsumer(broker)


def fill(broker: EmbeddedBroker, count: int, queue: int = 0, tags: str | None = None) -> None:
    for number in range(count):
        broker.send("T", str(number).encode(), queue=queue, tags=tags)


def test_groups_are_listed_when_somebody_has_used_them(
    broker: EmbeddedBroker, consumer: ManualConsumer
) -> None:
    assert broker.groups.names() == []
    assert "G" not in broker.groups
    consumer.join()
    ManualConsumer(broker, "H").take()

    assert broker.groups.names() == list(broker.groups) == ["G", "H"]
    assert "G" in broker.groups
    assert repr(broker.groups) == "<groups G, H>"


def test_an_unknown_group_is_a_key_error_that_names_the_nearest(
    broker: EmbeddedBroker, consumer: ManualConsumer
) -> None:
    ManualConsumer(broker, "payments").join()

    with pytest.raises(KeyError, match="no group 'payment'; did you mean 'payments'"):
        broker.groups["payment"]
    with pytest.raises(KeyError, match="no group 'x'") as none_near:
        broker.groups["x"]
    assert "did you mean" not in str(none_near.value)
    with pytest.raises(KeyError, match="no topic 'TT'"):
        broker.groups["payments"].lag(topic="TT")
    assert consumer.group not in broker.groups


def test_members_are_those_that_are_connected(
    broker: EmbeddedBroker, consumer: ManualConsumer
) -> None:
    consumer.join()

    (member,) = broker.groups["G"].members

    assert member.client_id == "client-of-G"
    assert (member.address, member.language, member.version) == ("127.0.0.1:40000", "PYTHON", 479)
    assert repr(broker.groups["G"]) == "<group G: 1 members, lag 0>"
    consumer.leave()
    assert broker.groups["G"].members == ()


def test_the_topics_of_a_group_are_subscribed_pulled_or_committed_ones(
    broker: EmbeddedBroker, consumer: ManualConsumer
) -> None:
    for name in ("U", "V"):
        broker.topics.create(name)
    consumer.join()
    consumer.pull(topic="T")
    consumer.commit(0, topic="V")

    assert broker.groups["G"].topics == ("T", "%RETRY%G", "V")


def test_lag_is_behind_the_commits_and_unread_is_what_was_not_handed_out(
    broker: EmbeddedBroker, consumer: ManualConsumer
) -> None:
    fill(broker, 3)
    fill(broker, 2, queue=1)
    consumer.join()
    group = broker.groups["G"]
    assert (group.lag(), group.unread()) == (5, 5)

    consumer.take(most=2)
    assert (group.lag(), group.unread()) == (5, 3)
    consumer.commit(1)
    assert (group.lag(), group.unread()) == (4, 3)
    consumer.take(2)
    consumer.commit(3)
    assert (group.lag(topic="T"), group.unread(topic="T")) == (2, 2)
    assert (group.lag(topic="%RETRY%G"), group.unread(topic="%RETRY%G")) == (0, 0)


def test_a_group_that_begins_at_the_end_has_no_lag(
    broker: EmbeddedBroker, consumer: ManualConsumer
) -> None:
    fill(broker, 3)
    consumer.join()
    for queue in range(4):
        consumer.pull(3 if queue == 0 else 0, queue=queue, wait=True)

    assert (broker.groups["G"].lag(), broker.groups["G"].unread()) == (0, 0)


def test_what_the_subscription_filters_out_is_not_unread(broker: EmbeddedBroker) -> None:
    wanted = ManualConsumer(broker, tags="a || b")
    wanted.join()
    fill(broker, 4, tags="c")
    assert broker.groups["G"].unread() == 0
    fill(broker, 2, tags="b")
    assert broker.groups["G"].unread() == 2
    assert broker.groups["G"].lag() == 6

    wanted.leave()
    assert broker.groups["G"].unread(topic="T") == 6


def test_offsets_show_every_queue(broker: EmbeddedBroker, consumer: ManualConsumer) -> None:
    fill(broker, 3)
    consumer.join()
    consumer.take(most=2)
    consumer.commit(1)

    first, second = broker.groups["G"].offsets(topic="T")[:2]

    assert first == GroupOffset(
        topic="T", queue_id=0, committed=1, next_offset=2, min_offset=0, max_offset=3, lag=2
    )
    assert (second.queue_id, second.committed, second.lag) == (1, None, 0)
    assert [(one.topic, one.queue_id) for one in broker.groups["G"].offsets()] == [
        *(("T", queue) for queue in range(4)),
        ("%RETRY%G", 0),
    ]


def test_a_reset_to_the_earliest_delivers_everything_again(
    broker: EmbeddedBroker, consumer: ManualConsumer
) -> None:
    fill(broker, 3)
    consumer.join()
    consumer.take()
    consumer.commit(3)

    first = broker.groups["G"].reset(topic="T", to="earliest")[0]

    assert (first.committed, first.next_offset, first.lag) == (0, 0, 3)
    assert broker.groups["G"].unread() == 3
    told = consumer.pull(3)
    assert told is not None
    assert (told.code, told.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
    assert len(consumer.take(0)) == 3


def test_a_reset_reaches_a_pull_that_waits_and_only_in_queues_that_change(
    broker: EmbeddedBroker, consumer: ManualConsumer
) -> None:
    fill(broker, 3)
    consumer.join()
    for queue, offset in ((0, 3), (1, 0)):
        consumer.commit(offset, queue=queue)
        assert consumer.pull(offset, queue=queue, wait=True) is None
    before = len(consumer.peer.answers)

    broker.groups["G"].reset(topic="T", to="earliest")

    (answer,) = consumer.peer.answers[before:]
    assert answer.remark == "OFFSET_RESET"
    assert answer.ext_fields["nextBeginOffset"] == "0"


def test_a_reset_to_the_latest_skips_what_is_there(
    broker: EmbeddedBroker, consumer: ManualConsumer
) -> None:
    fill(broker, 3)
    fill(broker, 1, queue=2)
    consumer.take()

    broker.groups["G"].reset(topic="T", to="latest")

    assert broker.groups["G"].lag() == 0
    assert broker.groups["G"].unread() == 0


def test_a_reset_to_a_time_begins_with_the_first_message_since(
    broker: EmbeddedBroker, clock: VirtualClock, consumer: ManualConsumer
) -> None:
    fill(broker, 2)
    clock.advance(60)
    fill(broker, 2)
    consumer.take()

    first = broker.groups["G"].reset(topic="T", to=clock.now() - timedelta(seconds=30))[0]

    assert first.committed == 2


def test_a_reset_to_an_offset_needs_one_that_the_queue_holds(
    broker: EmbeddedBroker, consumer: ManualConsumer
) -> None:
    fill(broker, 3)
    consumer.take()
    group = broker.groups["G"]

    (place,) = group.reset(topic="T", to=2, queue=0)
    assert (place.queue_id, place.committed) == (0, 2)
    with pytest.raises(ConfigError, match="0 to 0, which queue 1 of T holds"):
        group.reset(topic="T", to=2)
    with pytest.raises(ConfigError, match="0 to 3, the queues of T"):
        group.reset(topic="T", to=2, queue=4)
    with pytest.raises(ConfigError, match="'earliest', 'latest' or an offset"):
        group.reset(topic="T", to="first")  # type: ignore[arg-type] # on purpose
    with pytest.raises(KeyError, match="no topic 'TTT'"):
        group.reset(topic="TTT", to="latest")


def test_under_4_9_members_are_sent_a_notice_instead(clock: VirtualClock) -> None:
    with EmbeddedBroker(
        clock=clock, tcp=False, topics=["T"], seed=1, profile="rocketmq-4.9"
    ) as broker:
        fill(broker, 3)
        consumer = ManualConsumer(broker)
        consumer.join()
        consumer.take()
        consumer.commit(3)

        broker.groups["G"].reset(topic="T", to="earliest")

        told = consumer.peer.answers[-1]
        assert told.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
        assert b'"queueId":0,"topic":"T"}:0' in told.body
        assert broker.groups["G"].offsets(topic="T")[0].committed == 0


def test_waiting_for_members_ends_when_they_are_there(
    broker: EmbeddedBroker, consumer: ManualConsumer
) -> None:
    with pytest.raises(WaitTimeoutError, match=r"1 members in group 'G'(?s:.*)0 timers pending"):
        broker.wait_members("G", timeout=0.05)
    consumer.join()
    broker.wait_members("G")
    with pytest.raises(WaitTimeoutError, match=r"group G: 1 members, lag 0"):
        broker.wait_members("G", 2, timeout=0.05)
    ManualConsumer(broker).join()
    broker.wait_members("G", 2)

"""Limits beyond the broker's own: those of the proxy and of Aliyun, and typed topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker, EmbeddedCluster, TopicSpec, VirtualClock
from rocketmq_py import DefaultMQProducer, Message, MQBrokerException
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.embedded_broker.wire_peer import WirePeer

DAY_MS = 86_400_000

Start = Callable[..., EmbeddedBroker]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as ends:

        def one(**arguments: object) -> EmbeddedBroker:
            arguments.setdefault("topics", ["T"])
            broker = EmbeddedBroker(
                clock=VirtualClock(),
                **arguments,  # type: ignore[arg-type] # as the test wrote them
            )
            return ends.enter_context(broker)

        yield one


def refused(broker: EmbeddedBroker, topic: str = "T", **properties: str) -> str:
    """Give the remark with which a send is refused with 13."""
    with pytest.raises(MQBrokerException) as caught:
        broker.send(topic, b"x", properties=properties)
    assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL
    return caught.value.remark or ""


# --- typed topics ------------------------------------------------------------------------------


@pytest.mark.case("A19")
@pytest.mark.parametrize(
    "arguments", [{"config": {"enforceTopicMessageType": True}}, {"limits": "proxy"}]
)
def test_a_timer_is_refused_by_a_topic_of_another_type(
    start: Start, arguments: dict[str, object]
) -> None:
    broker = start(**arguments, topics=["T", TopicSpec("D", message_type="DELAY")])

    remark = refused(broker, "T", TIMER_DELAY_SEC="5")
    assert "type NORMAL" in remark
    assert "type DELAY" in remark
    refused(broker, "T", DELAY="1")
    refused(broker, "T", __STARTDELIVERTIME="1")
    refused(broker, "D")
    broker.send("T", b"x")
    broker.send("D", b"x", delay=5)
    assert broker.timers.count(topic="D") == 1


@pytest.mark.case("A19")
def test_without_the_check_every_topic_takes_timers(start: Start) -> None:
    broker = start()
    broker.send("T", b"x", delay=5)
    assert broker.timers.count() == 1
    unchecked = start(limits="proxy", config={"enableTopicMessageTypeCheck": False})
    unchecked.send("T", b"x", delay=5)
    assert unchecked.timers.count() == 1
    old = start(profile="rocketmq-4.9", config={"enforceTopicMessageType": True})
    old.send("T", b"x", delay_level=1)
    assert old.timers.count() == 1


@pytest.mark.case("A19")
def test_the_check_can_be_switched_on_while_plain_sends_run(start: Start) -> None:
    broker = start(topics=[TopicSpec("D", message_type="DELAY")])
    with DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer:
        producer.send(Message("D", b"x"))
        broker.config.update(enforceTopicMessageType=True)
        with pytest.raises(MQBrokerException, match="type NORMAL"):
            producer.send(Message("D", b"x"))
        with pytest.raises(MQBrokerException, match="type NORMAL"):
            producer.send_batch([Message("D", b"x"), Message("D", b"y")])
        producer.send(Message("D", b"x", delay=timedelta(seconds=1)))
    assert (broker.topics["D"].count(), broker.timers.count()) == (1, 1)


@pytest.mark.case("A19")
@pytest.mark.parametrize("value", ["Delay", "delay", "TIMER", ""])
def test_a_topic_of_a_type_that_does_not_exist_is_not_created(start: Start, value: str) -> None:
    broker = start()
    with WirePeer(broker.addr) as peer:
        fields = {
            "topic": "D",
            "defaultTopic": "TBW102",
            "readQueueNums": "1",
            "writeQueueNums": "1",
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "attributes": f"+message.type={value}",
        }
        answer = peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "message.type" in (answer.remark or "")
    assert "D" not in broker.topics
    with pytest.raises(ConfigError, match="message_type"):
        broker.topics.create("D", message_type=value)  # type: ignore[arg-type]


def test_mixed_topics_need_their_switch(start: Start) -> None:
    broker = start(topics=[])
    with WirePeer(broker.addr) as peer:
        with pytest.raises(AssertionError, match="29"):
            peer.create_topic("M", attributes="+message.type=MIXED")
        broker.config.update(enableMixedMessageType=True)
        peer.create_topic("M", attributes="+message.type=MIXED")
    broker.config.update(enforceTopicMessageType=True)
    broker.send("M", b"x")
    broker.send("M", b"x", delay=5)


def test_mixed_topics_of_the_constructor_need_it_too(start: Start) -> None:
    spec = TopicSpec("M", message_type="MIXED")
    with pytest.raises(ConfigError, match="enableMixedMessageType"):
        start(topics=[spec])
    broker = start(topics=[spec], config={"enableMixedMessageType": True})
    with pytest.raises(ConfigError, match="enableMixedMessageType"):
        start().topics.create("M", message_type="MIXED")
    assert "M" in broker.topics


# --- the proxy's delay ---------------------------------------------------------------------------


@pytest.mark.case("A23")
def test_behind_a_proxy_a_delay_may_be_24_hours(start: Start) -> None:
    broker = start(limits="proxy", topics=[TopicSpec("D", message_type="DELAY")])
    now_ms = broker.clock.now_ms

    remark = refused(broker, "D", TIMER_DELIVER_MS=str(now_ms + DAY_MS + 1000))
    assert "86400000 ms" in remark
    assert "maxDelayTimeMills" in remark
    refused(broker, "D", TIMER_DELAY_MS=str(DAY_MS + 1))
    broker.send("D", b"x", properties={"TIMER_DELIVER_MS": str(now_ms + DAY_MS)})
    assert broker.timers.count() == 1
    assert broker.limits.name == "proxy"


@pytest.mark.case("A23")
@pytest.mark.parametrize("off", [0, -1])
def test_without_the_proxys_limit_the_brokers_own_holds(start: Start, off: int) -> None:
    broker = start(
        limits="proxy",
        topics=[TopicSpec("D", message_type="DELAY")],
        config={"maxDelayTimeMills": off},
    )
    broker.send("D", b"x", delay=timedelta(days=3))
    assert "timerMaxDelaySec" in refused(broker, "D", TIMER_DELAY_MS=str(3 * DAY_MS + 1))


def test_the_proxys_limit_does_not_bind_who_is_not_behind_it(start: Start) -> None:
    broker = start(config={"maxDelayTimeMills": 1000})
    broker.send("T", b"x", delay=timedelta(days=3))
    assert broker.timers.count() == 1


def test_a_shorter_limit_of_the_broker_wins_over_the_proxys(start: Start) -> None:
    broker = start(
        limits="proxy",
        topics=[TopicSpec("D", message_type="DELAY")],
        config={"timerMaxDelaySec": 60},
    )
    assert "60000 ms (timerMaxDelaySec)" in refused(broker, "D", TIMER_DELAY_SEC="61")


# --- names and defaults --------------------------------------------------------------------------


def test_what_a_user_sets_wins_over_a_preset(start: Start) -> None:
    assert start(limits="aliyun").config["timerMaxDelaySec"] == 3_456_000
    assert start(limits="aliyun", config={"timerMaxDelaySec": 5}).config["timerMaxDelaySec"] == 5
    upstream = start(limits="aliyun", defaults="upstream")
    assert upstream.config["timerMaxDelaySec"] == 3_456_000


def test_unknown_limits_are_refused_with_the_names_there_are() -> None:
    with pytest.raises(ConfigError, match="aliyun, broker, proxy"):
        EmbeddedBroker(limits="alibaba")  # type: ignore[arg-type]


def test_a_cluster_has_them_too() -> None:
    cluster = EmbeddedCluster(brokers=2, limits="proxy")
    assert [broker.limits.name for broker in cluster.brokers] == ["proxy", "proxy"]


@pytest.mark.case("A24")
def test_a_delay_works_alike_by_every_way_of_sending(start: Start) -> None:
    broker = start()
    with DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer:
        producer.send(Message("T", b"sync", delay=timedelta(seconds=5)))
        producer.send_async(Message("T", b"async", delay=timedelta(seconds=5))).result(20)
        producer.send_oneway(Message("T", b"oneway", delay=timedelta(seconds=5)))
        broker.wait_for(lambda b: b.timers.count() == 3)
    accepted_ms = broker.clock.now_ms

    broker.clock.advance(4.999)
    assert broker.topics["T"].count() == 0
    broker.clock.advance(0.001)

    messages = broker.messages.in_topic("T")
    assert {message.body for message in messages} == {b"sync", b"async", b"oneway"}
    assert {round(message.stored_at.timestamp() * 1000) for message in messages} == {
        accepted_ms + 5000
    }

"""Whether all queues that must be there are there, asked of brokers in this process."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from threading import Event

import pytest

from embedded_broker import EmbeddedCluster, TopicSpec
from rocketmq_py import MessageQueue, NoRouteError, QueueAccess
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.raw import NamespacedQueueAccess
from spark_connector.errors import OptionError, RocketMQDataLossError
from spark_connector.options.read_options import ReadOptions, read_options
from spark_connector.planning.whole_topics import LOOK_AGAIN_S, whole_bounds, whole_look

LOOK = RequestCode.GET_TOPIC_STATS_INFO


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2, topics=[TopicSpec("T", queues=2)]) as started:
        yield started


@pytest.fixture
def access(cluster: EmbeddedCluster) -> Iterator[QueueAccess]:
    with QueueAccess(namesrv_addr=cluster.namesrv_addr, mq_client_api_timeout=300) as started:
        yield started


def options(**given: str) -> ReadOptions:
    texts = {"nameServer": "h:1", "subscribe": "T", "missingQueueGraceMs": "0"} | given
    if "assign" in texts or "subscribePattern" in texts:
        del texts["subscribe"]
    return read_options(texts, streaming=False)


def test_every_queue_of_every_broker_is_there(access: QueueAccess) -> None:
    required = options(requiredQueues="4", requiredBrokers="broker-a, broker-b")
    assert {(one.broker_name, one.queue_id) for one in whole_bounds(access, required)} == {
        (broker, queue) for broker in ("broker-a", "broker-b") for queue in (0, 1)
    }


def test_what_the_configuration_of_the_topic_fixes_must_be_there(
    cluster: EmbeddedCluster, access: QueueAccess, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.stop("broker-b")
    assert len(whole_bounds(access, options())) == 2  # nobody remembers the other two
    fixed = "broker-a:2;broker-b:1"
    update = access._instance.routes.update

    def configured(topic: str, timeout_ms: float | None = None, stop: Event | None = None) -> bool:
        update(topic, timeout_ms, stop)
        access._instance.routes._routes[topic].order_topic_conf = fixed
        return False

    access._instance.routes.update = configured  # type: ignore[method-assign]
    with pytest.raises(RocketMQDataLossError, match=r"topic T, broker broker-b, queue 0; set fail"):
        whole_bounds(access, options())
    with caplog.at_level(logging.WARNING, "spark_connector"):
        assert len(whole_bounds(access, options(failOnDataLoss="false"))) == 2
    assert "broker-b, queue 0; going on without them" in caplog.messages[-1]


def test_queues_that_the_options_or_a_checkpoint_name_must_be_there(
    cluster: EmbeddedCluster, access: QueueAccess
) -> None:
    cluster.stop("broker-b")
    named = '{"T":{"broker-a":[0],"broker-b":[1]}}'
    with pytest.raises(RocketMQDataLossError, match=r"Ms\): topic T, broker broker-b, queue 1; "):
        whole_bounds(access, options(assign=named))
    start = '{"T":{"broker-b":{"0":3}}}'
    with pytest.raises(RocketMQDataLossError, match="broker broker-b, queue 0"):
        whole_bounds(access, options(startingOffsets=start))
    with pytest.raises(RocketMQDataLossError, match="broker broker-b, queue 1"):
        whole_look(access, options(), [MessageQueue("T", "broker-b", 1)])
    with pytest.raises(OptionError, match="broker-a has no queue 7"):
        whole_bounds(access, options(assign='{"T":{"broker-a":[7]}}'))


def test_a_broker_that_is_silent_is_away_and_one_that_refuses_is_not(
    cluster: EmbeddedCluster, access: QueueAccess
) -> None:
    _, two = cluster.brokers
    each = r"broker-b, queue 0 \(.*broker-b, queue 1"
    with two.faults.on(LOOK).always().drop(), pytest.raises(RocketMQDataLossError, match=each):
        whole_bounds(access, options())
    with two.faults.on(LOOK).always().drop(), pytest.raises(RocketMQDataLossError):
        whole_bounds(access, options(missingQueueGraceMs="10"))
    silent = two.faults.on(LOOK).drop()
    assert len(whole_bounds(access, options(missingQueueGraceMs="60000"))) == 4
    assert silent.hits == 1
    two.faults.on(LOOK).respond(ResponseCode.NO_PERMISSION)
    with pytest.raises(Exception, match="16"):
        whole_bounds(access, options(missingQueueGraceMs="60000"))


def test_a_topic_without_a_route_is_unknown_only_while_brokers_are_there(
    cluster: EmbeddedCluster, access: QueueAccess
) -> None:
    with pytest.raises(NoRouteError):
        whole_bounds(access, options(subscribe="Nowhere", missingQueueGraceMs="60000"))
    cluster.stop("broker-a")
    cluster.stop("broker-b")
    with pytest.raises(RocketMQDataLossError, match="topic T has no route"):
        whole_bounds(access, options())
    assert LOOK_AGAIN_S <= 1.0


def test_brokers_that_come_back_during_a_look_are_waited_for(
    cluster: EmbeddedCluster, access: QueueAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("broker-a", "broker-b")
    for name in names:
        cluster.stop(name)
    registered = access.registered_brokers

    def come_back() -> object:
        for name in names:
            cluster.start(name)
        return registered()

    monkeypatch.setattr(access, "registered_brokers", come_back)
    assert len(whole_bounds(access, options(missingQueueGraceMs="60000"))) == 4


def test_a_topic_that_a_pattern_does_not_find_can_be_required(access: QueueAccess) -> None:
    given = options(subscribePattern="[TU]", requiredQueues='{"U":1,"Other":9}')
    with pytest.raises(RocketMQDataLossError, match=r"\): topic U: 1 of 1 queues \(requiredQ"):
        whole_bounds(access, given)


@pytest.mark.parametrize("text", ["0", "many", "{}", '{"T":"x"}', '{"T":0}', "{"])
def test_what_is_required_is_a_number_for_each_topic(text: str) -> None:
    with pytest.raises(OptionError, match=r'must look like 8 or \{"topic":8\}'):
        options(requiredQueues=text)
    with pytest.raises(OptionError, match="must look like broker-a,broker-b"):
        options(requiredBrokers='{"T":[]}')


@pytest.mark.parametrize(
    ("topic", "is_told"),
    [
        ("%RETRY%billing", False),
        ("%DLQ%billing", False),
        ("%RETRY%billing_T", False),
        ("%RETRY%billing2", True),
        ("%RETRY%billing_eu", True),
    ],
)
def test_a_group_that_no_broker_knows_is_told(
    cluster: EmbeddedCluster,
    access: QueueAccess,
    caplog: pytest.LogCaptureFixture,
    topic: str,
    *,
    is_told: bool,
) -> None:
    cluster["broker-a"].topics.create(topic)
    of_group = read_options({"nameServer": "h:1", "deadLettersOf": "billing"}, streaming=False)
    whole_bounds(access, of_group)
    said = "no broker knows consumer group billing, so %DLQ%billing is read as empty"
    assert (said in caplog.text) is is_told


def test_a_group_of_a_namespace_is_known_by_its_bare_name(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster["broker-a"].topics.create("%RETRY%shop%billing")
    of_groups = {"nameServer": "h:1", "deadLettersOf": "billing,other"}
    with NamespacedQueueAccess("shop", namesrv_addr=cluster.namesrv_addr) as access:
        whole_bounds(access, read_options(of_groups, streaming=False))
    (said,) = [one for one in caplog.messages if "no broker knows" in one]
    assert "consumer group other" in said

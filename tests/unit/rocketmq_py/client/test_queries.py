"""Questions to brokers that go wrong; those that go well are asked of the embedded broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.queries import CREATE_ATTEMPTS, Queries
from rocketmq_py.errors import MQBrokerException, MQClientException, NoRouteError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.client.conftest import InstanceMaker
from tests.unit.rocketmq_py.scripted import ScriptedCluster

CREATE = RequestCode.UPDATE_AND_CREATE_TOPIC


@pytest.fixture
def queries(instance: ClientInstance) -> Queries:
    return Queries(instance, instance.config)


def test_a_topic_is_created_with_its_attributes_on_every_master(
    clusters: Callable[[int], ScriptedCluster], make_instance: InstanceMaker
) -> None:
    cluster = clusters(2)
    for broker in cluster.brokers:
        broker.answer(CREATE, 0)
    instance = make_instance(cluster.namesrv_addr)
    queries = Queries(instance, instance.config)
    queries.create_topic("T", "new", 3, attributes={"message.type": "DELAY"})
    for broker in cluster.brokers:
        (request,) = broker.of(CREATE)
        assert request.ext_fields["attributes"] == "+message.type=DELAY"
        assert (request.ext_fields["readQueueNums"], request.ext_fields["perm"]) == ("3", "6")


def test_a_topic_that_no_master_takes_is_tried_five_times_and_tells_why(
    cluster: ScriptedCluster, queries: Queries
) -> None:
    cluster.brokers[0].answer(CREATE, 1, "disk full")
    with pytest.raises(MQClientException, match="disk full") as caught:
        queries.create_topic("T", "new", 3)
    assert isinstance(caught.value.__cause__, MQBrokerException)
    assert len(cluster.brokers[0].of(CREATE)) == CREATE_ATTEMPTS


def test_one_master_is_enough(
    clusters: Callable[[int], ScriptedCluster], make_instance: InstanceMaker
) -> None:
    cluster = clusters(2)
    cluster.brokers[0].answer(CREATE, 1)
    cluster.brokers[1].answer(CREATE, 0)
    instance = make_instance(cluster.namesrv_addr)
    Queries(instance, instance.config).create_topic("T", "new", 3)
    assert cluster.brokers[1].of(CREATE)


def test_unknown_topics_and_brokers_are_named(queries: Queries) -> None:
    with pytest.raises(NoRouteError, match="unknown"):
        queries.create_topic("unknown", "new", 3)
    with pytest.raises(MQClientException, match="broker-z"):
        queries.max_offset(MessageQueue("T", "broker-z", 0))


def test_a_refusal_is_the_brokers_error(cluster: ScriptedCluster, queries: Queries) -> None:
    cluster.brokers[0].answer(RequestCode.GET_MAX_OFFSET, ResponseCode.NO_PERMISSION)
    with pytest.raises(MQBrokerException) as caught:
        queries.max_offset(MessageQueue("T", "broker-a", 0))
    assert caught.value.code == 16


def test_a_broker_that_cannot_be_asked_is_the_cause_of_finding_nothing(
    cluster: ScriptedCluster, queries: Queries
) -> None:
    cluster.brokers[0].answer(RequestCode.QUERY_MESSAGE, ResponseCode.SYSTEM_ERROR, "index broken")
    with pytest.raises(MQClientException) as caught:
        queries.query_message("T", "k", 10, 0, 1)
    assert caught.value.response_code == 208
    assert "index broken" in str(caught.value.__cause__)
    assert "_UNIQUE_KEY_QUERY" not in cluster.brokers[0].of(RequestCode.QUERY_MESSAGE)[0].ext_fields

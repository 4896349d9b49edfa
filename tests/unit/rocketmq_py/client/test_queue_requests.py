"""What requests about a queue say on the wire, and what their answers mean."""

from __future__ import annotations

import pytest

from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.queue_requests import QueueRequests, RawPull, pull_answer, queue_request
from rocketmq_py.errors import FlowControlError, MQBrokerException, MQClientException
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import ADDRESS, pulled, refusal
from tests.unit.rocketmq_py.scripted import ScriptedCluster

QUEUE = MessageQueue("T", "broker-a", 2)
OF_QUEUE = {"topic": "T", "queueId": "2", "bname": "broker-a"}


@pytest.mark.parametrize(
    ("code", "fields", "written"),
    [
        (RequestCode.GET_MAX_OFFSET, {}, {}),
        (RequestCode.GET_MIN_OFFSET, {}, {}),
        (RequestCode.GET_EARLIEST_MSG_STORETIME, {}, {}),
        (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"timestamp": 5}, {"timestamp": "5"}),
        (
            RequestCode.UPDATE_CONSUMER_OFFSET,
            {"consumer_group": "G", "commit_offset": 7},
            {"consumerGroup": "G", "commitOffset": "7"},
        ),
    ],
)
def test_a_request_about_a_queue_names_it_and_what_is_asked(
    code: RequestCode, fields: dict[str, object], written: dict[str, str]
) -> None:
    command = queue_request(code, QUEUE, **fields)
    assert (command.code, command.ext_fields) == (code, OF_QUEUE | written)


@pytest.mark.parametrize("code", [0, 19, 20, 21])
def test_the_four_results_of_a_pull_are_no_errors(code: int) -> None:
    answer = pull_answer(pulled(code=code, next_offset=7, min_offset=1, max_offset=9, suggest=1))
    assert answer == RawPull(code, 7, 1, 9, 1, b"")


@pytest.mark.parametrize("code", [1, 24, 25, ResponseCode.FLOW_CONTROL])
def test_any_other_answer_of_a_pull_is_an_error(code: int) -> None:
    with pytest.raises(MQBrokerException) as raised:
        pull_answer(refusal(code), ADDRESS)
    assert raised.value.code == code


def test_a_group_without_an_offset_has_none_and_other_refusals_are_errors(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    broker, requests = cluster.brokers[0], QueueRequests(instance, 3_000)
    broker.answer(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.QUERY_NOT_FOUND)
    assert requests.group_offset("G", QUEUE) is None
    broker.answer(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.SYSTEM_BUSY)
    with pytest.raises(FlowControlError):
        requests.group_offset("G", QUEUE)


def test_a_broker_that_no_route_names_is_an_error_of_the_client(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    with pytest.raises(MQClientException, match="broker-z is in no route of topic T") as caught:
        QueueRequests(instance, 3_000).max_offset(MessageQueue("T", "broker-z", 0))
    assert caught.value.response_code == 10003
    assert cluster.name_server.of(RequestCode.GET_ROUTEINFO_BY_TOPIC)

from __future__ import annotations

from concurrent.futures import Future

import pytest

from rocketmq_py.consumer.calls import ConsumerCalls, java_order
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.errors import MQBrokerException, MQClientException, RemotingTimeoutException
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import (
    ADDRESS,
    GROUP,
    FakeEngine,
    member_list,
    refusal,
)

QUEUE = MessageQueue("T", "broker-a", 2)


def calls(engine: FakeEngine) -> ConsumerCalls:
    return ConsumerCalls(engine, GROUP, PushConsumerConfig())


def test_members_are_sorted_as_java_sorts_strings() -> None:
    engine = FakeEngine()
    # Java compares UTF-16 units: the emoji's surrogates lie below U+FF5E.
    engine.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = member_list(
        "\uff5e", "b", "\U0001f600", "a"
    )
    assert calls(engine).consumer_ids([ADDRESS], 1_000) == ["a", "b", "\U0001f600", "\uff5e"]
    assert java_order("\U0001f600") < java_order("\uff5e")


def test_an_error_answer_carries_code_remark_and_address() -> None:
    engine = FakeEngine()
    engine.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda _: refusal(1, "no consumer")
    with pytest.raises(MQBrokerException, match="no consumer") as raised:
        calls(engine).consumer_ids([ADDRESS], 1_000)
    assert (raised.value.code, raised.value.broker_addr) == (1, ADDRESS)


def test_who_was_asked_first_is_named_when_nobody_tells_the_members(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = FakeEngine()

    def silent(address: str, *_: object) -> Future[RemotingCommand]:
        call: Future[RemotingCommand] = Future()
        call.set_exception(RemotingTimeoutException("no answer", address=address))
        return call

    monkeypatch.setattr(engine, "invoke_async", silent)
    with pytest.raises(RemotingTimeoutException) as raised:
        calls(engine).consumer_ids([ADDRESS, "10.0.0.8:10911"], 10)
    assert raised.value.address == ADDRESS


def test_a_broker_that_is_in_no_route_is_named_after_the_route_was_asked() -> None:
    engine = FakeEngine()
    engine.addresses.clear()
    with pytest.raises(MQClientException, match="broker-a"):
        calls(engine).max_offset(QUEUE)
    assert engine.route_questions == ["T"]


def test_an_offset_is_written_one_way_with_everything_that_names_it() -> None:
    engine = FakeEngine()
    calls(engine).store_offset(QUEUE, 7)
    (command,) = engine.oneways
    assert command.code == RequestCode.UPDATE_CONSUMER_OFFSET
    assert command.ext_fields == {
        "consumerGroup": GROUP,
        "topic": "T",
        "queueId": "2",
        "commitOffset": "7",
        "bname": "broker-a",
    }

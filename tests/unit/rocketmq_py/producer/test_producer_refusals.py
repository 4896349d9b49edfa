"""What a producer refuses of settings and arguments, so that nothing is ignored in silence."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_py import Credentials, DefaultMQProducer, Message
from rocketmq_py.errors import ConfigError, DelayConflictError, DelayValueError, MQClientException
from rocketmq_py.producer.config import ProducerConfig
from tests.unit.rocketmq_py.producer.conftest import ProducerMaker
from tests.unit.rocketmq_py.scripted import ScriptedCluster


@pytest.mark.parametrize("timeout", [0, -1, 0.5, 2.5, float("nan"), float("inf")])
def test_a_timeout_that_is_hardly_milliseconds_is_refused_with_the_unit(
    cluster: ScriptedCluster, start: ProducerMaker, timeout: Any
) -> None:
    producer, message = start(cluster.namesrv_addr), Message("T", b"x")
    sends = (producer.send, producer.send_async)
    for send in (*sends, lambda one, **how: producer.send_batch([one], **how)):
        with pytest.raises(ConfigError, match="milliseconds, a whole number from 1"):
            send(message, timeout=timeout)
    assert cluster.sends() == []
    assert producer.send(message, timeout=3000.0).msg_id  # type: ignore[call-overload] # a whole number


@pytest.mark.parametrize(
    ("setting", "value", "unit"),
    [
        ("send_msg_timeout", 0.5, "an int of milliseconds"),
        ("send_msg_timeout", 0, "at least 1 milliseconds"),
        ("send_msg_max_timeout_per_request", 0.5, "milliseconds"),
        ("connect_timeout", 0, "milliseconds"),
        ("mq_client_api_timeout", 2.5, "milliseconds"),
    ],
)
def test_a_setting_that_is_hardly_a_time_is_refused_with_the_unit(
    setting: str, value: Any, unit: str
) -> None:
    with pytest.raises(ConfigError, match=unit):
        DefaultMQProducer("G", **{setting: value})


@pytest.mark.parametrize(
    ("attribute", "value", "advice"),
    [
        ("namesrv_addr", "127.0.0.1:2", "update_name_server_address"),
        ("instance_name", "other", "new client"),
        ("credentials", Credentials("id", "secret"), "new client"),
        ("connect_timeout", 7, "new client"),
        ("async_sender_threads", 7, "new client"),
        ("producer_group", "other", "new client"),
    ],
)
def test_what_start_has_read_cannot_be_assigned_any_more(
    cluster: ScriptedCluster, start: ProducerMaker, attribute: str, value: object, advice: str
) -> None:
    producer = start(cluster.namesrv_addr)
    before = getattr(producer, attribute)
    setattr(producer, attribute, before)  # nothing that could be ignored
    with pytest.raises(ConfigError, match=f"start.. has read .*{advice}"):
        setattr(producer, attribute, value)
    assert getattr(producer, attribute) is before


def test_what_is_read_later_can_be_assigned_while_it_runs(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    producer.max_message_size = 2
    with pytest.raises(MQClientException, match="max_message_size"):
        producer.send(Message("T", b"xyz"))
    producer.update_name_server_address("127.0.0.1:2")
    assert producer.namesrv_addr == "127.0.0.1:2"
    with pytest.raises(ConfigError, match="update_name_server_address"):
        producer.namesrv_addr = "127.0.0.1:3"
    copy = ProducerConfig.of(producer)
    copy.namesrv_addr = "127.0.0.1:4"  # settings of a client that is not made yet


def test_seconds_in_a_property_that_the_program_wrote_are_found_by_the_send(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    message = Message("T", b"x", properties={"TIMER_DELIVER_MS": "1700000000"})
    with pytest.raises(DelayValueError, match="milliseconds"):
        producer.send(message)
    message.properties["TIMER_OUT_MS"] = "5"  # the past of a message that is sent on: no request
    with pytest.raises(DelayConflictError, match="from_ext"):
        producer.send(message)


def test_who_is_endlessly_patient_shuts_down_as_soon_as_all_is_done(
    cluster: ScriptedCluster, start: ProducerMaker, caplog: pytest.LogCaptureFixture
) -> None:
    producer = start(cluster.namesrv_addr)
    producer.send(Message("T", b"x"))
    producer.shutdown(float("inf"))
    assert caplog.records == []

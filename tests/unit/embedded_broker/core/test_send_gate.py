"""Who may send what to which topic, asked of the gate itself."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from embedded_broker.clocks.clock import VirtualClock
from embedded_broker.core.environment import Environment
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.core.send_gate import SendGate, stored_sys_flag
from embedded_broker.core.send_values import Incoming, Terms
from embedded_broker.door import Door
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.profiles import LIMITS, find_profile
from embedded_broker.tables.topics.table import TopicTable
from rocketmq_py.protocol.bodies.topics import TopicConfig
from tests.unit.embedded_broker.store.store_tools import new_store


def gate(profile: str = "rocketmq-5.x", limits: str = "broker", **options: object) -> SendGate:
    """A gate in front of T (4 queues to write to) and R (read only)."""
    config, clock = BrokerConfig(options), VirtualClock()
    topics = TopicTable(
        config, find_profile(profile), clock, cluster_name="C", broker_name="broker-a"
    )
    topics.put(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4, perm=6))
    topics.put(TopicConfig(topic_name="R", read_queue_nums=4, write_queue_nums=4, perm=4))
    topics.put(TopicConfig(topic_name="E", read_queue_nums=1, write_queue_nums=0, perm=6))
    env = Environment(
        door=Door(),
        clock=clock,
        session_clock=clock,
        config=config,
        profile=find_profile(profile),
        limits=LIMITS[limits],
        store=new_store(),
        random=Random(1),
        cluster_name="C",
        broker_name="broker-a",
        address="127.0.0.1:1",
    )
    return SendGate(env=env, topics=topics)


def message(topic: str = "T", body: bytes = b"x", **terms: object) -> Incoming:
    return Incoming(topic, body, "", 0, Terms(**terms))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "options", "reason", "piece"),
    [
        (message("no such"), {"brokerPermission": 4}, Reason.NO_PERMISSION, "brokerPermission=4"),
        (message("SCHEDULE_TOPIC_XXXX"), {}, Reason.NO_PERMISSION, "forbidden"),
        (message("rmq_sys_wheel_timer"), {}, Reason.NO_PERMISSION, "forbidden"),
        (message("rmq_sys_REVIVE_LOG_C"), {}, Reason.NO_PERMISSION, "forbidden"),
        (message("rmq_sys_SYNC_BROKER_MEMBER_b"), {}, Reason.NO_PERMISSION, "forbidden"),
        (message("no such"), {}, Reason.INVALID_PARAMETER, "no such"),
        (message("N", template="T"), {}, Reason.TOPIC_NOT_EXIST, "defaultTopic[T]"),
        (message("R", b"", queue_id=9), {}, Reason.NO_PERMISSION, "perm=4"),
        (message("T", b"", queue_id=4), {}, Reason.INVALID_PARAMETER, "queueId[4]"),
        (message("E"), {}, Reason.INVALID_PARAMETER, "queueId[-1]"),
        (message(body=b""), {}, Reason.FAILED, "no body"),
    ],
)
def test_the_first_check_that_fails_refuses(
    asked: Incoming, options: dict[str, Any], reason: Reason, piece: str
) -> None:
    with pytest.raises(Refused) as refused:
        gate(**options).topic_for(asked)
    assert refused.value.reason is reason
    assert piece in refused.value.remark


def test_another_broker_sends_what_is_due_there_but_nothing_that_waits() -> None:
    """A slave that acts as master (`EscapeBridge`) sends check points of pops, too."""
    name = "rmq_sys_REVIVE_LOG_C"
    assert gate().topic_for(message(name, is_escaped=True)).topic_name == name
    for waiting in ("rmq_sys_wheel_timer", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"):
        with pytest.raises(Refused, match="forbidden"):
            gate().topic_for(message(waiting, is_escaped=True))


def test_an_empty_body_passes_in_4_9() -> None:
    assert gate("rocketmq-4.9").topic_for(message(body=b"")).topic_name == "T"


def test_a_retry_topic_is_made_without_a_template() -> None:
    assert gate().topic_for(message("%RETRY%g")).write_queue_nums == 1


def test_a_queue_below_0_means_any_of_the_topic() -> None:
    own = gate()
    topic = own.topic_for(message())
    assert own.queue_for(message(queue_id=3), topic) == 3
    assert {own.queue_for(message(), topic) for _ in range(99)} == {0, 1, 2, 3}


def test_types_are_checked_where_the_limits_or_an_option_say_so() -> None:
    topic = TopicConfig(topic_name="T", attributes={"message.type": "NORMAL"})
    gate().check_type(topic, {"DELAY": "3"})
    for own in (gate(limits="proxy"), gate(enforceTopicMessageType=True)):
        assert own.checks_types
        own.check_type(topic, {})
        with pytest.raises(Refused) as refused:
            own.check_type(topic, {"DELAY": "3"})
        assert refused.value.reason is Reason.MESSAGE_ILLEGAL
    assert not gate("rocketmq-4.9", limits="proxy").checks_types


def test_the_property_says_what_is_half_a_transaction_and_the_bit_alone_is_refused() -> None:
    half = {"TRAN_MSG": "true"}
    assert gate().is_half(message(), half)
    assert not gate().is_half(message(), {})
    with pytest.raises(Refused, match="TRAN_MSG"):
        gate().is_half(message(sys_flag=4), {})
    with pytest.raises(Refused, match="rejectTransactionMessage=true"):
        gate(rejectTransactionMessage=True).is_half(message(), half)


@pytest.mark.parametrize("name", ["DELAY", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
def test_a_batch_asks_for_no_delay(name: str) -> None:
    gate().check_no_delay({"a": "b"})
    with pytest.raises(Refused, match="one by one"):
        gate().check_no_delay({name: "3"})


def test_the_alias_of_a_deliver_time_is_a_users_property_while_it_is_switched_off() -> None:
    asked = {"__STARTDELIVERTIME": "3"}
    gate(startDeliverTimeEnable=False).check_no_delay(asked)
    with pytest.raises(Refused):
        gate(startDeliverTimeEnable=True).check_no_delay(asked)


def test_a_topic_of_several_tags_marks_what_is_stored() -> None:
    assert stored_sys_flag(1, TopicConfig(topic_name="T")) == 1
    assert stored_sys_flag(1, TopicConfig(topic_name="T", topic_filter_type="MULTI_TAG")) == 3

"""Queues of a namespace are read and written by bare names; the wire has the wrapped ones."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from queue import SimpleQueue

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import ConfigError, FlowControlError, MessageQueue, NoRouteError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.raw import NamespacedQueueAccess, QueueAccess, RunOutcome, SendOutcome, SendRun

ID = "UNIQ_KEY\x01A\x02"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=["shop%T", "T", "other%T"], clock=VirtualClock()) as started:
        yield started


@pytest.fixture
def access(broker: EmbeddedBroker) -> Iterator[NamespacedQueueAccess]:
    with NamespacedQueueAccess("shop", namesrv_addr=broker.namesrv_addr) as started:
        yield started


def one_of_a_run(access: QueueAccess, queue: MessageQueue, body: bytes) -> SendOutcome:
    told: SimpleQueue[RunOutcome] = SimpleQueue()
    access.send_run(SendRun(queue, [body], [ID]), told.put)
    return told.get(timeout=30)[0]


def test_every_call_with_a_name_wraps_it() -> None:
    for name, call in inspect.getmembers(QueueAccess, inspect.isfunction):
        words = {"topic", "topics", "queue", "group", "run"} & {*inspect.signature(call).parameters}
        if not name.startswith("_") and words:
            assert wraps_names(call), f"{name} would send bare names"


def wraps_names(call: Callable[..., object]) -> bool:
    """Whether a call makes wire names, itself or by another call."""
    source = inspect.getsource(call)
    others = set(re.findall(r"self\.(\w+)\(", source)) - {call.__name__}
    found = (getattr(QueueAccess, name, None) for name in others)
    return "self._wire" in source or any(wraps_names(one) for one in found if callable(one))


def test_a_second_namespace_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"namespace='other'|namespace = 'other'"):
        NamespacedQueueAccess("shop", namespace="other")


def test_topics_of_the_namespace_are_seen_and_no_others(access: NamespacedQueueAccess) -> None:
    assert access.topic_names() == ["T"]
    assert {queue.topic for queue in access.read_queues("T")} == {"T"}
    assert access.broker_names("T") == ["broker-a"]
    with pytest.raises(NoRouteError, match=r"topic shop%other%T at"):
        access.read_queues("other%T")


def test_what_is_sent_is_read_back_and_nobody_else_sees_it(
    broker: EmbeddedBroker, access: NamespacedQueueAccess
) -> None:
    queue = access.write_queues("T")[0]
    assert access.send(queue, b"one", properties=ID).result(30).queue == queue
    sent = one_of_a_run(access, queue, b"two").result()
    assert (sent.queue, sent.queue_offset) == (queue, 1)
    assert [message.body for message in broker.messages.in_topic("shop%T")] == [b"one", b"two"]
    assert broker.messages.in_topic("T") == []
    assert access.bounds("T")[queue].max_offset == access.max_offset(queue) == 2
    assert (access.min_offset(queue), access.search_offset(queue, 0)) == (0, 0)
    message = access.message_at(queue, 1)
    assert message is not None
    assert (message.topic, message.body) == ("T", b"two")


def test_a_refusal_arrives_as_it_is(broker: EmbeddedBroker, access: NamespacedQueueAccess) -> None:
    queue = access.write_queues("T")[0]
    broker.faults.on(RequestCode.SEND_MESSAGE_V2).respond(ResponseCode.SYSTEM_BUSY).always()
    assert isinstance(one_of_a_run(access, queue, b"x").error, FlowControlError)
    with pytest.raises(FlowControlError):
        access.send(queue, b"x", properties=ID).result(30)


def test_offsets_belong_to_the_group_of_the_namespace(
    broker: EmbeddedBroker, access: NamespacedQueueAccess
) -> None:
    queue = access.read_queues("T")[0]
    access.pull(queue, 0, group="G").result(30)
    access.store_group_offset("G", queue, 3)
    assert access.group_offset("G", queue) == 3
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as bare:
        wrapped = MessageQueue("shop%T", queue.broker_name, queue.queue_id)
        assert bare.group_offset("shop%G", wrapped) == 3
        assert bare.group_offset("G", wrapped) is None


def test_a_timer_is_taken_back(broker: EmbeddedBroker, access: NamespacedQueueAccess) -> None:
    queue = access.write_queues("T")[0]
    sent = access.send(queue, b"x", properties=f"{ID}TIMER_DELAY_MS\x0160000\x02").result(30)
    assert sent.recall_handle is not None
    access.recall("T", sent.recall_handle).result(30)
    assert isinstance(broker.clock, VirtualClock)
    broker.clock.advance(120)
    assert broker.messages.in_topic("shop%T") == []

"""What a request says, what an answer means, and what hooks see."""

from __future__ import annotations

import threading
import zlib
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py import DefaultMQProducer, Message, MessageQueue, ProducerConfig
from rocketmq_py.client.hooks import CheckForbiddenContext, SendMessageContext
from rocketmq_py.errors import MQBrokerException, MQClientException
from rocketmq_py.producer.send_kernel import SendKernel, give_id
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.compression import decompress
from rocketmq_py.protocol.properties import decode_properties
from rocketmq_py.protocol.sysflag import CompressionType
from tests.unit.rocketmq_py.producer.conftest import ProducerMaker
from tests.unit.rocketmq_py.scripted import ScriptedCluster, stored

SEND = RequestCode.SEND_MESSAGE_V2


class Watching:
    """A send hook that remembers, and fails when told to."""

    def __init__(self, fails: bool = False) -> None:
        self.seen: list[SendMessageContext] = []
        self.after_calls = 0
        self.all_told = threading.Event()
        self._fails = fails

    def before(self, context: SendMessageContext) -> None:
        self.seen.append(context)
        if self._fails:
            raise ValueError("the hook's own trouble")

    def after(self, context: SendMessageContext) -> None:
        self.after_calls += 1
        if self.after_calls == 3:
            self.all_told.set()
        if self._fails:
            raise ValueError("the hook's own trouble")


class Forbidding:
    def __init__(self, error: Exception) -> None:
        self._error = error
        self.modes: list[str] = []

    def check(self, context: CheckForbiddenContext) -> None:
        self.modes.append(context.mode)
        raise self._error


def test_a_request_carries_every_field_of_a_java_5_client(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    start(cluster.namesrv_addr, unit_mode=True).send(Message("T", b"x", tags="a", flag=9))
    (request,) = cluster.sends()
    fields = request.ext_fields
    assert set("abcdefghijkmn") == set(fields)
    assert [fields[name] for name in "abcdfhjkmn"] == [
        *("G", "T", "TBW102", "4", "0", "9", "0", "true", "false", "broker-a"),
    ]
    properties = decode_properties(fields["i"])
    assert (properties["TAGS"], properties["WAIT"]) == ("a", "true")
    assert fields["i"].endswith("\x02")


def test_sends_to_a_retry_topic_carry_the_counters_in_the_header(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    cluster.routes["%RETRY%C"] = cluster.whole_route()
    message = Message("%RETRY%C", b"x")
    message.properties |= {"RECONSUME_TIME": "2", "MAX_RECONSUME_TIMES": "16"}
    start(cluster.namesrv_addr).send(message)
    fields = cluster.sends()[0].ext_fields
    assert (fields["j"], fields["l"]) == ("2", "16")
    assert "RECONSUME" not in fields["i"]
    assert message.properties["RECONSUME_TIME"] == "2"


@pytest.mark.parametrize("kind", [CompressionType.LZ4, CompressionType.ZSTD])
def test_other_compressions_say_so_in_the_system_flag(
    cluster: ScriptedCluster, start: ProducerMaker, kind: CompressionType
) -> None:
    producer = start(cluster.namesrv_addr, compress_type=kind)
    producer.send(Message("T", b"a" * 5000))
    (request,) = cluster.sends()
    flag = int(request.ext_fields["f"])
    assert flag == 1 | kind << 8
    assert decompress(request.body, flag) == b"a" * 5000


@pytest.mark.parametrize("level", [0, 1, 9])
def test_a_body_is_compressed_at_the_level_of_the_setting(
    cluster: ScriptedCluster, start: ProducerMaker, level: int
) -> None:
    body = bytes(range(256)) * 40 + b"a" * 5_000
    start(cluster.namesrv_addr, compress_level=level).send(Message("T", body))
    assert cluster.sends()[0].body == zlib.compress(body, level)


def test_the_answer_decides_queue_region_and_trace(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    def elsewhere(request: RemotingCommand, _: object) -> RemotingCommand:
        return stored(request, MSG_REGION="R", TRACE_ON="false", queueId="3", recallHandle="h")

    cluster.brokers[0].on(SEND, elsewhere)
    result = start(cluster.namesrv_addr).send(Message("T", b"x"))
    assert (result.region_id, result.trace_on, result.recall_handle) == ("R", False, "h")
    assert result.message_queue.queue_id == 3


def test_an_answer_without_its_fields_says_that_the_message_is_stored(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    cluster.brokers[0].answer(SEND, 0)
    producer = start(cluster.namesrv_addr, retry_times_when_send_failed=0)
    with pytest.raises(MQClientException, match=r"stored the message.*msgId"):
        producer.send(Message("T", b"x"))


@pytest.mark.parametrize("fails", [False, True])
def test_send_hooks_see_every_attempt_and_cannot_break_it(
    cluster: ScriptedCluster, start: ProducerMaker, fails: bool
) -> None:
    producer, hook = start(cluster.namesrv_addr), Watching(fails)
    producer.register_send_message_hook(hook)
    result = producer.send(Message("T", b"x"))
    producer.send_async(Message("T", b"x")).result(30)
    producer.send_oneway(Message("T", b"x"))
    assert hook.all_told.wait(30)  # of an asynchronous send on a callback thread
    assert [context.mode for context in hook.seen] == ["SYNC", "ASYNC", "ONEWAY"]
    assert hook.seen[0].result == result
    assert (hook.seen[0].broker_address, hook.after_calls) == (cluster.brokers[0].address, 3)


def test_hooks_of_the_sdk_learn_an_outcome_before_it_is_told_and_those_of_others_later() -> None:
    own, theirs, later = Watching(), Watching(), list[partial[object]]()
    instance: Any = SimpleNamespace(submit_callback=lambda *call: later.append(partial(*call)))
    kernel = SendKernel("G", ProducerConfig(), instance, [theirs], [], (own,))
    queue = MessageQueue("T", "b", 0)
    context = kernel.before(kernel.prepare(Message("T", b"x")), queue, "h:1", "ASYNC")
    assert context is not None
    kernel.after_async(context, None, LookupError("no answer"))
    assert (own.after_calls, theirs.after_calls) == (1, 0)
    (call,) = later
    call()
    assert (own.after_calls, theirs.after_calls) == (1, 1)


def test_send_hooks_see_the_failure(cluster: ScriptedCluster, start: ProducerMaker) -> None:
    producer, hook = start(cluster.namesrv_addr), Watching()
    producer.register_send_message_hook(hook)
    cluster.brokers[0].answer(SEND, 13)
    with pytest.raises(MQBrokerException) as caught:
        producer.send(Message("T", b"x"))
    assert (hook.seen[0].exception, hook.seen[0].result) == (caught.value, None)


@pytest.mark.case("T62")
def test_a_forbidden_send_is_raised_to_the_caller_and_nothing_is_sent(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer, hook = start(cluster.namesrv_addr), Forbidding(MQClientException("not today"))
    producer.register_check_forbidden_hook(hook)
    for send in (producer.send, producer.send_oneway):
        with pytest.raises(MQClientException, match="not today"):
            send(Message("T", b"x"))
    with pytest.raises(MQClientException, match="not today"):
        producer.send_async(Message("T", b"x")).result(30)
    assert hook.modes == ["SYNC", "ONEWAY", "ASYNC"]
    assert cluster.sends() == []


def test_a_producer_is_shown_with_its_group_and_state() -> None:
    assert repr(DefaultMQProducer("G")) == "DefaultMQProducer('G', new)"


def test_an_id_is_made_once_and_kept() -> None:
    message = Message("T", b"x")
    first = give_id(message)
    assert len(first) == 32
    assert (give_id(message), message.properties["UNIQ_KEY"]) == (first, first)
    assert give_id(Message("T", b"x")) != first

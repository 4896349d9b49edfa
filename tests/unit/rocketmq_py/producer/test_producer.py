"""The producer's face: life cycle, settings, and every way to send, against scripted servers."""

from __future__ import annotations

import gc
import inspect
import os
import pickle
import re
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest
from attrs import fields

from rocketmq_py import (
    ClientConfig,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageQueue,
    SendCallback,
    TransactionMQProducer,
)
from rocketmq_py.errors import (
    ClientClosedError,
    ConfigError,
    ForkedClientError,
    MQBrokerException,
    MQClientException,
    NameServerUnavailableError,
    NoRouteError,
    NotStartedError,
    RecallNotSupportedError,
    RemotingTimeoutException,
    ReservedPropertyError,
    SendFailedError,
    UnsupportedOperationError,
)
from rocketmq_py.producer.config import ProducerConfig
from rocketmq_py.producer.selection import select_message_queue_by_hash
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.handles import RecallHandle
from tests.unit.rocketmq_py.conftest import ClusterMaker
from tests.unit.rocketmq_py.producer.conftest import ProducerMaker
from tests.unit.rocketmq_py.scripted import ScriptedCluster
from tests.waiting import until

SEND = RequestCode.SEND_MESSAGE_V2


def unused_address() -> str:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


# --- life --------------------------------------------------------------------------------------


@pytest.mark.case("T2")
@pytest.mark.parametrize("group", ["DEFAULT_PRODUCER", "", " ", "a b", "g" * 121])
def test_a_group_that_no_producer_can_have_is_refused_at_start(group: str) -> None:
    with pytest.raises(MQClientException, match=r"group"):
        DefaultMQProducer(group, namesrv_addr="127.0.0.1:1").start()


@pytest.mark.case("T3")
def test_a_second_start_is_refused_and_the_producer_goes_on(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    with pytest.raises(MQClientException, match="starts once"):
        producer.start()
    assert producer.send(Message("T", b"x")).msg_id


@pytest.mark.case("T3")
def test_a_second_producer_of_client_and_group_is_refused_and_the_first_goes_on(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    first = start(cluster.namesrv_addr, instance_name="shared")
    with pytest.raises(MQClientException, match="created before"):
        start(cluster.namesrv_addr, instance_name="shared")
    other = start(cluster.namesrv_addr, group="G2", instance_name="shared")
    assert other.client_id == first.client_id
    assert first.send(Message("T", b"x")).msg_id


@pytest.mark.case("T4")
def test_after_shutdown_sends_are_refused_and_another_shutdown_does_nothing(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    producer.send(Message("T", b"x"))
    producer.shutdown()
    producer.shutdown()
    for send in (producer.send, producer.send_async, producer.send_oneway):
        with pytest.raises(ClientClosedError):
            send(Message("T", b"x"))
    with pytest.raises(ClientClosedError):
        producer.start()
    unregistered = cluster.brokers[0].of(RequestCode.UNREGISTER_CLIENT)
    assert [request.ext_fields["producerGroup"] for request in unregistered] == ["G"]


def test_a_producer_that_was_not_started_says_so() -> None:
    with pytest.raises(NotStartedError, match="start"):
        DefaultMQProducer("G").send(Message("T", b"x"))
    DefaultMQProducer("G").shutdown()


@pytest.mark.case("T5")
def test_without_a_name_server_address_a_send_fails_with_10004(start: ProducerMaker) -> None:
    with pytest.raises(NameServerUnavailableError, match="NAMESRV_ADDR") as caught:
        start("").send(Message("T", b"x"))
    assert caught.value.response_code == 10004
    assert isinstance(caught.value, MQClientException)


@pytest.mark.case("T5")
def test_an_unknown_topic_without_auto_creation_fails_with_10005(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    with pytest.raises(NoRouteError, match="unknown-topic") as caught:
        start(cluster.namesrv_addr).send(Message("unknown-topic", b"x"))
    assert caught.value.response_code == 10005


@pytest.mark.case("T6")
@pytest.mark.parametrize(("template", "wanted"), [(8, 4), (2, 2)])
def test_an_unknown_topic_borrows_at_most_four_queues_of_the_auto_topic(
    cluster: ScriptedCluster, start: ProducerMaker, template: int, wanted: int
) -> None:
    cluster.routes["TBW102"] = cluster.whole_route(queues=template)
    producer = start(cluster.namesrv_addr)
    assert len(producer.fetch_publish_message_queues("new")) == wanted
    producer.send(Message("new", b"x"))
    header = cluster.sends()[0].ext_fields
    assert (header["c"], header["d"]) == ("TBW102", "4")


@pytest.mark.case("T7")
def test_a_known_route_outlives_the_name_server(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    producer.send(Message("T", b"x"))
    cluster.name_server.close()
    assert producer.send(Message("T", b"y")).queue_offset == 7


@pytest.mark.case("T8")
def test_start_needs_no_name_server_but_the_first_send_tells_the_cause(
    start: ProducerMaker,
) -> None:
    producer = start(f"{unused_address()};{unused_address()}")
    with pytest.raises(NameServerUnavailableError, match="refused") as caught:
        producer.send(Message("T", b"x"))
    assert isinstance(caught.value.__cause__, ConnectionError)


def test_a_checked_start_fails_at_once_and_leaves_nothing_behind(
    cluster: ScriptedCluster,
) -> None:
    before = threading.active_count()
    producer = DefaultMQProducer("G", namesrv_addr=unused_address())
    with pytest.raises(NameServerUnavailableError):
        producer.start(check=True)
    assert threading.active_count() == before
    with pytest.raises(MQClientException, match="failed"):
        producer.start()
    checked = DefaultMQProducer("G", namesrv_addr=cluster.namesrv_addr)
    checked.start(check=True)
    checked.shutdown()


def test_topics_named_up_front_are_looked_up_by_start(cluster: ScriptedCluster) -> None:
    producer = DefaultMQProducer("G", namesrv_addr=cluster.namesrv_addr, topics=["T", "none"])
    with producer:
        asked = cluster.name_server.of(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        assert {"T", "none"} <= {request.ext_fields["topic"] for request in asked}
        cluster.brokers[0].wait_for(RequestCode.HEART_BEAT)


@pytest.mark.case("T101")
def test_a_hundred_cycles_leave_no_thread_and_no_descriptor(cluster: ScriptedCluster) -> None:
    producers = WeakSet[DefaultMQProducer]()

    def cycle() -> None:
        with DefaultMQProducer("G", namesrv_addr=cluster.namesrv_addr) as producer:
            producers.add(producer)
            producer.send(Message("T", b"x"))
            producer.send_async(Message("T", b"y")).result(30)

    def state() -> tuple[set[str], int]:
        names = {thread.name for thread in threading.enumerate() if "rocketmq" in thread.name}
        return names, sum(map(is_epoll, Path("/proc/self/fd").iterdir()))

    def is_epoll(fd: Path) -> bool:
        try:
            return "eventpoll" in str(fd.readlink())
        except OSError:
            return False  # closed meanwhile

    cycle()
    until(lambda: not state()[0])
    before = state()
    for _ in range(100):
        cycle()
    until(lambda: state() == before)
    assert before[0] == set()
    gc.collect()
    assert not producers


def test_shutdown_gives_sends_in_flight_their_time_and_then_an_error(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    producer.send(Message("T", b"x"))
    cluster.brokers[0].silent(SEND)
    # Their time is longer than a test may take: a shutdown that waited for them would not return.
    futures = [producer.send_async(Message("T", b"y"), timeout=600_000) for _ in range(20)]
    producer.shutdown(timeout=0.2)
    for future in futures:
        with pytest.raises(ClientClosedError, match="shut down"):
            future.result(0)


@pytest.mark.case("T28")
def test_shutdown_waits_for_the_answers_of_a_thousand_sends(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    futures = [producer.send_async(Message("T", b"y")) for _ in range(1000)]
    producer.shutdown(timeout=20)
    assert all(future.result(0).msg_id for future in futures)


@pytest.mark.case("T99")
def test_a_forked_child_is_told_to_make_its_own_producer(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    producer.send(Message("T", b"x"))
    reader, writer = os.pipe()
    child = _fork_quietly()
    if child == 0:
        try:
            producer.send(Message("T", b"x"))
        except ForkedClientError:
            os.write(writer, b"forked")
        finally:
            producer.shutdown()
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    assert os.read(reader, 100) == b"forked"
    os.close(reader)
    assert producer.send(Message("T", b"y")).msg_id  # the child has closed nothing of ours


def _fork_quietly() -> int:
    return os.fork()


def test_a_producer_is_never_pickled_but_its_settings_are() -> None:
    producer = DefaultMQProducer("G", namesrv_addr="127.0.0.1:1", send_msg_timeout=77)
    with pytest.raises(TypeError, match=r"ProducerConfig\.of"):
        pickle.dumps(producer)
    copy = pickle.loads(pickle.dumps(ProducerConfig.of(producer)))  # noqa: S301 - our own bytes
    assert copy.send_msg_timeout == 77


# --- settings ----------------------------------------------------------------------------------


def test_settings_come_as_keywords_as_an_object_and_as_attributes() -> None:
    base = ClientConfig(namesrv_addr="10.0.0.1:9876", instance_name="i")
    producer = DefaultMQProducer.of(base, "G", retry_times_when_send_failed=5)
    assert (producer.producer_group, producer.namesrv_addr) == ("G", "10.0.0.1:9876")
    assert producer.retry_times_when_send_failed == 5
    producer.send_msg_timeout = 10_000
    assert ProducerConfig.of(producer).send_msg_timeout == 10_000
    with pytest.raises(ConfigError, match="send_msg_timeout"):
        producer.send_msg_timeout = 0
    with pytest.raises(TypeError, match="did you mean send_msg_timeout"):
        DefaultMQProducer("G", send_msg_timeot=1)  # type: ignore[call-arg]


def test_every_setting_is_an_argument_and_an_attribute_and_explained() -> None:
    producer, arguments = DefaultMQProducer("G"), inspect.signature(DefaultMQProducer).parameters
    text = inspect.getdoc(DefaultMQProducer) or ""
    for setting in fields(ProducerConfig):
        assert getattr(producer, setting.name) == getattr(ProducerConfig(), setting.name)
        assert arguments[setting.name].kind is inspect.Parameter.KEYWORD_ONLY
        assert re.search(rf"^(\w+, )*{setting.name}(, \w+)*$", text, re.MULTILINE), setting.name


# --- what can be sent --------------------------------------------------------------------------


@pytest.mark.case("T1")
def test_a_send_returns_status_id_and_a_queue_of_the_route(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    result = producer.send(Message("T", b"x"))
    assert result.send_status.name == "SEND_OK"
    assert len(result.msg_id) == 32
    assert result.message_queue in producer.fetch_publish_message_queues("T")


@pytest.mark.case("T9")
def test_topic_names_are_checked_before_anything_is_sent(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    longest = "t" * 127
    cluster.routes[longest] = cluster.whole_route()
    producer = start(cluster.namesrv_addr)
    assert producer.send(Message(longest, b"x")).msg_id
    for topic in ("t" * 128, "a b", "", "SCHEDULE_TOPIC_XXXX"):
        with pytest.raises(MQClientException):
            producer.send(Message(topic, b"x"))
    assert len(cluster.sends()) == 1


@pytest.mark.case("T10")
def test_bodies_must_hold_something_and_no_more_than_the_limit(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr, compress_msg_body_over_howmuch=8 << 20)
    for body in (None, b"", bytes(4_194_305)):
        with pytest.raises(MQClientException) as caught:
            producer.send(Message("T", body))
        assert caught.value.response_code == 13
    assert producer.send(Message("T", bytes(4_194_304)), timeout=30_000).msg_id
    assert len(cluster.sends()) == 1


@pytest.mark.case("T12")
def test_bodies_are_compressed_from_4096_bytes_on(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    producer.send(Message("T", b"a" * 4095))
    producer.send(Message("T", b"a" * 4096))
    plain, packed = cluster.sends()
    assert (plain.ext_fields["f"], plain.body) == ("0", b"a" * 4095)
    assert packed.ext_fields["f"] == "1"
    assert len(packed.body) < 100


@pytest.mark.case("W44", "T32")
def test_reserved_and_unstorable_properties_are_refused_when_they_are_put() -> None:
    message = Message("T", b"x")
    with pytest.raises(ReservedPropertyError):
        message.put_user_property("TAGS", "a")
    with pytest.raises(ValueError, match="0001"):
        message.put_user_property("a", "b\x01c")


def test_too_many_properties_are_refused_before_sending(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    message = Message("T", b"x").put_user_property("big", "v" * 32_768)
    with pytest.raises(MQClientException, match="32767") as caught:
        start(cluster.namesrv_addr).send(message)
    assert caught.value.response_code == 13
    assert cluster.sends() == []


def test_a_message_keeps_its_id_when_it_is_sent_again_and_nothing_else_changes(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    message = Message("T", b"a" * 5000).set_start_deliver_time(4_000_000_000_000)
    before = dict(message.properties)
    ids = {producer.send(message).msg_id, producer.send(message).msg_id}
    assert ids == {message.properties.pop("UNIQ_KEY")}
    assert (message.properties, message.body) == (before, b"a" * 5000)


# --- queues ------------------------------------------------------------------------------------


@pytest.mark.case("T22")
def test_a_wrong_queue_or_a_bad_selector_ends_the_send_without_an_attempt(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    message = Message("T", b"x")

    def broken(queues: Sequence[MessageQueue], _message: Message, _arg: object) -> MessageQueue:
        return queues[99]

    with pytest.raises(MQClientException, match="not the queue's topic"):
        producer.send(message, queue=MessageQueue("U", "broker-a", 0))
    with pytest.raises(MQClientException) as caught:
        producer.send(message, selector=broken)
    assert isinstance(caught.value.__cause__, IndexError)
    with pytest.raises(MQClientException, match="no queue"):
        producer.send(message, selector=lambda *_: None)
    assert cluster.sends() == []


def test_a_queue_beside_a_selector_and_an_argument_without_one_are_refused(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    message, queue = Message("T", b"x"), MessageQueue("T", "broker-a", 0)
    sends: tuple[Callable[..., object], ...] = (
        *(producer.send, producer.send_async, producer.send_oneway),
        *(producer.request, producer.request_async),
    )
    for send in sends:
        with pytest.raises(TypeError, match="not both"):
            send(message, selector=select_message_queue_by_hash, arg=1, queue=queue)
        for how in ({}, {"queue": queue}):
            with pytest.raises(TypeError, match=r"arg= is for a selector=.*arg=7"):
                send(message, arg=7, **how)
    assert cluster.sends() == []


@pytest.mark.parametrize("name", ["onSuccess", "onException"])
def test_a_callback_with_javas_names_is_refused_since_nobody_would_call_it(name: str) -> None:
    with pytest.raises(TypeError, match=f"nobody calls Done.{name}: call it on_"):
        type("Done", (SendCallback,), {name: print})


def test_a_timeout_may_be_a_timedelta(cluster: ScriptedCluster, start: ProducerMaker) -> None:
    producer, message = start(cluster.namesrv_addr), Message("T", b"x")
    assert producer.send(message, timeout=timedelta(seconds=30)).msg_id
    with pytest.raises(ConfigError, match="milliseconds, a whole number from 1"):
        producer.send(message, timeout=timedelta(microseconds=300))
    producer.shutdown(timedelta(seconds=3))


def test_a_named_queue_and_a_hashed_argument_decide_where_a_message_goes(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    cluster.routes["T"] = cluster.whole_route(queues=8)
    producer = start(cluster.namesrv_addr)
    third = MessageQueue("T", "broker-a", 3)
    assert producer.send(Message("T", b"x"), queue=third).message_queue == third
    hashed = producer.send(Message("T", b"x"), selector=select_message_queue_by_hash, arg="order-1")
    assert hashed.message_queue.queue_id == 6


def test_a_failing_send_to_a_named_queue_is_not_repeated(
    clusters: ClusterMaker, start: ProducerMaker
) -> None:
    cluster = clusters(2)
    for broker in cluster.brokers:
        broker.answer(SEND, ResponseCode.SYSTEM_BUSY)
    with pytest.raises(MQBrokerException):
        start(cluster.namesrv_addr).send(Message("T", b"x"), queue=MessageQueue("T", "broker-b", 0))
    assert len(cluster.sends()) == 1


# --- one-way, batch, recall ----------------------------------------------------------------------


@pytest.mark.case("T24")
def test_oneway_raises_only_what_is_known_before_the_write(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    producer.send_oneway(Message("T", b"x"))
    assert cluster.brokers[0].wait_for(SEND)[0].is_oneway
    with pytest.raises(NoRouteError):
        producer.send_oneway(Message("unknown", b"x"))
    with pytest.raises(MQClientException):
        producer.send_oneway(Message("T", b""))
    producer.send_oneway(Message("T", b"x"), queue=MessageQueue("T", "broker-a", 2))
    assert cluster.brokers[0].wait_for(SEND, 2)[1].ext_fields["e"] == "2"


@pytest.mark.case("T29", "W48")
@pytest.mark.parametrize(
    "second",
    [
        Message("U", b"x"),
        Message("T", b"x").set_delay_time_level(3),
        Message("T", b"x").set_delay_time_sec(3),
        Message("T", b"x").set_start_deliver_time(4_000_000_000_000),
        Message("T", b"x", wait_store_msg_ok=False),
    ],
    ids=["topic", "level", "timer", "start-deliver", "wait"],
)
def test_a_batch_that_cannot_be_one_is_refused_and_nothing_is_sent(
    cluster: ScriptedCluster, start: ProducerMaker, second: Message
) -> None:
    producer = start(cluster.namesrv_addr)
    with pytest.raises(UnsupportedOperationError) as caught:
        producer.send_batch([Message("T", b"x"), second])
    assert isinstance(caught.value, MQClientException)
    assert cluster.brokers[0].of(RequestCode.SEND_BATCH_MESSAGE) == []


@pytest.mark.case("T29", "W48")
def test_a_batch_to_a_retry_topic_is_refused(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    with pytest.raises(UnsupportedOperationError, match="RETRY"):
        start(cluster.namesrv_addr).send_batch([Message("%RETRY%G", b"x")])


@pytest.mark.case("T30")
def test_a_batch_of_ten_is_one_request_and_has_ten_ids(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    messages = [Message("T", b"a" * 1000) for _ in range(10)]
    result = producer.send_batch(messages)
    assert result.msg_id.split(",") == [m.properties["UNIQ_KEY"] for m in messages]
    (request,) = cluster.brokers[0].of(RequestCode.SEND_BATCH_MESSAGE)
    assert (request.ext_fields["m"], request.ext_fields["f"]) == ("true", "0")
    assert "UNIQ_KEY" not in request.ext_fields["i"]


def test_a_handle_that_cannot_be_one_is_refused_locally(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    stranger = RecallHandle("T", "broker-z", 1, "A" * 32)
    for topic, handle in (("T", "junk!"), ("T", ""), ("%RETRY%G", "junk"), ("T", stranger)):
        with pytest.raises(MQClientException):
            producer.recall_message(topic, handle)
    assert cluster.brokers[0].of(RequestCode.RECALL_MESSAGE) == []


@pytest.mark.case("T57")
def test_a_broker_that_does_not_recall_is_told_from_one_that_is_asked_too_late(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    handle = RecallHandle("T", "broker-a", 1, "A" * 32)
    for code in (ResponseCode.NO_PERMISSION, ResponseCode.REQUEST_CODE_NOT_SUPPORTED):
        cluster.brokers[0].answer(RequestCode.RECALL_MESSAGE, code)
        with pytest.raises(RecallNotSupportedError, match="recallMessageEnable"):
            producer.recall_message("T", handle)
    cluster.brokers[0].answer(RequestCode.RECALL_MESSAGE, ResponseCode.ILLEGAL_OPERATION)
    with pytest.raises(MQBrokerException) as caught:
        producer.recall_message("T", handle.encode())
    assert caught.value.code == 604


def test_other_name_servers_can_be_named_while_running(
    clusters: ClusterMaker, start: ProducerMaker
) -> None:
    cluster = clusters(1)
    producer = start(unused_address())
    with pytest.raises(NameServerUnavailableError):
        producer.send(Message("T", b"x"))
    producer.update_name_server_address(cluster.namesrv_addr)
    assert producer.send(Message("T", b"x")).msg_id


def test_the_fast_port_is_two_below(clusters: ClusterMaker, start: ProducerMaker) -> None:
    cluster = clusters(1)
    fast = cluster.brokers[0]
    cluster.routes["T"].broker_datas[0].broker_addrs = {0: f"127.0.0.1:{fast.port + 2}"}
    producer = start(cluster.namesrv_addr, vip_channel_enabled=True)
    assert producer.send(Message("T", b"x")).msg_id
    assert len(fast.of(SEND)) == 1


def test_the_unreachable_address_of_a_route_can_be_mapped(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    real = cluster.brokers[0].address
    cluster.routes["T"].broker_datas[0].broker_addrs = {0: "192.0.2.1:10911"}
    producer = start(cluster.namesrv_addr, address_mapper=lambda _: real)
    assert producer.send(Message("T", b"x")).msg_id


def test_the_detector_lets_a_silent_broker_stay_unreachable(
    clusters: ClusterMaker, start: ProducerMaker
) -> None:
    cluster = clusters(2)
    producer = start(
        cluster.namesrv_addr,
        send_latency_enable=True,
        start_detector_enable=True,
        retry_times_when_send_failed=0,
        detect_interval=1,
        detect_timeout=30,
    )
    cluster.brokers[0].answer(SEND, ResponseCode.SYSTEM_BUSY)
    for _ in range(8):  # one of them meets the failing broker
        with suppress(SendFailedError):
            producer.send(Message("T", b"x"))
    engine = producer._engine
    assert engine is not None
    assert not engine.faults.is_reachable("broker-a")
    cluster.brokers[0].silent(RequestCode.GET_MAX_OFFSET)
    assert not engine._answers("broker-a")
    cluster.brokers[0].answer(RequestCode.GET_MAX_OFFSET, 0)
    assert engine._answers("broker-a")
    assert not engine._answers("broker-z")


@pytest.mark.case("T20")
def test_an_isolated_broker_is_avoided_by_the_next_sends(
    clusters: ClusterMaker, start: ProducerMaker
) -> None:
    cluster = clusters(2)
    producer = start(cluster.namesrv_addr, send_latency_enable=True)
    cluster.brokers[0].answer(SEND, ResponseCode.SYSTEM_BUSY)
    for _ in range(20):
        producer.send(Message("T", b"x"))
    assert len(cluster.brokers[0].of(SEND)) == 1


def test_a_time_out_names_the_silent_address(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    producer.send(Message("T", b"x"))  # the time is for the broker: it finds route and connection
    cluster.brokers[0].silent(SEND)
    with pytest.raises(RemotingTimeoutException, match=cluster.brokers[0].address):
        producer.send(Message("T", b"x"), timeout=50, queue=MessageQueue("T", "broker-a", 0))


# --- what is given by mistake -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "value", "hint"),
    [
        ("queue", 1, "queue is a MessageQueue, not int 1"),
        ("selector", 1, "selector is a callable"),
        ("timeout", "3", "timeout is a number of milliseconds or a timedelta, not str '3'"),
        ("timeout", True, "timeout is a number of milliseconds"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named_before_anything_is_sent(
    cluster: ScriptedCluster, start: ProducerMaker, argument: str, value: object, hint: str
) -> None:
    producer = start(cluster.namesrv_addr)
    wrong: dict[str, Any] = {argument: value}
    for send in (producer.send, producer.send_async):
        with pytest.raises(TypeError, match=hint):
            send(Message("T", b"x"), **wrong)
    assert cluster.sends() == []


def test_a_selector_that_returns_no_queue_is_told_what_it_returned(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    number: Any = lambda *_: 0  # noqa: E731 - what a program writes
    with pytest.raises(MQClientException, match="returned int 0 for topic T"):
        start(cluster.namesrv_addr).send(Message("T", b"x"), selector=number)
    assert cluster.sends() == []


def test_a_list_of_messages_is_sent_to_send_batch(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    several: Any = [Message("T", b"x"), Message("T", b"y")]
    with pytest.raises(MQClientException, match="not list; send_batch takes several"):
        producer.send(several)
    text: Any = "hello"
    with pytest.raises(MQClientException, match=r"not str$"):
        producer.send(text)


def test_a_batch_may_be_a_generator(cluster: ScriptedCluster, start: ProducerMaker) -> None:
    producer = start(cluster.namesrv_addr)
    result = producer.send_batch(Message("T", b"x") for _ in range(3))
    assert len(result.msg_id.split(",")) == 3


def test_a_topic_that_was_changed_to_no_text_is_refused(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    message: Any = Message("T", b"x")
    message.topic = 3
    with pytest.raises(MQClientException, match="topic is no str: int 3"):
        start(cluster.namesrv_addr).send(message)


def test_a_missing_handle_and_one_of_a_wrong_type_are_told_as_such(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr)
    for missing in (None, ""):
        with pytest.raises(MQClientException, match=r"handle is empty: .* with a delay level"):
            producer.recall_message("T", missing)
    number: Any = 5
    with pytest.raises(MQClientException, match="not int 5"):
        producer.recall_message("T", number)


@pytest.mark.parametrize(
    ("make", "name", "nearest"),
    [
        (DefaultMQProducer, "send_timeout", "send_msg_timeout"),
        (TransactionMQProducer, "transaction_listner", "transaction_listener"),
        (TransactionMQProducer, "max_mesage_size", "max_message_size"),
        (DefaultMQPushConsumer, "consume_from_were", "consume_from_where"),
    ],
)
def test_a_misspelt_attribute_is_refused_with_the_nearest_setting(
    make: Callable[[str], object], name: str, nearest: str
) -> None:
    client = make("G")
    with pytest.raises(AttributeError, match=f"has no setting '{name}'; did you mean {nearest}"):
        setattr(client, name, 5)
    assert not hasattr(client, name)


@pytest.mark.parametrize("name", ["topics", "rpc_hooks"])
def test_what_only_a_new_client_takes_is_refused_so(name: str) -> None:
    with pytest.raises(AttributeError, match=f"takes {name} when it is made"):
        setattr(TransactionMQProducer("G"), name, ())


def test_a_programs_own_producer_may_have_attributes_of_its_own() -> None:
    class Shop(DefaultMQProducer):
        def __init__(self) -> None:
            super().__init__("shop")
            self.sold = 0

    shop = Shop()
    shop.sold += 1
    shop.send_msg_timeout = 5
    assert (shop.sold, shop.send_msg_timeout) == (1, 5)

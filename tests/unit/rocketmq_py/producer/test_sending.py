"""Asynchronous sends: one outcome, told once, whatever happens in between."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import Queue
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageQueue,
    SendResult,
)
from rocketmq_py.client.hooks import SendMessageContext
from rocketmq_py.client.instance import ANSWER_THREADS
from rocketmq_py.errors import (
    MQBrokerException,
    MQClientException,
    NoRouteError,
    RemotingConnectException,
    RemotingSendRequestException,
    RocketMQError,
    SendFailedError,
    SendTimeoutError,
    TooManySendsError,
)
from rocketmq_py.producer.batch import make_batch
from rocketmq_py.producer.sending import PromptCallback, SendCallback
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.rocketmq_py.conftest import ClusterMaker
from tests.unit.rocketmq_py.producer.conftest import ProducerMaker
from tests.unit.rocketmq_py.scripted import ScriptedCluster, stored
from tests.waiting import until

SEND = RequestCode.SEND_MESSAGE_V2
BATCH = RequestCode.SEND_BATCH_MESSAGE


class Told(SendCallback):
    """Remembers outcomes and the threads that told them."""

    def __init__(self) -> None:
        super().__init__()
        self.results: list[SendResult] = []
        self.errors: list[Exception] = []
        self.threads: list[str] = []
        self.done = threading.Event()

    def on_success(self, result: SendResult) -> None:
        self.results.append(result)
        self._note()

    def on_exception(self, error: Exception) -> None:
        self.errors.append(error)
        self._note()

    def _note(self) -> None:
        self.threads.append(threading.current_thread().name)
        self.done.set()


def test_future_and_callback_see_the_same_result_on_a_callback_thread(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    told = Told()
    message = Message("T", b"x")
    future = start(cluster.namesrv_addr).send_async(message, told)
    assert message.properties["UNIQ_KEY"] == future.result(30).msg_id
    assert told.done.wait(30)
    assert (told.results, told.errors) == ([future.result()], [])
    assert told.threads[0].startswith("rocketmq-client-callback")


def test_a_prompt_callback_is_called_by_the_thread_that_has_the_outcome(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    class Prompt(Told, PromptCallback):
        pass

    told = Prompt()
    future = start(cluster.namesrv_addr).send_async(Message("T", b"x"), told)
    assert told.done.wait(30)
    assert told.results == [future.result(30)]
    assert not told.threads[0].startswith("rocketmq-client-callback")


def test_what_is_sent_cannot_be_cancelled(cluster: ScriptedCluster, start: ProducerMaker) -> None:
    future = start(cluster.namesrv_addr).send_async(Message("T", b"x"))
    assert not future.cancel()
    assert future.result(30).msg_id


def test_a_message_that_cannot_be_sent_is_an_outcome_and_no_exception(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer, told = start(cluster.namesrv_addr), Told()
    with pytest.raises(MQClientException):
        producer.send_async(Message("T", b""), told).result(30)
    assert told.done.wait(30)
    with pytest.raises(NoRouteError):
        producer.send_async(Message("unknown", b"x")).result(30)
    with pytest.raises(MQClientException, match="not the queue's topic"):
        producer.send_async(Message("T", b"x"), queue=MessageQueue("U", "b", 0)).result(30)


@pytest.mark.case("T25")
def test_a_broker_that_dies_after_the_write_is_replaced_with_a_header_of_its_own(
    clusters: ClusterMaker, start: ProducerMaker
) -> None:
    cluster = clusters(2)
    producer = start(cluster.namesrv_addr)
    for _ in range(2):
        producer.send(Message("T", b"warm"))
    first = cluster.brokers[0]
    first.on(SEND, lambda _, peer: peer.close())
    told = [Told() for _ in range(8)]
    futures = [producer.send_async(Message("T", b"x"), each) for each in told]
    assert all(future.result(10).message_queue.broker_name == "broker-b" for future in futures)
    assert all(each.done.wait(5) and len(each.results) == 1 for each in told)
    assert {request.ext_fields["n"] for request in cluster.brokers[1].of(SEND)} == {"broker-b"}


def test_a_transport_failure_ends_after_the_last_attempt_with_the_whole_story(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr, retry_times_when_send_async_failed=1)
    cluster.brokers[0].on(SEND, lambda _, peer: peer.close())
    with pytest.raises(SendFailedError, match=r"Send \[2\] times.*broker-a") as caught:
        producer.send_async(Message("T", b"x")).result(10)
    assert caught.value.attempt == 2
    assert isinstance(caught.value.__cause__, RemotingSendRequestException)


@pytest.mark.parametrize("code", [SEND, BATCH], ids=["one", "batch"])
def test_a_busy_broker_is_left_for_another_one_with_the_same_id(
    clusters: ClusterMaker, start: ProducerMaker, code: int
) -> None:
    cluster = clusters(2)
    cluster.brokers[0].answer(code, ResponseCode.SYSTEM_BUSY, "busy")
    cluster.brokers[1].on(code, lambda request, _: stored(request))
    producer = start(cluster.namesrv_addr)
    brokers = set()
    while not cluster.brokers[0].of(code):  # whichever broker has the first turns
        several = make_batch([Message("T", b"x"), Message("T", b"y")])
        message: Message = several if code == BATCH else Message("T", b"x")
        brokers.add(producer.send_async(message).result(10).message_queue.broker_name)
    assert brokers == {"broker-b"}
    refused = {(one.ext_fields["i"], one.body) for one in cluster.brokers[0].of(code)}
    taken = {(one.ext_fields["i"], one.body) for one in cluster.brokers[1].of(code)}
    assert refused <= taken


def test_refusals_of_all_brokers_are_counted_by_the_own_setting_and_told_in_the_error(
    clusters: ClusterMaker, start: ProducerMaker
) -> None:
    cluster = clusters(2)
    for broker in cluster.brokers:
        broker.answer(SEND, ResponseCode.SYSTEM_BUSY)
    producer = start(
        cluster.namesrv_addr,
        retry_times_when_send_async_failed=3,
        retry_times_when_send_failed=0,
    )
    with pytest.raises(SendFailedError) as caught:
        producer.send_async(Message("T", b"x")).result(10)
    assert isinstance(caught.value.__cause__, MQBrokerException)
    assert caught.value.response_code == ResponseCode.SYSTEM_BUSY
    assert [len(broker.of(SEND)) for broker in cluster.brokers] == [2, 2]


def test_a_refusal_that_no_other_broker_would_take_back_ends_the_send(
    clusters: ClusterMaker, start: ProducerMaker
) -> None:
    cluster = clusters(2)
    for broker in cluster.brokers:
        broker.answer(SEND, ResponseCode.MESSAGE_ILLEGAL)
    with pytest.raises(MQBrokerException):
        start(cluster.namesrv_addr).send_async(Message("T", b"x")).result(10)
    assert len(cluster.sends()) == 1


def test_sends_that_wait_for_their_next_attempt_have_a_bound_and_tell_what_came_before(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    """None of them is in flight, so that no permit of a connection counts them."""
    cluster.brokers[0].on(SEND, lambda _, peer: peer.close())
    producer = start(
        cluster.namesrv_addr, topics=["T"], async_sender_queue=3, send_msg_timeout=60_000
    )
    due: list[Callable[[], object]] = []
    producer._running().sender.workers._schedule_after = lambda _, task: due.append(task)
    futures: list[Future[SendResult]] = []
    for _ in range(5):
        futures.append(producer.send_async(Message("T", b"x")))
        until(lambda: len(due) + sum(one.done() for one in futures) == len(futures))
    assert [future.done() for future in futures] == [False, False, False, True, True]
    error = futures[3].exception()
    assert isinstance(error, TooManySendsError)
    assert "async_sender_queue" in str(error)
    assert error.possibly_stored
    assert [one.broker_name for one in error.attempts] == ["broker-a"]
    cluster.brokers[0].on(SEND, lambda request, _: stored(request))
    for task in due:
        task()
    assert [future.result(10).queue_offset for future in futures[:3]] == [7, 7, 7]


def test_time_runs_out_by_a_time_out_error(cluster: ScriptedCluster, start: ProducerMaker) -> None:
    cluster.brokers[0].silent(SEND)
    producer = start(cluster.namesrv_addr, topics=["T"])  # the route takes none of the time
    future = producer.send_async(Message("T", b"x"), timeout=50)
    with pytest.raises(SendTimeoutError):
        future.result(10)


@pytest.mark.case("T26")
def test_a_raising_callback_is_logged_and_the_next_ones_are_fine(
    cluster: ScriptedCluster, start: ProducerMaker, caplog: pytest.LogCaptureFixture
) -> None:
    producer, fine = start(cluster.namesrv_addr), Told()
    broken = SendCallback(on_success=lambda _: 1 // 0)
    assert producer.send_async(Message("T", b"x"), broken).result(30).msg_id
    assert producer.send_async(Message("T", b"x"), fine).result(30).msg_id
    assert fine.done.wait(30)
    producer.shutdown()
    assert "send callback failed" in caplog.text


def test_a_callback_of_callables_learns_failures(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    errors: Future[Exception] = Future()
    callback = SendCallback(on_exception=errors.set_result)
    start(cluster.namesrv_addr).send_async(Message("unknown", b"x"), callback)
    assert isinstance(errors.result(30), NoRouteError)
    silent = SendCallback()
    silent.on_exception(ValueError())
    silent.on_success(None)  # type: ignore[arg-type] # nobody looks


@pytest.mark.case("T27")
def test_a_full_sender_queue_fails_the_future_and_does_not_block(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    cluster.name_server.silent(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    producer = start(
        cluster.namesrv_addr,
        async_sender_queue=1,
        async_sender_threads=1,
        mq_client_api_timeout=200,
    )
    futures = [producer.send_async(Message("T", b"x"), timeout=200) for _ in range(10)]
    assert not wait(futures, 10).not_done
    errors = [future.exception() for future in futures]
    refused = [error for error in errors if "async_sender_queue" in str(error)]
    assert refused
    assert all(type(error) is TooManySendsError for error in refused)
    assert all(isinstance(error, RocketMQError) for error in errors)


def test_more_calls_than_permits_are_refused_without_repeating(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    producer = start(cluster.namesrv_addr, client_async_permits=3)
    producer.send(Message("T", b"x"))
    cluster.brokers[0].wait_for(RequestCode.HEART_BEAT)
    cluster.brokers[0].silent(SEND)
    futures = [producer.send_async(Message("T", b"x"), timeout=400) for _ in range(5)]
    errors = [type(future.exception(10)) for future in futures]
    assert errors.count(TooManySendsError) >= 2


def test_a_connection_that_cannot_be_opened_is_an_outcome(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    cluster.brokers[0].close()
    producer = start(cluster.namesrv_addr, retry_times_when_send_async_failed=0)
    with pytest.raises(SendFailedError) as caught:
        producer.send_async(Message("T", b"x")).result(10)
    assert isinstance(caught.value.__cause__, RemotingConnectException)


@pytest.mark.parametrize("callback", [lambda *_: None, 5, SendCallback])
def test_what_is_no_callback_is_refused_before_anything_is_sent(
    cluster: ScriptedCluster, start: ProducerMaker, callback: Any
) -> None:
    producer = start(cluster.namesrv_addr)
    with pytest.raises(TypeError, match=r"takes a SendCallback, not a .* the future"):
        producer.send_async(Message("T", b"x"), callback)
    assert cluster.sends() == []


def test_any_object_with_the_two_methods_is_a_callback(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    class Own:
        def __init__(self) -> None:
            self.results: Queue[SendResult] = Queue()

        def on_success(self, result: SendResult) -> None:
            self.results.put(result)

        def on_exception(self, error: Exception) -> None:
            raise AssertionError(error)

    own: Any = Own()
    sent = start(cluster.namesrv_addr).send_async(Message("T", b"x"), own).result(30)
    assert own.results.get(timeout=30) == sent


class Blocking:
    """Code of an application that never comes back by itself, in every shape that it can have."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.leave = threading.Event()

    def block(self, *_: object) -> None:
        self.entered.release()
        assert self.leave.wait(50)

    def before(self, context: SendMessageContext) -> None:
        pass

    after = on_success = on_exception = block


@pytest.mark.parametrize("shape", ["callback", "future callback", "send hook"])
def test_code_of_the_application_that_blocks_holds_up_no_pull_heartbeat_or_other_result(
    shape: str,
) -> None:
    blocking, received = Blocking(), threading.Event()
    settings: Any = {"instance_name": "shared", "client_callback_executor_threads": 1}

    def listener(*_: object) -> ConsumeConcurrentlyStatus:
        received.set()
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    with EmbeddedBroker(topics=["T", "U"], tcp=False) as broker:
        settings["namesrv_addr"] = broker.namesrv_addr
        producer = DefaultMQProducer("P", heartbeat_broker_interval=10, **settings)
        consumer = DefaultMQPushConsumer("C", **settings)
        consumer.subscribe("U")
        consumer.register_message_listener(listener)
        with producer, consumer:
            assert producer.client_id == consumer.client_id  # one instance, so one set of pools
            if shape == "send hook":
                producer.register_send_message_hook(blocking)
            held: Any = blocking if shape == "callback" else None
            # Paused, so that the answer comes when the future has its callback.
            broker.pause()
            futures = [
                producer.send_async(Message("T", b"x"), held, timeout=20_000)
                for _ in range(ANSWER_THREADS + 1)
            ]
            if shape == "future callback":
                for future in futures:
                    future.add_done_callback(blocking.block)
            broker.resume()
            assert blocking.entered.acquire(timeout=10)

            assert all(future.result(10).msg_id for future in futures)
            assert producer.send_async(Message("T", b"y")).result(10).msg_id
            broker.send("U", b"pulled")
            assert received.wait(10)
            beats = len(broker.journal.requests(code=RequestCode.HEART_BEAT))
            broker.wait_for(
                lambda b: len(b.journal.requests(code=RequestCode.HEART_BEAT)) > beats, timeout=10
            )
            blocking.leave.set()


def test_a_future_that_is_done_calls_back_at_once(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    future = start(cluster.namesrv_addr).send_async(Message("T", b"x"))
    future.result(30)
    threads: list[str] = []
    future.add_done_callback(lambda _: threads.append(threading.current_thread().name))
    assert threads == [threading.current_thread().name]


def test_a_hook_that_refuses_the_request_ends_the_send_and_is_an_outcome(
    cluster: ScriptedCluster,
) -> None:
    class Refusing:
        def before_request(self, address: str, request: RemotingCommand) -> None:
            if request.code == SEND:
                raise ValueError("not this one")

        def after_response(self, *_: object) -> None:
            pass

    shown = threading.Event()

    class Hook:
        def before(self, context: SendMessageContext) -> None:
            pass

        def after(self, context: SendMessageContext) -> None:
            if isinstance(context.exception, ValueError):
                shown.set()

    with DefaultMQProducer(
        "G", namesrv_addr=cluster.namesrv_addr, rpc_hooks=[Refusing()]
    ) as producer:
        producer.register_send_message_hook(Hook())
        with pytest.raises(ValueError, match="not this one"):
            producer.send_async(Message("T", b"x")).result(10)
        assert shown.wait(30)

"""How a request ends: by its reply, unsent, late, or with its producer."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    ClientClosedError,
    DefaultMQProducer,
    Message,
    MessageBatch,
    MQClientException,
    RequestTimeoutException,
    RPCHook,
    TooManySendsError,
    create_reply_message,
)
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.rocketmq_py.producer.conftest import ProducerMaker
from tests.waiting import until

LONG_MS = 60_000


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=["T"], inproc=False) as made:
        yield made


def asked(broker: EmbeddedBroker, body: bytes) -> MessageExt:
    """Wait until a request has been stored, and give it as a consumer gets it."""
    until(lambda: any(one.body == body for one in broker.messages.in_topic("T")))
    (stored,) = [one for one in broker.messages.in_topic("T") if one.body == body]
    return MessageExt("T", body, properties=dict(stored.properties))


class Noted(RPCHook):
    """Notes the codes of requests in the order in which the client begins them."""

    def __init__(self) -> None:
        self.codes: list[int] = []

    def before_request(self, address: str, request: RemotingCommand) -> None:
        self.codes.append(request.code)

    def after_response(
        self, address: str, request: RemotingCommand, response: RemotingCommand
    ) -> None:
        """Nothing to see."""


def test_the_broker_is_told_who_asks_before_it_is_sent_the_first_request(
    broker: EmbeddedBroker, start: ProducerMaker
) -> None:
    noted = Noted()
    producer = start(broker.namesrv_addr, rpc_hooks=[noted])
    future = producer.request_async(Message("T", b"?"), timeout=LONG_MS)
    reply = create_reply_message(asked(broker, b"?"), b"yes")
    until(lambda: broker.journal.requests(code=RequestCode.HEART_BEAT))
    assert start(broker.namesrv_addr, "repliers").send(reply).msg_id == reply.properties["UNIQ_KEY"]
    assert future.result(20).body == b"yes"
    codes = noted.codes
    assert codes.index(RequestCode.HEART_BEAT) < codes.index(RequestCode.SEND_MESSAGE_V2)


def test_callbacks_of_the_future_do_not_run_where_replies_are_read(
    broker: EmbeddedBroker, start: ProducerMaker
) -> None:
    producer = start(broker.namesrv_addr)
    future = producer.request_async(Message("T", b"?"), timeout=LONG_MS)
    names: list[str] = []
    called = threading.Event()

    def done(_: object) -> None:
        names.append(threading.current_thread().name)
        called.set()

    future.add_done_callback(done)
    producer.send(create_reply_message(asked(broker, b"?"), b"yes"))
    assert called.wait(20)
    assert names[0].startswith("rocketmq-client-callback")


def test_a_request_that_is_not_sent_says_why(start: ProducerMaker, broker: EmbeddedBroker) -> None:
    producer = start(broker.namesrv_addr, create_topic_key="no-pattern")
    with pytest.raises(MQClientException, match="the request to topic Unknown was not sent") as got:
        producer.request(Message("Unknown", b"?"), timeout=LONG_MS)
    assert got.value.__cause__ is not None
    with pytest.raises(MQClientException, match="body is empty"):
        producer.request_async(Message("T", b""))
    with pytest.raises(MQClientException, match="not a batch"):
        producer.request_async(MessageBatch([Message("T", b"x")]))
    with pytest.raises(MQClientException, match="a Message is needed"):
        producer.request_async("hello")  # type: ignore[call-overload] # what users do


def test_a_request_that_finds_too_many_tasks_in_background_says_so(
    start: ProducerMaker, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = start(broker.namesrv_addr)
    instance = producer._running().instance
    monkeypatch.setattr(instance, "submit_background", lambda *_: False)
    with pytest.raises(MQClientException, match="too many tasks wait in background") as got:
        producer.request(Message("T", b"?"), timeout=LONG_MS)
    assert isinstance(got.value.__cause__, TooManySendsError)


def test_a_late_reply_is_dropped(broker: EmbeddedBroker, start: ProducerMaker) -> None:
    producer = start(broker.namesrv_addr)
    with pytest.raises(RequestTimeoutException) as caught:
        producer.request(Message("T", b"?"), timeout=1_000)  # enough to send it on any machine
    assert (caught.value.topic, caught.value.elapsed_ms) == ("T", 1_000)
    reply = create_reply_message(asked(broker, b"?"), b"late")
    assert start(broker.namesrv_addr, "repliers").send(reply).send_status.name == "SEND_OK"


def test_requests_end_with_their_producer(broker: EmbeddedBroker, start: ProducerMaker) -> None:
    producer = start(broker.namesrv_addr)
    future = producer.request_async(Message("T", b"?"), timeout=LONG_MS)
    asked(broker, b"?")
    producer.shutdown()
    assert isinstance(future.exception(20), ClientClosedError)


def test_a_reply_to_who_is_gone_fails(broker: EmbeddedBroker, start: ProducerMaker) -> None:
    asker = start(broker.namesrv_addr)
    future = asker.request_async(Message("T", b"?"), timeout=LONG_MS)
    reply = create_reply_message(asked(broker, b"?"), b"yes")
    asker.shutdown()
    assert future.exception(20) is not None
    replier: DefaultMQProducer = start(
        broker.namesrv_addr, "repliers", retry_times_when_send_failed=0
    )
    with pytest.raises(MQClientException, match="not found"):
        replier.send(reply)


def test_a_reply_that_becomes_too_large_ends_the_request_with_an_error_that_names_the_setting(
    broker: EmbeddedBroker, start: ProducerMaker
) -> None:
    producer = start(broker.namesrv_addr, decompressed_body_max_bytes=9_999)
    future = producer.request_async(Message("T", b"?"), timeout=LONG_MS)
    reply = create_reply_message(asked(broker, b"?"), bytes(10_000))
    start(broker.namesrv_addr, "repliers").send(reply)
    with pytest.raises(MQClientException, match="9999 bytes of decompressed_body_max_bytes"):
        future.result(20)

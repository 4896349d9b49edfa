"""A source of credentials is asked for others when a server refuses what they signed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    Credentials,
    DefaultLitePullConsumer,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
    PermissionDeniedError,
    QueueAccess,
    aio,
)
from rocketmq_py.admin import AdminClient
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.waiting import until

GUARD_S = 30.0


class Source:
    """Gives its first credentials until it is told that they were refused."""

    def __init__(self, *keys: str) -> None:
        self.left = [Credentials(key, "secret") for key in keys]
        self.used: list[str] = []
        self.refused: list[str] = []

    def __call__(self) -> Credentials:
        self.used.append(self.left[0].access_key)
        return self.left[0]

    def renew(self, refused: Credentials) -> bool:
        self.refused.append(refused.access_key)
        if refused.access_key == "broken":
            raise OSError("no file")
        if len(self.left) == 1:
            return False
        del self.left[0]
        return True


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=["T"]) as started:
        yield started


def asked(broker: EmbeddedBroker, code: RequestCode) -> int:
    return len(broker.journal.requests(code=code))


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_a_refused_call_is_made_once_more_with_other_credentials(
    broker: EmbeddedBroker, transport: Literal["auto", "tcp"]
) -> None:
    source = Source("old", "new")
    with QueueAccess(
        namesrv_addr=broker.namesrv_addr, credentials=source, transport=transport
    ) as access:
        (queue, *_) = access.read_queues("T")
        acl = "org.apache.rocketmq.acl.common.AclException: Check signature failed"
        broker.faults.on(RequestCode.PULL_MESSAGE).respond(ResponseCode.SYSTEM_ERROR, acl)
        assert access.pull(queue, 0).result(30).code == ResponseCode.PULL_NOT_FOUND
    assert (asked(broker, RequestCode.PULL_MESSAGE), source.used[-2:]) == (2, ["old", "new"])
    assert source.refused == ["old"]


def test_blocking_calls_are_made_once_more_too(broker: EmbeddedBroker) -> None:
    source = Source("old", "new")
    with QueueAccess(namesrv_addr=broker.namesrv_addr, credentials=source) as access:
        refused = broker.faults.on(RequestCode.GET_TOPIC_STATS_INFO)
        refused.respond(ResponseCode.NO_PERMISSION)
        assert len(access.bounds("T")) > 0
    assert source.used[-2:] == ["old", "new"]
    assert asked(broker, RequestCode.GET_TOPIC_STATS_INFO) == 2


@pytest.mark.parametrize("keys", [["only"], ["broken", "new"]])
def test_the_refusal_stands_when_there_are_no_others(
    broker: EmbeddedBroker, keys: list[str]
) -> None:
    with QueueAccess(namesrv_addr=broker.namesrv_addr, credentials=Source(*keys)) as access:
        (queue, *_) = access.read_queues("T")
        for code in (RequestCode.PULL_MESSAGE, RequestCode.GET_TOPIC_STATS_INFO):
            broker.faults.on(code).respond(ResponseCode.NO_PERMISSION).always()
        with pytest.raises(PermissionDeniedError):
            access.pull(queue, 0).result(30)
        with pytest.raises(PermissionDeniedError):
            access.bounds("T")
    assert asked(broker, RequestCode.PULL_MESSAGE) == 1
    assert asked(broker, RequestCode.GET_TOPIC_STATS_INFO) == 1


def test_one_more_call_is_all_there_is(broker: EmbeddedBroker) -> None:
    source = Source("first", "second", "third")
    with QueueAccess(namesrv_addr=broker.namesrv_addr, credentials=source) as access:
        (queue, *_) = access.read_queues("T")
        broker.faults.on(RequestCode.PULL_MESSAGE).respond(ResponseCode.NO_PERMISSION).always()
        with pytest.raises(PermissionDeniedError):
            access.pull(queue, 0).result(30)
    assert (asked(broker, RequestCode.PULL_MESSAGE), source.refused) == (2, ["first"])


def test_other_answers_ask_for_no_credentials(broker: EmbeddedBroker) -> None:
    source = Source("old", "new")
    with QueueAccess(namesrv_addr=broker.namesrv_addr, credentials=source) as access:
        (queue, *_) = access.read_queues("T")
        access.pull(queue, 0).result(30)  # 19: nothing there
    assert source.refused == []


# --- every kind of call ---------------------------------------------------------------------------

Program = Callable[[EmbeddedBroker, Source], object]


def settings(broker: EmbeddedBroker, source: Source) -> dict[str, Any]:
    return {"namesrv_addr": broker.namesrv_addr, "credentials": source}


def sends(how: Callable[[DefaultMQProducer], object]) -> Program:
    def program(broker: EmbeddedBroker, source: Source) -> None:
        with DefaultMQProducer(
            "P", retry_times_when_send_failed=0, **settings(broker, source)
        ) as p:
            how(p)
        until(lambda: len(broker.messages.in_topic("T")) >= 1, GUARD_S)

    return program


def awaits(broker: EmbeddedBroker, source: Source) -> None:
    async def program() -> None:
        async with aio.Producer("P", **settings(broker, source)) as producer:
            await producer.send(Message("T", b"x"))

    asyncio.run(program())


def pushes(broker: EmbeddedBroker, source: Source) -> None:
    got: list[bytes] = []
    consumer = DefaultMQPushConsumer(
        "G",
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        **settings(broker, source),
    )

    def listen(messages: list[MessageExt], _: object) -> ConsumeConcurrentlyStatus:
        got.extend(one.body for one in messages)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    consumer.subscribe("T")
    consumer.register_message_listener(listen)
    consumer.start()
    broker.send("T", b"x")
    until(lambda: got == [b"x"], GUARD_S)
    consumer.shutdown()


def polls(broker: EmbeddedBroker, source: Source) -> None:
    broker.send("T", b"x")
    with DefaultLitePullConsumer(
        "G",
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        **settings(broker, source),
    ) as consumer:
        consumer.subscribe("T")
        until(lambda: [one.body for one in consumer.poll(100)] == [b"x"], GUARD_S)


def administers(broker: EmbeddedBroker, source: Source) -> None:
    with AdminClient(**settings(broker, source)) as admin:
        admin.create_topic("New", queues=1)


@pytest.mark.parametrize(
    ("code", "program"),
    [
        (RequestCode.SEND_MESSAGE_V2, sends(lambda p: p.send(Message("T", b"x")))),
        (
            RequestCode.SEND_MESSAGE_V2,
            sends(lambda p: p.send_async(Message("T", b"x")).result(GUARD_S)),
        ),
        (RequestCode.SEND_BATCH_MESSAGE, sends(lambda p: p.send_batch([Message("T", b"x")] * 2))),
        (RequestCode.SEND_MESSAGE_V2, awaits),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, sends(lambda p: p.send(Message("T", b"x")))),
        (RequestCode.PULL_MESSAGE, pushes),
        (RequestCode.HEART_BEAT, pushes),
        (RequestCode.GET_CONSUMER_LIST_BY_GROUP, pushes),
        (RequestCode.PULL_MESSAGE, polls),
        (RequestCode.UPDATE_AND_CREATE_TOPIC, administers),
    ],
)
def test_every_kind_of_call_is_made_once_more(
    broker: EmbeddedBroker, code: RequestCode, program: Program
) -> None:
    source = Source("old", "new")
    broker.faults.on(code).respond(ResponseCode.NO_PERMISSION, "expired token")
    program(broker, source)
    until(lambda: asked(broker, code) >= 2, GUARD_S)
    assert source.refused == ["old"]
    assert {*source.used} == {"old", "new"}


def test_a_plain_function_is_asked_again_and_counts_if_it_gives_others(
    broker: EmbeddedBroker,
) -> None:
    keys = iter(["old", "old", "new", "new"])  # route, question, after its refusal, again

    def rotates() -> Credentials:
        return Credentials(next(keys), "secret")

    with QueueAccess(namesrv_addr=broker.namesrv_addr, credentials=rotates) as access:
        broker.faults.on(RequestCode.GET_TOPIC_STATS_INFO).respond(ResponseCode.NO_PERMISSION)
        assert access.bounds("T")
    assert asked(broker, RequestCode.GET_TOPIC_STATS_INFO) == 2

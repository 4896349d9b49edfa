"""SQL92 conditions: Java clients and ours get the same of both brokers, and the same words."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageSelector,
    MQClientException,
)
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.interop.java_tools import client_program
from tests.interop.real_broker import RealCluster
from tests.interop.test_real_broker import Inbox
from tests.unit.embedded_broker.wire_peer import WirePeer, bodies, consumer
from tests.waiting import HANG_S, until

CONDITION = "amount > 5 AND region IN ('north', 'south') OR big IS NOT NULL"
MESSAGES = {
    "yes1": {"amount": "7", "region": "north"},
    "no1": {"amount": "5", "region": "north"},
    "no2": {"amount": "seven", "region": "north"},
    "no3": {"region": "north"},
    "no4": {"amount": "7", "region": "east"},
    "yes2": {"amount": "3", "region": "east", "big": "very"},
    "no5": {"amount": "7.5", "region": "east", "big": "very"},
    "last": {"amount": "2147483647", "region": "south"},
}
WANTED = ["yes1", "yes2", "last"]
WRONG = ["amount > '5'", "(amount", "amount = #", "", "7", "amount BETWEEN 9 AND 1", "a NOT 5"]
VERSIONS = ("4.9.8", "5.3.3")
FROM_HEARTBEAT = "0"
"""Pull flags without 4: the subscription is the one of the heartbeats."""


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(params=["embedded", "real"])
def namesrv(request: pytest.FixtureRequest) -> str:
    """The name server of either broker, which is started when it is needed."""
    if request.param == "embedded":
        broker: EmbeddedBroker = request.getfixturevalue("embedded")
        return broker.namesrv_addr
    real: RealCluster = request.getfixturevalue("real")
    return real.namesrv_addr


@pytest.fixture
def topic(namesrv: str) -> str:
    """A topic of one queue that holds the messages."""
    name = f"Sql_{uuid.uuid4().hex[:8]}"
    with DefaultMQProducer("makes", namesrv_addr=namesrv) as producer:
        producer.create_topic("TBW102", name, 1)
        until(lambda: bool(producer.fetch_publish_message_queues(name)))
        for key, properties in MESSAGES.items():
            message = Message(name, key.encode(), keys=key)
            for one, value in properties.items():
                message.put_user_property(one, value)
            producer.send(message)
    return name


@pytest.mark.parametrize("way", ["push", "lite"])
@pytest.mark.parametrize("version", VERSIONS)
def test_java_clients_get_what_matches(namesrv: str, topic: str, version: str, way: str) -> None:
    group = f"G_{topic}_{way}"
    with client_program(version, "SqlReceive", namesrv, topic, group, way, CONDITION) as client:
        assert client.finish(HANG_S) == 0, client.lines
    assert [row[0] for row in client.table("RECEIVED")] == WANTED


@pytest.mark.parametrize("version", VERSIONS)
def test_a_condition_that_is_wrong_fails_the_start_of_java_clients(
    namesrv: str, topic: str, version: str
) -> None:
    wrong = "amount > '5'"
    with client_program(version, "SqlReceive", namesrv, topic, "G", "push", wrong) as client:
        assert client.finish(HANG_S) == 0, client.lines
    ((code, told),) = client.table("REFUSED")
    assert code == "23"
    assert "java.lang.RuntimeException: Value ''5'' cannot be compared." in told


def test_our_client_gets_what_matches(namesrv: str, topic: str) -> None:
    inbox = Inbox()
    ours = DefaultMQPushConsumer(f"G_{topic}_ours", namesrv_addr=namesrv)
    ours.consume_from_where = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    ours.subscribe(topic, MessageSelector.by_sql(CONDITION))
    ours.register_message_listener(inbox)
    with ours:
        came = [inbox.arrived.get(timeout=HANG_S)[0].body.decode() for _ in WANTED]
    assert sorted(came) == sorted(WANTED)
    assert inbox.arrived.empty()


def test_a_condition_that_is_wrong_fails_the_start_of_our_client(namesrv: str, topic: str) -> None:
    ours = DefaultMQPushConsumer("G_wrong", namesrv_addr=namesrv)
    ours.subscribe(topic, MessageSelector.by_sql("amount > '5'"))
    ours.register_message_listener(Inbox())
    with pytest.raises(MQClientException, match="Value ''5'' cannot be compared") as caught:
        ours.start()
    assert caught.value.response_code == 23


# --- what brokers say -------------------------------------------------------------------------


Ask = Callable[[WirePeer, str], list[object]]


def check(kind: str | None, expression: str) -> Ask:
    """46: may a subscription be used."""

    def ask(peer: WirePeer, topic: str) -> list[object]:
        subscription = {"topic": topic, "subString": expression, "expressionType": kind}
        body = {"clientId": "c", "group": "g", "subscriptionData": subscription}
        answer = peer.ask(RequestCode.CHECK_CLIENT_CONFIG, body=json.dumps(body).encode())
        return [answer.code, answer.remark]

    return ask


def pull(kind: str, expression: str) -> Ask:
    """11 with an expression of its own."""

    def ask(peer: WirePeer, topic: str) -> list[object]:
        return shown(peer.pull(topic, expressionType=kind, subscription=expression))

    return ask


def subscribed(*told: tuple[str, str]) -> Ask:
    """11 after heartbeats with these types and expressions, each newer than the one before."""

    def ask(peer: WirePeer, topic: str) -> list[object]:
        group, found = f"G_{uuid.uuid4().hex[:8]}", []
        for version, (kind, expression) in enumerate(told, 1):
            wanted = {topic: expression}
            peer.heartbeat("c", consumer(group, wanted, expression_type=kind, sub_version=version))
            fields = {"consumerGroup": group, "sysFlag": FROM_HEARTBEAT, "subVersion": str(version)}
            found.append(shown(peer.pull(topic, 0, **fields)))
        return [found]

    return ask


def shown(answer: RemotingCommand) -> list[object]:
    """Code, next offset and messages; of a refusal the first words of the remark."""
    if answer.code in {0, 19, 20, 21}:
        return [answer.code, answer.ext_fields["nextBeginOffset"], bodies(answer)]
    return [answer.code, (answer.remark or "")[:40]]


QUESTIONS: dict[str, Ask] = {
    **{f"46 {text!r}": check("SQL92", text) for text in (*WRONG, CONDITION, "NULL", "TRUE x")},
    **{f"46 of type {kind!r}": check(kind, "amount > '5'") for kind in ("TAG", "", None)},
    "11": pull("SQL92", CONDITION),
    "11 none": pull("SQL92", "amount < 0"),
    "11 no type": pull("", "yes"),
    "heartbeat": subscribed(("SQL92", CONDITION)),
    "heartbeat of tags": subscribed(("", "*"), ("TAG", "*")),
    "heartbeat unknown": subscribed(("LUA", CONDITION)),
    "heartbeats": subscribed(
        ("SQL92", "amount >"),
        ("SQL92", "amount = 7"),
        ("SQL92", ""),
        ("TAG", "*"),
        ("SQL92", "region = 'east'"),
    ),
}


@pytest.mark.parametrize("is_on", [True, False], ids=["on", "off"])
def test_both_brokers_say_the_same(
    embedded: EmbeddedBroker, real: RealCluster, is_on: bool
) -> None:
    said = [answers(address, is_on=is_on) for address in (embedded.addr, real.broker_addr)]
    assert said[0] == said[1]
    codes = {str(one[0]) for one in said[0].values()}
    assert codes > ({"0", "23"} if is_on else {"0", "1"})


def answers(address: str, *, is_on: bool) -> dict[str, list[object]]:
    """What a broker says to all questions."""
    name = f"Sql_{uuid.uuid4().hex[:8]}"
    with WirePeer(address) as peer:
        peer.create_topic(name)
        for key, properties in MESSAGES.items():
            assert peer.send(name, key.encode(), properties).code == 0
        until(lambda: len(bodies(peer.pull(name))) == len(MESSAGES))
        switch(peer, is_on=is_on)
        try:
            return {text: ask(peer, name) for text, ask in QUESTIONS.items()}
        finally:
            switch(peer, is_on=True)


def switch(peer: WirePeer, *, is_on: bool) -> None:
    """Switch filters by properties on or off (25)."""
    body = f"enablePropertyFilter={str(is_on).lower()}\n".encode()
    assert peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body).code == 0

"""Requests 34, 35, 46 and the pushes 40: who is there and who is told."""

from __future__ import annotations

import json

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.protocol.bodies.groups import ConsumerConnection, ConsumerList
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, bodies, consumer

G = consumer("g", {"T": "*", "%RETRY%g": "*"})


@pytest.fixture
def session() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def broker(start_broker: StartBroker, session: VirtualClock) -> EmbeddedBroker:
    return start_broker(session_clock=session)


def members(peer: WirePeer, group: str = "g") -> list[str]:
    answer = peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
    return ConsumerList.decode(answer.body).consumer_id_list if answer.code == 0 else []


def is_notice(command: RemotingCommand, group: str = "g") -> bool:
    return (
        command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        and command.ext_fields == {"consumerGroup": group}
        and command.is_oneway
    )


def notices(peer: WirePeer) -> int:
    """Count the pushes that came so far and forget them."""
    peer.barrier()
    count = len(peer.pushed)
    assert all(is_notice(command) for command in peer.pushed)
    peer.pushed.clear()
    return count


@pytest.mark.case("W77")
def test_both_members_are_told_when_a_second_one_joins(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    first, second = connect(broker.addr), connect(broker.addr)
    first.heartbeat("c1", G)
    assert notices(first) == 1, "the newcomer is told as well"
    second.heartbeat("c2", G)
    assert is_notice(first.push())
    assert is_notice(second.push())
    assert members(first) == ["c1", "c2"]
    assert members(second) == ["c1", "c2"]


def test_the_notice_comes_before_the_answer_that_caused_it(peer: WirePeer) -> None:
    opaque = peer.post(
        RequestCode.HEART_BEAT,
        body=json.dumps({"clientID": "c1", "consumerDataSet": [G], "producerDataSet": []}).encode(),
    )
    peer.answer(opaque)
    assert len(peer.pushed) == 1


def test_repeated_heartbeats_and_a_new_sub_version_alone_tell_nobody(peer: WirePeer) -> None:
    peer.heartbeat("c1", G)
    assert notices(peer) == 1
    peer.heartbeat("c1", G)
    peer.heartbeat("c1", consumer("g", {"T": "TagA", "%RETRY%g": "*"}, sub_version=9))
    assert notices(peer) == 0
    peer.heartbeat("c1", consumer("g", {"T": "*", "U": "*", "%RETRY%g": "*"}, sub_version=9))
    assert notices(peer) == 1


@pytest.mark.case("W78")
def test_the_rest_is_told_when_a_members_socket_closes(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    staying, leaving = connect(broker.addr), connect(broker.addr)
    staying.heartbeat("c1", G)
    leaving.heartbeat("c2", G)
    assert notices(staying) == 2
    leaving.close()
    assert is_notice(staying.push())
    assert members(staying) == ["c1"]


@pytest.mark.case("W79")
def test_a_silent_member_is_dropped_after_120_seconds(
    broker: EmbeddedBroker, connect: Connect, session: VirtualClock
) -> None:
    alive, silent = connect(broker.addr), connect(broker.addr)
    silent.heartbeat("c2", G)
    alive.heartbeat("c1", G)
    session.advance(60)
    alive.heartbeat("c1", G)
    session.advance(59.999)
    notices(alive)
    assert members(alive) == ["c2", "c1"]
    session.advance(0.001)
    assert is_notice(alive.push())
    assert members(alive) == ["c1"]
    assert silent.wait_closed()
    session.advance(60)
    assert alive.wait_closed()


def test_a_silent_producer_loses_its_connection_too(
    broker: EmbeddedBroker, connect: Connect, session: VirtualClock
) -> None:
    producer = connect(broker.addr)
    producer.heartbeat("p1", producers=["producers"])
    parts = broker._parts()
    with parts.door:
        assert [member.client_id for member in parts.tables.producers.members("producers")] == [
            "p1"
        ]
    session.advance(120)
    assert producer.wait_closed()
    with parts.door:
        assert parts.tables.producers.members("producers") == []


@pytest.mark.case("W81")
def test_a_heartbeat_creates_the_groups_settings_and_its_retry_topic(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    peer.heartbeat("c1", G)
    assert broker.topics["%RETRY%g"].queues == 1
    parts = broker._parts()
    with parts.door:
        group = parts.tables.groups.get("g")
    assert group is not None
    assert (group.retry_max_times, group.retry_queue_nums) == (16, 1)


def test_a_group_with_a_new_retry_topic_is_told_again_after_one_second(
    broker: EmbeddedBroker, connect: Connect, session: VirtualClock
) -> None:
    peer = connect(broker.addr)
    peer.heartbeat("c1", G)
    assert notices(peer) == 1
    session.advance(0.999)
    assert notices(peer) == 0
    session.advance(0.001)
    assert is_notice(peer.push())
    peer.heartbeat("c1", G)
    session.advance(5)
    assert notices(peer) == 0


def test_upstream_defaults_tell_a_new_group_once(
    start_broker: StartBroker, connect: Connect, session: VirtualClock
) -> None:
    peer = connect(start_broker(defaults="upstream", session_clock=session).addr)
    peer.heartbeat("c1", G)
    session.advance(5)
    assert notices(peer) == 1


@pytest.mark.case("W82")
def test_the_newest_sub_version_of_a_group_counts(broker: EmbeddedBroker, connect: Connect) -> None:
    first, second = connect(broker.addr), connect(broker.addr)
    for tags in ("TagA", "TagB"):
        first.send("T", tags.encode(), {"TAGS": tags})
    first.heartbeat("c1", consumer("g", {"T": "TagA"}, sub_version=5))
    second.heartbeat("c2", consumer("g", {"T": "TagB"}, sub_version=4))
    fields = {"consumerGroup": "g", "sysFlag": "0"}
    assert bodies(first.pull("T", 0, **fields)) == [b"TagA"]
    second.heartbeat("c2", consumer("g", {"T": "TagB"}, sub_version=6))
    assert bodies(first.pull("T", 0, **fields)) == [b"TagB"]


def test_unregistering_leaves_the_group_at_once(broker: EmbeddedBroker, connect: Connect) -> None:
    staying, leaving = connect(broker.addr), connect(broker.addr)
    staying.heartbeat("c1", G)
    leaving.heartbeat("c2", G, producers=["producers"])
    notices(staying)
    for field in ({"consumerGroup": "g"}, {"producerGroup": "producers"}):
        answer = leaving.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "c2"} | field)
        assert answer.code == 0
    assert is_notice(staying.push())
    assert members(staying) == ["c1"]
    parts = broker._parts()
    with parts.door:
        assert parts.tables.producers.groups() == []


@pytest.mark.parametrize(("profile", "told"), [("rocketmq-4.9", 1), ("rocketmq-5.x", 0)])
def test_broadcasting_groups_are_told_by_4_9_only(
    start_broker: StartBroker,
    connect: Connect,
    session: VirtualClock,
    profile: str,
    told: int,
) -> None:
    peer = connect(start_broker(profile=profile, session_clock=session).addr)
    peer.heartbeat("c1", consumer("g", {"T": "*"}, message_model="BROADCASTING"))
    assert notices(peer) == told


def test_a_group_may_be_set_to_tell_nobody(peer: WirePeer) -> None:
    body = b'{"groupName":"g","notifyConsumerIdsChangedEnable":false}'
    peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    peer.heartbeat("c1", G)
    assert notices(peer) == 0


def test_a_heartbeat_that_is_no_json_is_answered_1_and_the_socket_stays(peer: WirePeer) -> None:
    assert peer.ask(RequestCode.HEART_BEAT, body=b"{").code == 1
    assert peer.heartbeat("c1", G).code == 0


def checked(peer: WirePeer, expression: str, expression_type: str = "SQL92") -> RemotingCommand:
    """Ask whether a subscription may be used."""
    body = {
        "clientId": "c1",
        "group": "g",
        "subscriptionData": {
            "topic": "T",
            "subString": expression,
            "expressionType": expression_type,
        },
    }
    return peer.ask(RequestCode.CHECK_CLIENT_CONFIG, body=json.dumps(body).encode())


@pytest.mark.case("W65")
def test_sql_subscriptions_are_refused_with_the_fixed_text_and_tags_pass(
    start_broker: StartBroker, connect: Connect
) -> None:
    peer = connect(start_broker(defaults="upstream").addr)
    for expression_type, code in (("SQL92", 1), ("TAG", 0)):
        answer = checked(peer, "a > 5", expression_type)
        assert answer.code == code
        if code:
            text = "The broker does not support consumer to filter message by SQL92"
            assert answer.remark == text


@pytest.mark.case("W67")
@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("a > '5'", "java.lang.RuntimeException: Value ''5'' cannot be compared."),
        ("a BETWEEN 9 AND 1", "java.lang.RuntimeException: Illegal values of between, left value"),
        ("(a", "org.apache.rocketmq.filter.parser.ParseException: Encountered"),
    ],
)
def test_an_expression_that_is_wrong_is_23_with_what_is_wrong(
    peer: WirePeer, expression: str, told: str
) -> None:
    answer = checked(peer, expression)
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert (answer.remark or "").startswith(told)
    assert checked(peer, "a > 5").code == 0


def test_sql92_can_be_switched_off_and_on(peer: WirePeer) -> None:
    for said, code in (("false", 1), ("true", 0)):
        line = f"enablePropertyFilter={said}\n"
        assert peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=line.encode()).code == 0
        assert checked(peer, "a > 5").code == code


# -- fingerprints -----------------------------------------------------------------------------


def beat(peer: WirePeer, fingerprint: int, *topics: str) -> str:
    """Send a heartbeat of 5.x; without topics it says that they are as before."""
    body = {
        "clientID": "c1",
        "consumerDataSet": [consumer("g", dict.fromkeys(topics, "*"))],
        "heartbeatFingerprint": fingerprint,
        "withoutSub": not topics,
    }
    answer = peer.ask(RequestCode.HEART_BEAT, body=json.dumps(body).encode())
    assert (answer.code, answer.ext_fields["IS_SUPPORT_HEART_BEAT_V2"]) == (0, "true")
    return answer.ext_fields["IS_SUB_CHANGE"]


def subscribed(peer: WirePeer) -> set[str]:
    answer = peer.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"})
    return set(ConsumerConnection.decode(answer.body).subscription_table)


def test_a_fingerprint_is_enough_while_subscriptions_stay_as_they_are(peer: WirePeer) -> None:
    assert beat(peer, 7, "T", "U") == "false"
    assert beat(peer, 7) == "false"
    assert subscribed(peer) == {"T", "U"}
    assert beat(peer, 8, "T") == "true"  # another one: whoever sends 7 must tell all again
    assert subscribed(peer) == {"T"}
    assert beat(peer, 8) == "false"


def test_a_broker_that_knows_no_subscriptions_asks_for_them(peer: WirePeer) -> None:
    assert beat(peer, 7) == "true"
    assert subscribed(peer) == set()
    assert beat(peer, 7, "T") == "false"


def test_a_heartbeat_without_a_fingerprint_is_always_whole(
    start_broker: StartBroker, connect: Connect, peer: WirePeer
) -> None:
    answer = peer.heartbeat("c1", consumer("g", {"T": "*"}))
    assert answer.ext_fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    old = connect(start_broker(profile="rocketmq-4.9").addr)
    assert old.heartbeat("c1", consumer("g", {"T": "*"})).ext_fields == {}

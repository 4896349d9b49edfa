"""Requests 11 and 361: results, filters, long polls."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.message_codec import encode_batch
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.store.store_tools import delete_before
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, bodies, consumer, pull_fields

FROM_HEARTBEAT = "0"
SUSPEND = "2"
SUSPEND_WITH_SUBSCRIPTION = "6"


def bounds(answer: RemotingCommand) -> tuple[int, str | None, int, int, int]:
    """Code, remark, next, min and max offset."""
    ext = answer.ext_fields
    assert ext["suggestWhichBrokerId"] == "0"
    numbers = (int(ext[name]) for name in ("nextBeginOffset", "minOffset", "maxOffset"))
    return (answer.code, answer.remark, *numbers)  # type: ignore[return-value] # three of them


def fill(peer: WirePeer, topic: str, count: int, tags: str | None = None) -> None:
    properties = {} if tags is None else {"TAGS": tags}
    for number in range(count):
        assert peer.send(topic, f"m{number}".encode(), properties).code == 0


@pytest.mark.case("W51")
def test_a_group_that_never_sent_a_heartbeat_is_answered_24(peer: WirePeer) -> None:
    peer.create_topic("T")
    answer = peer.pull("T", sysFlag=FROM_HEARTBEAT)
    assert answer.code == ResponseCode.SUBSCRIPTION_NOT_EXIST


def test_a_topic_the_group_has_not_subscribed_to_is_answered_24(peer: WirePeer) -> None:
    peer.create_topic("T")
    peer.heartbeat("c1", consumer("consumers", {"Other": "*"}))
    answer = peer.pull("T", sysFlag=FROM_HEARTBEAT)
    assert answer.code == ResponseCode.SUBSCRIPTION_NOT_EXIST


@pytest.mark.case("W52")
def test_upstream_refuses_a_newer_sub_version_until_the_next_heartbeat(
    start_broker: StartBroker, connect: Connect
) -> None:
    peer = connect(start_broker(defaults="upstream").addr)
    peer.create_topic("T")
    peer.heartbeat("c1", consumer("consumers", {"T": "TagA"}, sub_version=5))
    answer = peer.pull("T", sysFlag=FROM_HEARTBEAT, subVersion="6")
    assert answer.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    peer.heartbeat("c1", consumer("consumers", {"T": "TagA"}, sub_version=6))
    answer = peer.pull("T", sysFlag=FROM_HEARTBEAT, subVersion="6")
    assert answer.code == ResponseCode.PULL_NOT_FOUND


@pytest.mark.case("W52")
def test_by_default_a_newer_sub_version_is_served_unfiltered_but_sql_is_25(peer: WirePeer) -> None:
    fill(peer, "T", 2, tags="TagB")
    peer.heartbeat("c1", consumer("consumers", {"T": "TagA"}, sub_version=5))
    assert peer.pull("T", sysFlag=FROM_HEARTBEAT, subVersion="5").code == 20
    newer = peer.pull("T", sysFlag=FROM_HEARTBEAT, subVersion="6")
    assert bodies(newer) == [b"m0", b"m1"]
    peer.heartbeat("c2", consumer("sql", {"T": "a > 5"}, sub_version=5, expression_type="SQL92"))
    fields = {"consumerGroup": "sql", "sysFlag": FROM_HEARTBEAT}
    answer = peer.pull("T", 0, **fields, subVersion="6")
    assert answer.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    assert peer.pull("T", 0, **fields, subVersion="5").code == 20


@pytest.mark.case("W53")
def test_a_pull_returns_as_many_as_asked_and_the_bounds(peer: WirePeer) -> None:
    fill(peer, "T", 10)
    answer = peer.pull("T", maxMsgNums="4")
    assert bounds(answer) == (0, "FOUND", 4, 0, 10)
    assert bodies(answer) == [b"m0", b"m1", b"m2", b"m3"]


@pytest.mark.case("W54")
def test_at_the_end_is_19_and_beyond_it_21(peer: WirePeer) -> None:
    fill(peer, "T", 10)
    assert bounds(peer.pull("T", 10)) == (19, "OFFSET_OVERFLOW_ONE", 10, 0, 10)
    assert bounds(peer.pull("T", 11)) == (21, "OFFSET_OVERFLOW_BADLY", 10, 0, 10)


@pytest.mark.case("W55")
def test_before_the_first_readable_message_is_21_with_the_minimum(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(config={"mappedFileSizeCommitLog": 4096})
    peer = connect(broker.addr)
    for _ in range(12):
        assert peer.send("T", b"x" * 700).code == 0
    parts = broker._parts()
    with parts.door:
        assert delete_before(parts.store, 4096) == 1
        oldest = parts.store.min_offset("T", 0)
    assert oldest > 0
    assert bounds(peer.pull("T", 0)) == (21, "OFFSET_TOO_SMALL", oldest, oldest, 12)


@pytest.mark.case("W56")
def test_an_empty_queue_is_19_from_its_begin_and_21_elsewhere(peer: WirePeer) -> None:
    peer.create_topic("T")
    assert bounds(peer.pull("T", 0))[0::2][0] == 19
    assert bounds(peer.pull("T", 0))[2:] == (0, 0, 0)
    assert bounds(peer.pull("T", 7))[0] == 21
    assert bounds(peer.pull("T", 7))[2:] == (0, 0, 0)


@pytest.mark.case("W57")
def test_messages_of_other_tags_are_skipped_with_20(peer: WirePeer) -> None:
    fill(peer, "T", 10, tags="TagB")
    answer = peer.pull("T", subscription="TagA")
    assert bounds(answer) == (20, "NO_MATCHED_MESSAGE", 10, 0, 10)
    assert answer.body == b""


@pytest.mark.case("W58")
def test_a_tag_of_the_same_hash_is_returned_for_the_client_to_drop(peer: WirePeer) -> None:
    fill(peer, "T", 1, tags="Aa")
    assert bodies(peer.pull("T", subscription="BB")) == [b"m0"]


def test_several_tags_of_an_expression_match(peer: WirePeer) -> None:
    for tags in ("TagA", "TagB", "TagC"):
        peer.send("T", tags.encode(), {"TAGS": tags})
    assert bodies(peer.pull("T", subscription="TagA || TagC")) == [b"TagA", b"TagC"]


def test_an_expression_of_separators_only_is_23(peer: WirePeer) -> None:
    peer.create_topic("T")
    answer = peer.pull("T", subscription="||")
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


# -- long polls -----------------------------------------------------------------------------


@pytest.fixture
def session() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def waiting_broker(start_broker: StartBroker, session: VirtualClock) -> EmbeddedBroker:
    return start_broker(session_clock=session, topics=["T"])


def park(peer: WirePeer, topic: str = "T", wait_ms: int = 15_000, **fields: str) -> int:
    opaque = peer.post(
        RequestCode.PULL_MESSAGE,
        pull_fields(
            topic,
            0,
            **(
                {"sysFlag": SUSPEND_WITH_SUBSCRIPTION, "suspendTimeoutMillis": str(wait_ms)}
                | fields
            ),
        ),
    )
    assert not peer.has_answer(opaque)
    return opaque


@pytest.mark.case("W59")
def test_a_parked_pull_is_answered_when_a_message_arrives(
    waiting_broker: EmbeddedBroker, connect: Connect
) -> None:
    peer = connect(waiting_broker.addr)
    opaque = park(peer)
    connect(waiting_broker.addr).send("T", b"new")
    answer = peer.answer(opaque)
    assert bounds(answer) == (0, "FOUND", 1, 0, 1)
    assert bodies(answer) == [b"new"]


@pytest.mark.case("W60")
def test_another_tag_does_not_wake_a_parked_pull(
    waiting_broker: EmbeddedBroker, connect: Connect, session: VirtualClock
) -> None:
    peer = connect(waiting_broker.addr)
    opaque = park(peer, subscription="TagA")
    peer.send("T", b"other", {"TAGS": "TagB"})
    assert not peer.has_answer(opaque)
    session.advance(15)
    answer = peer.answer(opaque)
    # The pull is run once more, as the original does, and tells how far nothing matched.
    assert bounds(answer) == (20, "NO_MATCHED_MESSAGE", 1, 0, 1)
    assert answer.body == b""


def test_a_matching_tag_behind_others_wakes_a_parked_pull(
    waiting_broker: EmbeddedBroker, connect: Connect
) -> None:
    peer = connect(waiting_broker.addr)
    opaque = park(peer, subscription="TagA")
    peer.send("T", b"other", {"TAGS": "TagB"})
    peer.send("T", b"mine", {"TAGS": "TagA"})
    assert bodies(peer.answer(opaque)) == [b"mine"]


@pytest.mark.case("W61")
def test_a_parked_pull_ends_exactly_when_its_time_is_up(
    waiting_broker: EmbeddedBroker, connect: Connect, session: VirtualClock
) -> None:
    peer = connect(waiting_broker.addr)
    opaque = park(peer, wait_ms=1000)
    session.advance(0.999)
    assert not peer.has_answer(opaque)
    session.advance(0.001)
    assert peer.answer(opaque).code == 19


@pytest.mark.case("W62")
def test_other_requests_pass_pulls_that_hang_on_the_same_socket(
    start_broker: StartBroker, connect: Connect, session: VirtualClock
) -> None:
    peer = connect(start_broker(session_clock=session).addr)
    peer.create_topic("T", queues=3)
    parked = [park(peer, queueId=str(number)) for number in range(3)]
    commit = {"consumerGroup": "consumers", "topic": "T", "queueId": "0", "commitOffset": "1"}
    assert peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit).code == 0
    assert peer.heartbeat("c1").code == 0
    assert not any(peer.has_answer(opaque) for opaque in parked)
    session.advance(15)
    assert [peer.answer(opaque).code for opaque in parked] == [19, 19, 19]


@pytest.mark.case("W63")
def test_a_closed_socket_takes_its_parked_pulls_with_it(
    waiting_broker: EmbeddedBroker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    leaving = connect(waiting_broker.addr)
    park(leaving)
    parts = waiting_broker._parts()
    assert len(parts.consume.waiters) == 1
    leaving.close()
    waiting_broker.wait_for(lambda _: len(parts.consume.waiters) == 0, timeout=20)
    staying = connect(waiting_broker.addr)
    assert staying.send("T").code == 0
    assert caplog.records == []


def test_a_batch_wakes_a_parked_pull_once_with_all_its_messages(
    waiting_broker: EmbeddedBroker, connect: Connect
) -> None:
    peer = connect(waiting_broker.addr)
    opaque = park(peer)
    peer.send(
        "T",
        encode_batch((0, bytes([number]), b"") for number in range(5)),
        code=RequestCode.SEND_BATCH_MESSAGE,
        m="true",
    )
    assert bodies(peer.answer(opaque)) == [bytes([number]) for number in range(5)]


def test_without_long_polling_a_pull_waits_at_most_the_short_time(
    start_broker: StartBroker, connect: Connect, session: VirtualClock
) -> None:
    broker = start_broker(session_clock=session, topics=["T"], config={"longPollingEnable": False})
    peer = connect(broker.addr)
    opaque = park(peer)
    session.advance(1)
    assert peer.answer(opaque).code == 19


@pytest.mark.case("W64")
@pytest.mark.parametrize(("profile", "code"), [("rocketmq-4.9", 1), ("rocketmq-5.x", 29)])
def test_an_unknown_queue_or_topic_is_refused(
    start_broker: StartBroker, connect: Connect, profile: str, code: int
) -> None:
    peer = connect(start_broker(profile=profile).addr)
    peer.create_topic("T", queues=2)
    answer = peer.pull("T", queueId="2")
    assert answer.code == code
    assert "readQueueNums:[2]" in (answer.remark or "")
    assert peer.pull("T", queueId="-1").code == code
    assert peer.pull("Unknown").code == ResponseCode.TOPIC_NOT_EXIST


# -- SQL92 ----------------------------------------------------------------------------------


def fill_with(peer: WirePeer, *values: dict[str, str]) -> None:
    for number, properties in enumerate(values):
        assert peer.send("T", b"m%d" % number, properties).code == 0


def selected(peer: WirePeer, expression: str, offset: int = 0) -> RemotingCommand:
    """Pull with an expression of its own."""
    return peer.pull("T", offset, expressionType="SQL92", subscription=expression)


@pytest.mark.case("W66")
def test_only_messages_whose_properties_match_are_given(peer: WirePeer) -> None:
    fill_with(peer, {"a": "7", "b": "x"}, {"a": "7", "b": "z"}, {"b": "y"}, {"a": "6", "b": "y"})
    answer = selected(peer, "a > 5 AND b IN ('x','y')")
    assert bodies(answer) == [b"m0", b"m3"]
    assert bounds(answer)[2] == 4
    nothing = selected(peer, "a > 100")
    assert (nothing.code, bounds(nothing)[2]) == (20, 4)


@pytest.mark.case("W66")
def test_a_subscription_by_heartbeat_filters_as_one_that_comes_along(peer: WirePeer) -> None:
    fill_with(peer, {"a": "7"}, {"a": "3"})
    peer.heartbeat("c", consumer("consumers", {"T": "a > 5"}, expression_type="SQL92"))
    assert bodies(peer.pull("T", sysFlag=FROM_HEARTBEAT, subVersion="1")) == [b"m0"]


@pytest.mark.case("W68")
def test_a_value_is_converted_to_the_type_of_the_literal(peer: WirePeer) -> None:
    fill_with(peer, {"a": "3.5"}, {"a": "abc"}, {"a": "3000000000"}, {"a": "9"})
    assert bodies(selected(peer, "a > 5")) == [b"m3"]
    assert bodies(selected(peer, "a > 1.0")) == [b"m0", b"m2", b"m3"]


@pytest.mark.case("W69")
def test_an_expression_that_is_wrong_gives_no_messages(peer: WirePeer) -> None:
    fill_with(peer, {"a": "7"})
    for kind, expression in (("SQL92", "a >"), ("SQL92", ""), ("LUA", "a > 5")):
        answer = peer.pull("T", expressionType=kind, subscription=expression)
        assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert not answer.body


@pytest.mark.parametrize(
    ("kind", "expression"), [("SQL92", "a >"), ("SQL92", ""), ("LUA", "a > 5")]
)
def test_an_expression_of_a_heartbeat_that_is_wrong_is_27_until_another_one_comes(
    broker: EmbeddedBroker, peer: WirePeer, kind: str, expression: str
) -> None:
    fill_with(peer, {"a": "7"})

    def pulled(version: int, expression: str, kind: str) -> RemotingCommand:
        """Say by heartbeat what is wanted, and pull."""
        wanted = {"T": expression}
        told = consumer("consumers", wanted, expression_type=kind, sub_version=version)
        assert peer.heartbeat("c", told).code == 0
        return peer.pull("T", sysFlag=FROM_HEARTBEAT, subVersion=str(version))

    assert pulled(1, expression, kind).code == ResponseCode.FILTER_DATA_NOT_EXIST
    broker.config.update(enablePropertyFilter=False)
    assert pulled(2, expression, kind).code == ResponseCode.FILTER_DATA_NOT_EXIST
    assert pulled(3, "a = '7'", "SQL92").code == 1
    broker.config.update(enablePropertyFilter=True)
    assert bodies(pulled(3, "a = '7'", "SQL92")) == [b"m0"]


@pytest.mark.case("W69")
def test_a_pull_that_is_newer_than_the_last_right_expression_is_28(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    fill_with(peer, {"a": "7"}, {"a": "3"})

    def told(version: int, expression: str) -> None:
        wanted = {"T": expression}
        peer.heartbeat(
            "c", consumer("consumers", wanted, expression_type="SQL92", sub_version=version)
        )

    def pulled(version: int) -> RemotingCommand:
        return peer.pull("T", sysFlag=FROM_HEARTBEAT, subVersion=str(version))

    told(1, "a = 7")
    told(2, "")
    refused = pulled(2)
    assert refused.code == ResponseCode.FILTER_DATA_NOT_LATEST
    assert (refused.remark or "").startswith("the consumer's consumer filter data not latest")
    assert bodies(pulled(1)) == [b"m0"]
    broker.reset()
    fill_with(peer, {"a": "7"}, {"a": "3"})
    assert pulled(2).code == ResponseCode.FILTER_DATA_NOT_LATEST
    assert pulled(1).remark == "OFFSET_RESET"
    assert bodies(pulled(1)) == [b"m0"]
    told(3, "a >")
    assert pulled(1).code == ResponseCode.FILTER_DATA_NOT_EXIST


def test_a_filter_is_kept_while_its_group_is_gone_and_while_the_broker_is_closed(
    start_broker: StartBroker, connect: Connect, tmp_path: Path
) -> None:
    def told(peer: WirePeer, version: int, expression: str) -> list[bytes]:
        wanted = {"T": expression}
        peer.heartbeat(
            "c", consumer("consumers", wanted, expression_type="SQL92", sub_version=version)
        )
        return bodies(peer.pull("T", sysFlag=FROM_HEARTBEAT, subVersion=str(version)))

    first = start_broker(store=tmp_path)
    peer = connect(first.addr)
    fill_with(peer, {"a": "7"}, {"a": "3"})
    assert told(peer, 5, "a = 7") == [b"m0"]
    left = {"clientID": "c", "consumerGroup": "consumers"}
    assert peer.ask(RequestCode.UNREGISTER_CLIENT, left).code == 0
    kept = first._parts().tables.consumer_filters
    assert [one.is_dead for one in (kept.value("T") or {}).values()] == [True]
    # As in the original an older expression changes nothing.
    assert told(peer, 4, "a = 3") == [b"m0"]
    first.close()
    assert "consumerFilter.json" in {path.name for path in (tmp_path / "config").iterdir()}
    peer = connect(start_broker(store=tmp_path).addr)
    assert told(peer, 4, "a = 3") == [b"m0"]
    assert told(peer, 6, "a = 3") == [b"m1"]


@pytest.mark.parametrize(("profile", "found"), [("rocketmq-5.x", [b"m0"]), ("rocketmq-4.9", [])])
def test_4_9_reads_a_search_up_to_its_word_and_a_property_is_never_true(
    start_broker: StartBroker, connect: Connect, profile: str, found: list[bytes]
) -> None:
    peer = connect(start_broker(profile=profile).addr)
    fill_with(peer, {"a": "north-east"}, {"a": "south"})
    answer = selected(peer, "a CONTAINS 'north'")
    assert (bodies(answer), bounds(answer)[2]) == (found, 2)


@pytest.mark.case("W70")
def test_the_negation_of_what_is_unknown_is_unknown(peer: WirePeer) -> None:
    fill_with(peer, {}, {"a": "2"})
    assert bodies(selected(peer, "NOT (a = 1)")) == [b"m1"]
    # As it is written in the case: NOT binds closer, and a truth is no number.
    assert selected(peer, "NOT a = 1").code == 20


def test_a_parked_pull_is_answered_when_a_message_matches(
    waiting_broker: EmbeddedBroker, connect: Connect
) -> None:
    peer = connect(waiting_broker.addr)
    opaque = park(peer, expressionType="SQL92", subscription="a > 5")
    peer.send("T", b"small", {"a": "1"})
    assert not peer.has_answer(opaque)
    peer.send("T", b"large", {"a": "9"})
    assert bodies(peer.answer(opaque)) == [b"large"]


# -- the rest -------------------------------------------------------------------------------


def test_the_commit_flag_stores_the_offset_that_came_along(peer: WirePeer) -> None:
    fill(peer, "T", 3)
    peer.pull("T", 1, sysFlag="5", commitOffset="1")
    query = {"consumerGroup": "consumers", "topic": "T", "queueId": "0"}
    answer = peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)
    assert answer.ext_fields == {"offset": "1"}


def test_a_group_may_be_forbidden_to_consume(peer: WirePeer) -> None:
    peer.create_topic("T")
    body = b'{"groupName":"consumers","consumeEnable":false}'
    assert peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body).code == 0
    answer = peer.pull("T")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.ext_fields["forbiddenType"] == "2"


def test_an_unknown_group_is_26_when_groups_are_not_created(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(topics=["T"], config={"autoCreateSubscriptionGroup": False})
    answer = connect(broker.addr).pull("T")
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_lite_pull_is_answered_as_a_pull_and_only_by_5_x(
    start_broker: StartBroker, connect: Connect
) -> None:
    new = connect(start_broker().addr)
    fill(new, "T", 1)
    assert bodies(new.ask(RequestCode.LITE_PULL_MESSAGE, pull_fields("T"))) == [b"m0"]
    old = connect(start_broker(profile="rocketmq-4.9", topics=["T"]).addr)
    answer = old.ask(RequestCode.LITE_PULL_MESSAGE, pull_fields("T"))
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_a_broker_without_read_permission_refuses_pulls(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(topics=["T"], config={"brokerPermission": 2})
    answer = connect(broker.addr).pull("T")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.ext_fields["forbiddenType"] == "1"

"""Requests 310, 10 and 320: what is accepted, where it lies, and how refusals read."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.protocol.message_codec import MAGIC_V1, encode_batch
from rocketmq_py.protocol.properties import (
    PROPERTIES_SIZE_MAX,
    Prop,
    decode_properties,
    encode_properties,
)
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import (
    Connect,
    WirePeer,
    bodies,
    properties_text,
    records,
    send_fields,
    topic_fields,
)

BY_PROFILE = [("rocketmq-4.9", 1), ("rocketmq-5.x", 29)]
MARKS = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


def marks_of(ext: dict[str, str]) -> dict[str, str]:
    return {name: ext[name] for name in MARKS if name in ext}


@pytest.mark.case("W20")
def test_a_send_without_topic_is_answered_1_naming_the_field(peer: WirePeer) -> None:
    fields = send_fields("T")
    del fields["b"]
    answer = peer.ask(RequestCode.SEND_MESSAGE_V2, fields, b"x")
    assert answer.code == 1
    assert "topic" in (answer.remark or "")
    assert marks_of(answer.ext_fields) == MARKS
    assert peer.send("T").code == 0, "the socket stays usable"


@pytest.mark.case("W25")
def test_a_send_to_a_new_topic_creates_it_and_the_name_server_knows_at_once(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    answer = connect(broker.addr).send("T", d="4")
    assert answer.code == 0
    route = connect(broker.namesrv_addr).ask(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}, version=401
    )
    assert route.code == 0
    for piece in (b'"perm":6', b'"readQueueNums":4', b'"writeQueueNums":4'):
        assert piece in route.body


@pytest.mark.case("W26")
def test_an_unknown_topic_is_17_when_topics_are_not_created(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(config={"autoCreateTopicEnable": False})
    answer = connect(broker.addr).send("T")
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert "autoCreateTopicEnable=false" in (answer.remark or "")
    assert marks_of(answer.ext_fields) == MARKS


@pytest.mark.case("W27")
def test_a_template_without_the_inherit_bit_creates_no_topic(peer: WirePeer) -> None:
    peer.create_topic("Template")
    assert peer.send("T", c="Template").code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.case("W28")
def test_a_new_topic_has_at_most_the_queues_of_its_template(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    assert peer.send("T", d="16").code == 0
    assert broker.topics["T"].queues == 8


@pytest.mark.case("W29")
def test_a_negative_queue_id_lets_the_broker_choose(peer: WirePeer) -> None:
    chosen = {int(peer.send("T", e="-1").ext_fields["queueId"]) for _ in range(100)}
    assert chosen <= {0, 1, 2, 3}
    assert len(chosen) > 1


@pytest.mark.case("W30")
@pytest.mark.parametrize(("profile", "code"), BY_PROFILE)
def test_a_queue_beyond_the_topic_is_refused(
    start_broker: StartBroker, connect: Connect, profile: str, code: int
) -> None:
    peer = connect(start_broker(profile=profile).addr)
    peer.create_topic("T", queues=2, writeQueueNums="3")
    assert peer.send("T", e="2").code == 0
    answer = peer.send("T", e="3")
    assert answer.code == code
    assert "queueId[3]" in (answer.remark or "")


@pytest.mark.case("W31")
def test_permissions_of_a_topic_are_kept(peer: WirePeer) -> None:
    peer.create_topic("ReadOnly", perm=4)
    peer.create_topic("WriteOnly", perm=2)
    refused = peer.send("ReadOnly")
    assert refused.code == ResponseCode.NO_PERMISSION
    assert "perm=4" in (refused.remark or "")
    assert peer.send("WriteOnly").code == 0
    assert peer.pull("WriteOnly").code == ResponseCode.NO_PERMISSION


def test_a_broker_without_write_permission_refuses_and_says_so(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(config={"brokerPermission": 4})
    answer = connect(broker.addr).send("T")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert "brokerPermission=4" in (answer.remark or "")


@pytest.mark.case("W32")
def test_the_topic_of_the_levels_takes_no_message_from_a_client(peer: WirePeer) -> None:
    answer = peer.send("SCHEDULE_TOPIC_XXXX")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert "is forbidden" in (answer.remark or "")


@pytest.mark.case("W33")
def test_a_body_of_exactly_4_mib_is_stored_and_one_more_byte_is_not(peer: WirePeer) -> None:
    assert peer.send("T", b"x" * 4_194_304).code == 0
    answer = peer.send("T", b"x" * 4_194_305)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    for piece in ("4194305", "4194304", "maxMessageSize"):
        assert piece in (answer.remark or "")


@pytest.mark.case("W34")
def test_properties_may_take_32767_bytes_with_those_of_the_broker(peer: WirePeer) -> None:
    assert peer.send("T").code == 0
    (record,) = records(peer.pull("T"))
    free = PROPERTIES_SIZE_MAX - len(record.properties_bytes) - len("a\x01\x02")
    assert peer.send("T", properties={"a": "x" * free}).code == 0
    answer = peer.send("T", properties={"a": "x" * (free + 1)})
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "32768" in (answer.remark or "")
    assert "32767" in (answer.remark or "")


@pytest.mark.case("W35")
@pytest.mark.parametrize("topic", ["a b", "x" * 128])
@pytest.mark.parametrize(("profile", "code"), BY_PROFILE)
def test_bad_topic_names_are_refused_by_profile(
    start_broker: StartBroker, connect: Connect, profile: str, code: int, topic: str
) -> None:
    answer = connect(start_broker(profile=profile).addr).send(topic)
    assert answer.code == code
    assert (answer.remark or "").startswith("The specified topic")


@pytest.mark.parametrize("prefix", ["%RETRY%", "%DLQ%"])
@pytest.mark.parametrize(
    ("profile", "length", "code"), [("rocketmq-4.9", 127, 1), ("rocketmq-5.x", 255, 29)]
)
def test_topics_of_groups_may_be_longer_since_5_x(
    start_broker: StartBroker, connect: Connect, profile: str, length: int, code: int, prefix: str
) -> None:
    peer = connect(start_broker(profile=profile).addr)
    for too_long in (False, True):
        topic = prefix + "x" * (length + too_long - len(prefix))
        answer = peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(topic))
        assert answer.code == (code if too_long else 0), answer.remark
        sent = peer.send(topic)
        assert (sent.code == code) is too_long, sent.remark


@pytest.mark.case("W36")
@pytest.mark.parametrize(("profile", "code"), [("rocketmq-4.9", 0), ("rocketmq-5.x", 1)])
def test_an_empty_body_is_stored_by_4_9_only(
    start_broker: StartBroker, connect: Connect, profile: str, code: int
) -> None:
    assert connect(start_broker(profile=profile).addr).send("T", b"").code == code


@pytest.mark.case("W37")
def test_requests_10_and_310_store_the_same_record(peer: WirePeer) -> None:
    properties = {"TAGS": "a", "KEYS": "k1 k2", "user": "wörld"}
    short = send_fields("T", properties, h="7", j="2")
    names = {
        "a": "producerGroup",
        "b": "topic",
        "c": "defaultTopic",
        "d": "defaultTopicQueueNums",
        "e": "queueId",
        "f": "sysFlag",
        "g": "bornTimestamp",
        "h": "flag",
        "i": "properties",
        "j": "reconsumeTimes",
        "k": "unitMode",
        "m": "batch",
    }
    assert peer.ask(RequestCode.SEND_MESSAGE_V2, short, b"hello").code == 0
    long = {names[name]: value for name, value in short.items()}
    assert peer.ask(RequestCode.SEND_MESSAGE, long, b"hello").code == 0
    first, second = records(peer.pull("T"))
    assert (first.queue_offset, second.queue_offset) == (0, 1)
    for name in (
        "topic",
        "queue_id",
        "flag",
        "sys_flag",
        "born_timestamp",
        "born_host",
        "store_host",
        "body_crc",
        "reconsume_times",
        "body",
        "properties",
    ):
        assert getattr(first, name) == getattr(second, name), name


def test_the_answer_tells_where_the_record_lies(broker: EmbeddedBroker, peer: WirePeer) -> None:
    answer = peer.send("T", e="2")
    (record,) = records(peer.pull("T", queueId="2"))
    assert answer.ext_fields == {
        **MARKS,
        "msgId": record.offset_msg_id,
        "queueId": "2",
        "queueOffset": "0",
        "transactionId": "ID0001",
    }
    assert broker.addr.endswith(str(int.from_bytes(record.store_host[4:])))
    assert peer.port == int.from_bytes(record.born_host[4:])


def test_a_5_x_broker_marks_the_message_and_drops_a_pop_handle(peer: WirePeer) -> None:
    peer.send("T", properties={"POP_CK": "1 2 3"})
    peer.send("T", i=properties_text({"WAIT": "true"}))
    first, second = records(peer.pull("T"))
    marks = {"CLUSTER": "DefaultCluster", **MARKS, "WAIT": "true"}
    assert first.properties == marks | {"UNIQ_KEY": "ID0001"}
    assert len(second.properties.pop("UNIQ_KEY")) == 32
    assert second.properties == marks


def test_a_4_9_broker_adds_the_cluster_and_removes_wait(
    start_broker: StartBroker, connect: Connect
) -> None:
    peer = connect(start_broker(profile="rocketmq-4.9").addr)
    answer = peer.send("T")
    (record,) = records(peer.pull("T"))
    assert record.properties == {"CLUSTER": "DefaultCluster", "UNIQ_KEY": "ID0001"}
    assert "transactionId" not in answer.ext_fields
    assert marks_of(answer.ext_fields) == MARKS


def test_properties_with_a_zero_byte_are_refused(peer: WirePeer) -> None:
    answer = peer.send("T", i="a\x01b\x00c\x02")
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "U+0000" in (answer.remark or "")


@pytest.mark.parametrize("profile", ["rocketmq-4.9", "rocketmq-5.x"])
@pytest.mark.parametrize(
    "sent",
    [
        "UNIQ_KEY\1ID0\2WAIT\1true\2K\1v\2",
        "UNIQ_KEY\1ID0\2WAIT\1true",  # as 4.9 clients end it
        "XWAIT\1true\2UNIQ_KEY\1ID0\2WAIT\1true\2",
        "K\1a\2UNIQ_KEY\1ID0\2K\1b\2",
        "UNIQ_KEY\1ID0\2EMPTY\1\2K\1v\2",
        "UNIQ_KEY\1ID0\2TRACE_ON\1no\2CLUSTER\1mine\2",
        "UNIQ_KEY\1ID0\2TIMER_OUT_MS\0011\2WAIT\1true\2",
    ],
)
def test_a_message_is_stored_with_what_was_sent_and_what_the_broker_adds(
    start_broker: StartBroker, connect: Connect, profile: str, sent: str
) -> None:
    broker = start_broker(profile=profile)
    peer = connect(broker.addr)
    assert peer.ask(RequestCode.SEND_MESSAGE_V2, send_fields("T") | {"i": sent}, b"x").code == 0
    (record,) = records(peer.pull("T"))
    expected = decode_properties(sent) | {"CLUSTER": "DefaultCluster"}
    expected.pop("TIMER_OUT_MS", None)
    if not broker.profile.wait_property_kept:
        expected.pop("WAIT", None)
    if profile == "rocketmq-5.x":
        expected |= MARKS
    assert record.properties == expected
    assert record.properties_bytes == encode_properties(record.properties)


# -- batches --------------------------------------------------------------------------------


def batch(*items: dict[str, str]) -> bytes:
    return encode_batch(
        (0, f"body {number}".encode(), encode_properties(properties))
        for number, properties in enumerate(items)
    )


@pytest.mark.case("W47")
@pytest.mark.parametrize("outer", [{"WAIT": "true"}, {"WAIT": "true", "UNIQ_KEY": "OUTER"}])
def test_a_batch_is_stored_as_single_records_with_their_own_unique_keys(
    peer: WirePeer, outer: dict[str, str]
) -> None:
    body = batch(*({"UNIQ_KEY": f"ID{number}", "KEYS": f"k{number}"} for number in range(3)))
    answer = peer.send(
        "T", body, code=RequestCode.SEND_BATCH_MESSAGE, m="true", i=properties_text(outer)
    )
    assert answer.code == 0
    stored = records(peer.pull("T"))
    assert answer.ext_fields["msgId"].split(",") == [one.offset_msg_id for one in stored]
    assert answer.ext_fields["queueOffset"] == "0"
    assert "recallHandle" not in answer.ext_fields
    assert [one.queue_offset for one in stored] == [0, 1, 2]
    assert [one.properties["UNIQ_KEY"] for one in stored] == ["ID0", "ID1", "ID2"]
    assert [one.body for one in stored] == [b"body 0", b"body 1", b"body 2"]
    for number in range(3):
        found = peer.ask(
            RequestCode.QUERY_MESSAGE,
            {
                "topic": "T",
                "key": f"ID{number}",
                "maxNum": "32",
                "beginTimestamp": "0",
                "endTimestamp": str(2**63 - 1),
                "_UNIQUE_KEY_QUERY": "true",
            },
        )
        assert bodies(found) == [f"body {number}".encode()]


def test_upstream_defaults_let_the_batch_unique_key_win(
    start_broker: StartBroker, connect: Connect
) -> None:
    peer = connect(start_broker(defaults="upstream").addr)
    fields = {"m": "true", "i": properties_text({"UNIQ_KEY": "OUTER"})}
    peer.ask(
        RequestCode.SEND_BATCH_MESSAGE,
        send_fields("T") | fields,
        batch({"UNIQ_KEY": "ID0"}, {"UNIQ_KEY": "ID1"}),
    )
    keys = [one.properties["UNIQ_KEY"] for one in records(peer.pull("T"))]
    assert keys == ["OUTER", "OUTER"]


@pytest.mark.case("A20")
@pytest.mark.parametrize(
    "delay",
    ["DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "__STARTDELIVERTIME"],
)
@pytest.mark.parametrize("inside", [True, False])
def test_a_batch_with_a_delay_is_refused_whole(peer: WirePeer, delay: str, inside: bool) -> None:
    asked = {delay: "1" if delay != "TIMER_DELIVER_MS" else str(2**42)}
    inner = asked if inside else {}
    outer = {} if inside else asked
    answer = peer.send(
        "T",
        batch({"UNIQ_KEY": "ID0"}, {"UNIQ_KEY": "ID1"} | inner),
        code=RequestCode.SEND_BATCH_MESSAGE,
        m="true",
        i=properties_text(outer | {"WAIT": "true"}),
    )
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert peer.pull("T").ext_fields["maxOffset"] == "0"


def test_a_batch_that_cannot_be_decoded_or_is_for_a_retry_topic_is_13(peer: WirePeer) -> None:
    for topic, body in (("T", b"\x00\x00"), ("%RETRY%g", batch({"UNIQ_KEY": "ID0"}))):
        answer = peer.send(topic, body, code=RequestCode.SEND_BATCH_MESSAGE, m="true")
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert marks_of(answer.ext_fields) == MARKS


def test_the_size_limit_is_for_the_batch_as_a_whole(
    start_broker: StartBroker, connect: Connect
) -> None:
    peer = connect(start_broker(config={"maxMessageSize": 100}).addr)
    items = [{"UNIQ_KEY": "ID0"}] * 2
    code = RequestCode.SEND_BATCH_MESSAGE
    assert peer.send("T", batch(*items), code=code, m="true").code == 0
    answer = peer.send("T", batch(*items * 2), code=code, m="true")
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "maxMessageSize" in (answer.remark or "")


# -- delay, as far as the answer tells ------------------------------------------------------


@pytest.mark.case("W88")
def test_level_19_is_stored_at_level_18_with_the_delivery_time_as_tag_code(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    answer = peer.send("T", properties={"DELAY": "19"})
    assert answer.code == 0
    assert answer.ext_fields["queueId"] == "0"
    stored = peer.pull("SCHEDULE_TOPIC_XXXX", queueId="17")
    (record,) = records(stored)
    assert record.properties["DELAY"] == "18"
    due_ms = record.store_timestamp + 2 * 3600 * 1000
    codes = str(due_ms)
    # The tag code of a queue entry is what pulls filter by; the store's own entry shows it.
    parts = broker._parts()
    with parts.door:
        queue = parts.store.consume_queue("SCHEDULE_TOPIC_XXXX", 17)
        assert queue is not None
        entry = queue.entry(0)
    assert entry is not None
    assert str(entry[2]) == codes


@pytest.mark.case("A16")
def test_the_timer_topic_is_closed_and_a_clients_timer_bookkeeping_is_stripped(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    assert peer.send("rmq_sys_wheel_timer").code == ResponseCode.NO_PERMISSION
    answer = peer.send(
        "T",
        properties={"TIMER_OUT_MS": "5", "TIMER_ROLL_TIMES": "9", "TIMER_DELAY_SEC": "5"},
    )
    assert answer.code == 0
    assert broker.timers.count() == 1
    (record,) = records(peer.pull("rmq_sys_wheel_timer"))
    assert record.properties["TIMER_OUT_MS"] != "5"
    assert "TIMER_ROLL_TIMES" not in record.properties


@pytest.mark.case("R2")
@pytest.mark.parametrize("precision_ms", [100, 200, 500, 1000])
def test_the_recall_handle_names_the_slot_plus_one(
    start_broker: StartBroker, connect: Connect, precision_ms: int
) -> None:
    broker = start_broker(config={"timerPrecisionMs": precision_ms})
    peer = connect(broker.addr)
    answer = peer.send("T", properties={"TIMER_DELAY_SEC": "5"})
    handle = RecallHandle.decode(answer.ext_fields["recallHandle"])
    (record,) = records(peer.pull("rmq_sys_wheel_timer"))
    out_ms = int(record.properties["TIMER_OUT_MS"])
    assert handle == RecallHandle("T", "broker-a", out_ms + 1, "ID0001")
    assert handle.timestamp_ms // precision_ms * precision_ms == out_ms


@pytest.mark.case("R3")
def test_only_a_single_timer_to_an_ordinary_topic_gets_a_recall_handle(peer: WirePeer) -> None:
    timed = {"TIMER_DELAY_SEC": "5"}
    assert "recallHandle" in peer.send("T", properties=timed).ext_fields
    for topic, properties in (
        ("T", {}),
        ("T", {"DELAY": "3"}),
        ("%RETRY%g", timed),
        ("T", {"TIMER_DELAY_SEC": "0"}),
    ):
        answer = peer.send(topic, properties=properties)
        assert answer.code == 0
        assert "recallHandle" not in answer.ext_fields
    several = peer.send(
        "T", batch({"UNIQ_KEY": "ID0"}), code=RequestCode.SEND_BATCH_MESSAGE, m="true"
    )
    assert several.code == 0
    assert "recallHandle" not in several.ext_fields


def test_a_delayed_send_is_answered_with_the_queue_that_was_asked_for(peer: WirePeer) -> None:
    peer.create_topic("T", queues=4)
    for number, properties in enumerate(({"DELAY": "3"}, {"TIMER_DELAY_SEC": "5"})):
        answer = peer.send("T", properties=properties, e="3")
        assert answer.ext_fields["queueId"] == "3"
        assert answer.ext_fields["queueOffset"] == "0", number


def test_a_too_long_delay_is_13_and_names_the_limit(peer: WirePeer) -> None:
    answer = peer.send("T", properties={Prop.TIMER_DELAY_MS: "259200001"})
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "259200000" in (answer.remark or "")
    assert "timerMaxDelaySec" in (answer.remark or "")
    assert marks_of(answer.ext_fields) == MARKS


@pytest.mark.case("W38")
def test_a_pulled_record_has_the_bytes_of_the_specification(peer: WirePeer) -> None:
    peer.send("T", b"hello", {"TAGS": "a", "KEYS": "k", "user": "u"}, g="1700000000000", h="7")
    body = peer.pull("T").body
    size = int.from_bytes(body[:4])
    assert size == len(body)
    (record,) = records(peer.pull("T"))
    assert size == 91 + 5 + len("T") + len(record.properties_bytes)
    assert int.from_bytes(body[4:8], signed=True) == MAGIC_V1
    assert body[8:12].hex().upper() == "3610A686"
    assert int.from_bytes(body[16:20]) == 7
    assert int.from_bytes(body[40:48]) == 1700000000000
    assert int.from_bytes(body[52:56]) == peer.port
    assert int.from_bytes(body[56:64]) == record.store_timestamp
    assert body[64:68] == b"\x7f\x00\x00\x01"
    assert body[84:93] == b"\x00\x00\x00\x05hello"


@pytest.mark.parametrize("wait", ["true", "false"])
def test_a_synchronous_broker_answers_when_the_message_is_durable(
    start_broker: StartBroker, connect: Connect, wait: str
) -> None:
    broker = start_broker(config={"flushDiskType": "SYNC_FLUSH"})
    answer = connect(broker.addr).send("T", properties={"WAIT": wait})
    assert answer.code == 0
    parts = broker._parts()
    with parts.door:
        durable = parts.store.flushed_offset >= parts.store.log.max_offset
    assert durable or wait == "false"


def test_a_topic_without_queues_takes_nothing(peer: WirePeer) -> None:
    peer.create_topic("T", queues=0)
    for queue_id in ("-1", "0"):
        answer = peer.send("T", e=queue_id)
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert "writeQueueNums=0" in (answer.remark or "")


def test_unit_mode_marks_the_topic_and_several_tags_the_record(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    peer.send("T", k="true")
    peer.send("%RETRY%g", k="true")
    parts = broker._parts()
    with parts.door:
        flags = [
            topic.topic_sys_flag
            for name in ("T", "%RETRY%g")
            if (topic := parts.tables.topics.get(name)) is not None
        ]
    assert flags == [1, 2]
    peer.create_topic("M", topicFilterType="MULTI_TAG")
    peer.send("M")
    (record,) = records(peer.pull("M"))
    assert record.sys_flag & 2


def test_an_unreadable_delay_level_is_1_and_names_the_value(peer: WirePeer) -> None:
    answer = peer.send("T", properties={"DELAY": "soon"})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "soon" in (answer.remark or "")


def test_a_timer_without_unique_key_is_no_trouble_for_4_9(
    start_broker: StartBroker, connect: Connect
) -> None:
    peer = connect(start_broker(profile="rocketmq-4.9").addr)
    answer = peer.send("T", i=properties_text({"TIMER_DELAY_SEC": "5"}))
    assert answer.code == 0
    assert "recallHandle" not in answer.ext_fields


def test_the_guard_of_a_retry_may_be_anything(peer: WirePeer) -> None:
    answer = peer.send("%RETRY%g", properties={"TIMER_OUT_MS": "junk"})
    assert answer.code == 0
    assert "recallHandle" not in answer.ext_fields

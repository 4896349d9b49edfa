"""What a namespace does to single commands; for clients see ``tests/sdk``."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    ConfigError,
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
)
from rocketmq_py.client.namespaces import Namespace
from rocketmq_py.config import ClientConfig
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.lenient_json import loads_lenient
from rocketmq_py.protocol.message_codec import iter_records
from rocketmq_py.protocol.properties import encode_properties
from tests.records import encode_record

SHOP = Namespace("shop")


def record(
    topic: str, body: bytes, properties: dict[str, str], host: bytes = b"\x7f\0\0\1"
) -> bytes:
    return encode_record(
        topic=topic,
        queue_id=1,
        flag=2,
        queue_offset=3,
        commit_log_offset=4,
        sys_flag=0,
        born_timestamp=5,
        born_host=host + b"\0\0\0\1",
        store_timestamp=6,
        store_host=host + b"\0\0\0\1",
        reconsume_times=7,
        prepared_transaction_offset=8,
        body=body,
        properties=encode_properties(properties),
    )


def leaving(code: int, body: bytes = b"", **fields: str) -> RemotingCommand:
    """Give a request as it leaves, also when it is prepared twice."""
    once = RemotingCommand(code, ext_fields=dict(fields), body=body)
    SHOP.leaves(once)
    again = RemotingCommand(code, ext_fields=dict(once.ext_fields), body=once.body)
    SHOP.leaves(again)
    assert again == once
    return once


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("T", "shop%T"),
        ("%RETRY%G", "%RETRY%shop%G"),
        ("%DLQ%G", "%DLQ%shop%G"),
        ("shop%T", "shop%T"),
        ("%RETRY%shop%G", "%RETRY%shop%G"),
        ("%RETRY%G_T", "%RETRY%shop%G_shop%T"),
        ("%RETRY%G+T", "%RETRY%shop%G+shop%T"),
        ("%RETRY%shop%G_shop%T", "%RETRY%shop%G_shop%T"),
        ("TBW102", "TBW102"),
        ("RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRACE_TOPIC"),
        ("rmq_sys_wheel_timer", "rmq_sys_wheel_timer"),
        ("DefaultCluster_REPLY_TOPIC", "DefaultCluster_REPLY_TOPIC"),
    ],
)
def test_a_name_is_wrapped_behind_its_prefix_once_and_those_of_rocketmq_never(
    name: str, wire: str
) -> None:
    request = leaving(RequestCode.ACK_MESSAGE, consumerGroup="G", topic=name)
    assert request.ext_fields == {"consumerGroup": "shop%G", "topic": wire}


@pytest.mark.parametrize("group", ["TOOLS_CONSUMER", "CLIENT_INNER_PRODUCER", "CID_RMQ_SYS_X"])
def test_groups_of_rocketmq_are_not_wrapped(group: str) -> None:
    assert leaving(RequestCode.UNREGISTER_CLIENT, producerGroup=group).ext_fields == {
        "producerGroup": group
    }


def test_a_send_has_the_instance_in_its_properties_and_names_in_them_are_wrapped() -> None:
    request = leaving(
        RequestCode.SEND_MESSAGE_V2,
        b"{}",
        a="P",
        b="T",
        c="TBW102",
        i="PGROUP\x01P\x02k\x01shop\x02",
    )
    assert request.ext_fields == {
        "a": "shop%P",
        "b": "shop%T",
        "c": "TBW102",
        "i": "PGROUP\x01shop%P\x02k\x01shop\x02INSTANCE_ID\x01shop\x02",
    }
    assert request.body == b"{}"


def test_names_in_the_document_of_a_request_are_wrapped_wherever_they_stand() -> None:
    body = b'{"consumerGroup":"G","mqSet":[{"topic":"T","brokerName":"b","queueId":0}]}'
    request = leaving(RequestCode.LOCK_BATCH_MQ, body)
    assert loads_lenient(request.body) == {
        "consumerGroup": "shop%G",
        "mqSet": [{"topic": "shop%T", "brokerName": "b", "queueId": 0}],
    }


def test_lists_of_names_in_a_field_are_wrapped_one_by_one() -> None:
    request = leaving(RequestCode.GET_CONSUME_STATS, consumerGroup="G", topicList="A;B")
    assert request.ext_fields["topicList"] == "shop%A;shop%B"


def test_stored_messages_lose_the_namespace_in_topic_and_properties_and_nothing_else() -> None:
    stored = [
        record("%RETRY%shop%G", b"shop%body", {"RETRY_TOPIC": "shop%T", "mine": "shop%x"}),
        record("other-shop%T", b"two", {}, b"\x20" * 16),
        record("shop%" + "T" * 300, b"two", {}, b"\x20" * 16),
        record("shop%T", b"", {"REAL_TOPIC": "shop%T"}),
    ]
    answer = RemotingCommand(0, body=b"".join(stored))
    arrived = SHOP.arrives(RequestCode.PULL_MESSAGE, answer)
    assert [(one.topic, one.body, one.properties) for one in iter_records(arrived.body)] == [
        ("%RETRY%G", b"shop%body", {"RETRY_TOPIC": "T", "mine": "shop%x"}),
        ("other-shop%T", b"two", {}),
        ("T" * 300, b"two", {}),
        ("T", b"", {"REAL_TOPIC": "T"}),
    ]
    assert answer.body == b"".join(stored)


def test_bytes_that_are_no_records_stay_as_they_are() -> None:
    good = record("shop%T", b"x", {})
    for bad in (b"shop%", b"\xff" * 200 + b"shop%", good[:-1], b"\0" * 91 + b"shop%T"):
        arrived = SHOP.arrives(RequestCode.PULL_MESSAGE, RemotingCommand(0, body=good + bad))
        assert arrived.body.endswith(bad)
        assert next(iter_records(arrived.body)).topic == "T"
    for at in range(len(good)):
        broken = good[:at] + b"\x7f" + good[at + 1 :]
        SHOP.arrives(RequestCode.PULL_MESSAGE, RemotingCommand(0, body=broken))


def test_names_in_answers_and_remarks_lose_it_and_those_of_others_do_not() -> None:
    answer = RemotingCommand(
        ResponseCode.TOPIC_NOT_EXIST,
        remark="topic[shop%T] of %RETRY%shop%G_shop%T, not my-shop%T",
        body=b'{"offsetTable":{"shop%T@shop%G":{}},"x":"workshop%T"}',
    )
    arrived = SHOP.arrives(RequestCode.GET_CONSUME_STATS, answer)
    assert arrived.remark == "topic[T] of %RETRY%G_T, not my-shop%T"
    assert arrived.body == b'{"offsetTable":{"T@G":{}},"x":"workshop%T"}'


def test_of_all_topics_those_of_the_namespace_and_of_rocketmq_are_seen() -> None:
    body = b'{"topicList":["T","shop%T","other%T","TBW102","%RETRY%shop%G","%RETRY%G"]}'
    answer = RemotingCommand(0, body=body)
    arrived = SHOP.arrives(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, answer)
    assert loads_lenient(arrived.body) == {"topicList": ["T", "TBW102", "%RETRY%G"]}


def test_the_body_of_a_pushed_reply_is_the_programs_own() -> None:
    request = RemotingCommand(
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
        ext_fields={
            "topic": "C_REPLY_TOPIC",
            "producerGroup": "shop%P",
            "properties": "k\x01v\x02",
        },
        body=b'{"topic":"shop%T"}',
    )
    heard = SHOP.hears(request)
    assert heard.body == request.body
    assert heard.ext_fields["producerGroup"] == "P"


def test_policies_and_options_keep_the_names_that_an_administrator_writes() -> None:
    answer = RemotingCommand(0, body=b'[{"resource":"Topic:shop%T"}]')
    assert SHOP.arrives(RequestCode.AUTH_LIST_ACL, answer).body == answer.body


def test_what_a_client_tells_of_itself_is_wrapped_in_tables_too() -> None:
    answer = RemotingCommand(0, body=b'{"messageQueueTable":{{"queueId":0,"topic":"T"}:7}}')
    told = SHOP.answers(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, answer)
    assert told.body == b'{"messageQueueTable":{{"queueId":0,"topic":"shop%T"}:7}}'


def test_a_namespace_of_5x_goes_along_with_every_request_and_names_stay() -> None:
    with EmbeddedBroker(topics=["T"]) as broker:
        with DefaultMQProducer(
            "P", namesrv_addr=broker.namesrv_addr, namespace_v2="shop"
        ) as producer:
            producer.send(Message("T", b"x"))
            producer.send_oneway(Message("T", b"x"))
            consumer = DefaultMQPushConsumer(
                "G", namesrv_addr=broker.namesrv_addr, namespace_v2="shop"
            )
            consumer.subscribe("T")
            consumer.register_message_listener(lambda *_: ConsumeConcurrentlyStatus.CONSUME_SUCCESS)
            consumer.start()
            consumer.shutdown()
        asked = [one for one in broker.journal.requests() if one.client_id and not one.pushed]
        assert asked
        assert {(one.fields.get("ns"), one.fields.get("nsd")) for one in asked} == {
            ("shop", "true")
        }
        assert len(broker.messages.in_topic("T")) == 2


@pytest.mark.parametrize("name", ["namespace", "namespace_v2"])
@pytest.mark.parametrize("value", ["a%b", "a b", "x" * 65, 7])
def test_a_namespace_that_is_none_is_refused_with_its_setting(name: str, value: object) -> None:
    settings = {name: value}
    with pytest.raises(ConfigError, match=rf"{name}.*up to 64 letters"):
        ClientConfig(**settings)  # type: ignore[arg-type] # what a program may give

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from hashlib import md5
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.grpc.calls.sending import queue_of_group
from embedded_broker.grpc.schema import Encoding, MessageType
from tests.unit.embedded_broker.grpc.raw_client import RawClient

DAY_MS = 86_400_000


def code_of(client: RawClient, *messages: Any) -> int:
    return int(client.send(*messages).status.code)


@pytest.mark.case("G19")
def test_a_message_is_stored_with_what_its_client_said(
    broker: EmbeddedBroker, client: RawClient, queue: str
) -> None:
    message = client.message(
        queue,
        b"body",
        tag="paid",
        keys=["k1", "k2"],
        properties={"a": "b", "empty": ""},
        message_id="0102030405",
        born_host="10.0.0.1",
        trace_context="ctx",
    )
    message.system_properties.born_timestamp.FromMilliseconds(1234)
    answer = client.send(message)

    (entry,) = answer.entries
    assert (answer.status.code, entry.status.code) == (20000, 20000)
    assert (entry.message_id, entry.transaction_id, entry.offset) == ("0102030405",) * 2 + (0,)
    (stored,) = broker.messages.in_topic(queue)
    assert (stored.body, stored.tags, stored.keys) == (b"body", "paid", ("k1", "k2"))
    expected = {
        "UNIQ_KEY": "0102030405",
        "PGROUP": queue,
        "a": "b",
        "RECONSUME_TIME": "0",
        "__BORNHOST": "10.0.0.1",
        "BORN_TIMESTAMP": "1234",
        "TRACE_CONTEXT": "ctx",
    }
    assert stored.properties.items() >= expected.items()
    assert "empty" not in stored.properties  # as with every client: nothing is written of it
    assert client.send(client.message(queue)).entries[0].offset == 1


@pytest.mark.case("G20")
@pytest.mark.parametrize(("size", "code"), [(0, 41302), (4 << 20, 20000), ((4 << 20) + 1, 41301)])
def test_a_body_has_one_byte_to_four_mebibytes(
    client: RawClient, topic: str, size: int, code: int
) -> None:
    assert code_of(client, client.message(topic, bytes(size))) == code


@pytest.mark.case("G21")
@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({f"k{number}": "v" for number in range(128)}, 20000),
        ({f"k{number}": "v" for number in range(129)}, 43101),
        ({"k": "v" * 16_383}, 20000),
        ({"k": "v" * 16_384}, 43101),
        ({"TAGS": "x"}, 40007),
        ({"k": "a\x01b"}, 40007),
        ({"a\x02b": "v"}, 40007),
    ],
)
def test_properties_are_limited(
    client: RawClient, topic: str, properties: dict[str, str], code: int
) -> None:
    assert code_of(client, client.message(topic, properties=properties)) == code


@pytest.mark.case("G22")
@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"tag": "a|b"}, 40004),
        ({"tag": " "}, 40004),
        ({"keys": [" "]}, 40005),
        ({"message_group": "g" * 63}, 20000),
        ({"message_group": "g" * 64}, 40006),
        ({"message_group": " "}, 40006),
        ({"message_id": " "}, 40009),
        ({"orphaned_transaction_recovery_duration": 3_600_001}, 40000),
        ({"priority": 3}, 40014),
        ({"lite_topic": "L"}, 40014),
        ({"message_type": MessageType.PRIORITY}, 40014),
    ],
)
def test_tag_keys_group_and_id_are_checked(
    client: RawClient, topic: str, said: dict[str, Any], code: int
) -> None:
    assert code_of(client, client.message(topic, **said)) == code


@pytest.mark.case("G23")
def test_a_message_must_be_of_the_kind_of_its_topic_whatever_it_says_it_is(
    broker: EmbeddedBroker, client: RawClient
) -> None:
    broker.topics.create("NormalOnly", message_type="NORMAL", queues=1)
    delayed = client.message("NormalOnly", delivery_timestamp=broker.clock.now_ms + 1000)
    assert code_of(client, delayed) == 40014
    lies = client.message("NormalOnly", message_type=MessageType.FIFO)
    assert code_of(client, lies) == 20000
    assert code_of(client, client.message("NormalOnly", message_group="g")) == 40014


@pytest.mark.case("G24")
@pytest.mark.parametrize(
    ("group", "queues"),
    [("A", (0, 0, 11)), ("B", (0, 6, 13)), ("order-1", (3, 3, 3)), ("group-7", (2, 7, 7))],
)
def test_a_group_has_its_queue(group: str, queues: tuple[int, ...]) -> None:
    assert tuple(queue_of_group(group, number) for number in (4, 8, 16)) == queues


@pytest.mark.case("G24")
def test_messages_of_a_group_go_to_one_queue_in_their_order(
    broker: EmbeddedBroker, client: RawClient, topic: str
) -> None:
    for number in range(8):
        client.send(client.message(topic, b"%d" % number, message_group="order-1"))
    stored = broker.messages.in_topic(topic)
    assert {one.queue_id for one in stored} == {3}
    assert [one.body for one in stored] == [b"%d" % number for number in range(8)]


@pytest.mark.case("G25")
def test_several_messages_of_one_call_are_stored_behind_each_other(
    broker: EmbeddedBroker, client: RawClient, topic: str, queue: str
) -> None:
    answer = client.send(*(client.message(topic, b"%d" % number) for number in range(3)))
    assert [one.offset for one in answer.entries] == [0, 1, 2]
    stored = broker.messages.in_topic(topic)
    assert len({one.queue_id for one in stored}) == 1
    assert [one.message_id for one in answer.entries] == [one.msg_id for one in stored]
    assert code_of(client, client.message(topic), client.message(queue)) == 40016
    assert code_of(client) == 40016


@pytest.mark.case("G26")
def test_a_delayed_message_comes_at_its_millisecond(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    at_ms = broker.clock.now_ms + 10_000
    answer = client.send(client.message(queue, delivery_timestamp=at_ms))
    assert answer.entries[0].recall_handle
    broker.clock.advance(9.999)
    assert broker.topics[queue].count() == 0
    broker.clock.advance(0.001)
    (message,) = client.receive_all(queue, group, 1)
    assert message.system_properties.delivery_timestamp.ToMilliseconds() == at_ms
    assert message.system_properties.message_type == MessageType.DELAY


@pytest.mark.case("G27")
def test_a_delay_is_a_day_at_most_and_the_past_is_now(
    broker: EmbeddedBroker, client: RawClient, queue: str
) -> None:
    now_ms = broker.clock.now_ms
    assert code_of(client, client.message(queue, delivery_timestamp=now_ms + DAY_MS)) == 20000
    assert (
        code_of(client, client.message(queue, delivery_timestamp=now_ms + DAY_MS + 1000)) == 40012
    )
    assert code_of(client, client.message(queue, delivery_timestamp=now_ms - 1000)) == 20000
    assert broker.topics[queue].count() == 1


@pytest.mark.case("G28")
def test_a_recalled_timer_never_comes(
    broker: EmbeddedBroker, client: RawClient, queue: str
) -> None:
    at_ms = broker.clock.now_ms + 60_000
    entry = client.send(client.message(queue, delivery_timestamp=at_ms)).entries[0]
    recalled = client.recall(queue, entry.recall_handle)
    assert (recalled.status.code, recalled.message_id) == (20000, entry.message_id)
    broker.clock.advance(120)
    assert broker.topics[queue].count() == 0
    assert client.recall(queue, entry.recall_handle).status.code == 50001


@pytest.mark.case("G29")
def test_what_cannot_be_recalled_is_refused(
    broker: EmbeddedBroker, client: RawClient, queue: str
) -> None:
    broker.topics.create("NeverDelayed", message_type="NORMAL")
    at_ms = broker.clock.now_ms + 60_000
    handle = client.send(client.message(queue, delivery_timestamp=at_ms)).entries[0].recall_handle
    assert client.recall("NeverDelayed", handle).status.code == 40014
    assert client.recall(queue, "garbage").status.code == 40000


@pytest.mark.case("G11")
def test_an_unknown_topic_is_not_found(client: RawClient) -> None:
    assert code_of(client, client.message("NoSuchTopic")) == 40402
    assert client.route("NoSuchTopic").status.code == 40402
    assert client.receive("NoSuchTopic", "G")[0].code == 40402


@pytest.mark.parametrize("squeeze", [gzip.compress, zlib.compress])
def test_a_compressed_body_must_inflate(
    client: RawClient, queue: str, group: str, squeeze: Callable[[bytes], bytes]
) -> None:
    body = squeeze(b"x" * 1000)
    sent = client.message(queue, body, body_encoding=Encoding.GZIP)
    assert code_of(client, sent) == 20000
    bad = client.message(queue, b"no gzip", body_encoding=Encoding.GZIP)
    assert code_of(client, bad) == 40016
    (message,) = client.receive_all(queue, group, 1)
    assert message.body == body
    assert message.system_properties.body_encoding == Encoding.GZIP
    digest = md5(body, usedforsecurity=False).hexdigest().upper()
    assert message.system_properties.body_digest.checksum == digest


def test_times_that_no_clock_has_are_refused(client: RawClient, topic: str) -> None:
    message = client.message(topic)
    message.system_properties.delivery_timestamp.seconds = -5
    assert code_of(client, message) == 40000

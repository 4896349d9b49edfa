from __future__ import annotations

import zlib

import pytest
from attrs import evolve

from rocketmq_py.client.queue_requests import RawPull, pull_answer
from rocketmq_py.consumer.core.receive import receive
from rocketmq_py.errors import RecordError
from rocketmq_py.protocol.frame import FRAME_SIZE_MAX
from rocketmq_py.protocol.inner_batch import BATCH_MAX, MESSAGE_COST
from rocketmq_py.protocol.message_codec import encode_batch
from rocketmq_py.protocol.properties import encode_properties
from rocketmq_py.protocol.sysflag import COMPRESSED, INNER_BATCH, NEED_UNWRAP
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import GROUP, pulled, record, same_hash

QUEUE = MessageQueue("T", "broker-a", 3)


def answer(*records: bytes, offset_delta: int = 0) -> RawPull:
    found = pull_answer(pulled(b"".join(records), next_offset=9, min_offset=1, max_offset=50))
    return evolve(found, offset_delta=offset_delta)


def test_records_become_messages_with_broker_queue_and_offsets() -> None:
    received = receive(
        answer(record(4, properties={"UNIQ_KEY": "U4"}), record(5)),
        QUEUE,
        asked_offset=4,
        group=GROUP,
    )
    first = received.messages[0]
    assert [message.queue_offset for message in received.messages] == [4, 5]
    assert (first.broker_name, first.queue_id, first.msg_id) == ("broker-a", 3, "U4")
    assert (first.properties["MIN_OFFSET"], first.properties["MAX_OFFSET"]) == ("1", "50")
    assert received.stopped_at is None


@pytest.mark.case("T69")
@pytest.mark.case("W58")
def test_a_tag_with_the_same_hash_is_filtered_by_its_text() -> None:
    assert same_hash("Aa", "BB")
    received = receive(
        answer(
            record(0, properties={"TAGS": "Aa"}),
            record(1, properties={"TAGS": "BB"}),
            record(2),
            record(3, properties={"TAGS": "C"}),
        ),
        QUEUE,
        asked_offset=0,
        tags={"BB", "C"},
        group=GROUP,
    )
    assert [message.queue_offset for message in received.messages] == [1, 3]


@pytest.mark.case("W85")
def test_a_retried_message_gets_its_topic_back_and_keeps_its_id() -> None:
    retry_queue = MessageQueue(f"%RETRY%{GROUP}", "broker-a", 0)
    received = receive(
        answer(
            record(
                0,
                topic=f"%RETRY%{GROUP}",
                properties={"RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "OLD", "UNIQ_KEY": "U"},
                reconsume_times=1,
            )
        ),
        retry_queue,
        asked_offset=0,
        group=GROUP,
    )
    (message,) = received.messages
    assert (message.topic, message.msg_id, message.reconsume_times) == ("T", "U", 1)
    assert message.properties["ORIGIN_MESSAGE_ID"] == "OLD"


def test_another_groups_retry_topic_is_left_as_it_is() -> None:
    other = record(0, topic="%RETRY%other", properties={"RETRY_TOPIC": "T"})
    received = receive(answer(other), QUEUE, asked_offset=0, group=GROUP)
    assert received.messages[0].topic == "%RETRY%other"


def test_a_compressed_body_stays_so_until_a_listener_is_called() -> None:
    body = b"\x00\xff text" * 1000
    received = receive(
        answer(record(0, body=zlib.compress(body), sys_flag=0x1)),
        QUEUE,
        asked_offset=0,
        group=GROUP,
    )
    assert received.messages[0].body == zlib.compress(body)
    assert received.messages[0].unpacked().body == body


def test_a_committed_transaction_message_knows_its_transaction() -> None:
    received = receive(
        answer(record(0, properties={"TRAN_MSG": "true", "UNIQ_KEY": "U"})),
        QUEUE,
        asked_offset=0,
        group=GROUP,
    )
    assert received.messages[0].transaction_id == "U"


def test_the_offset_delta_of_the_broker_is_added() -> None:
    received = receive(answer(record(4), offset_delta=100), QUEUE, asked_offset=104, group=GROUP)
    assert received.messages[0].queue_offset == 104


def test_decoding_stops_at_a_damaged_record_and_says_where_to_ask_again() -> None:
    damaged = bytearray(record(6))
    damaged[-3] ^= 0xFF
    damaged[88] ^= 0xFF
    received = receive(
        answer(record(5), bytes(damaged), record(7)), QUEUE, asked_offset=5, group=GROUP
    )
    assert [message.queue_offset for message in received.messages] == [5]
    assert received.stopped_at == 6
    assert isinstance(received.problem, RecordError)


def test_a_body_that_cannot_be_decompressed_does_not_stop_decoding() -> None:
    received = receive(
        answer(record(5, body=b"no zlib", sys_flag=0x1), record(6)),
        QUEUE,
        asked_offset=5,
        group=GROUP,
    )
    assert [message.queue_offset for message in received.messages] == [5, 6]
    assert received.stopped_at is None


def wrapped(offset: int, *tags: str, body: bytes | None = None) -> bytes:
    """A batch that a BatchCQ topic stores as one record: a message for each tag."""
    items = [(0, tag.encode(), encode_properties({"TAGS": tag})) for tag in tags]
    data = encode_batch(items) if body is None else body
    return record(offset, body=data, sys_flag=INNER_BATCH | NEED_UNWRAP)


@pytest.mark.parametrize(("asked", "offsets"), [(3, [3, 4, 5, 6]), (4, [4, 5, 6]), (6, [6])])
def test_a_batch_becomes_its_messages_from_the_offset_that_was_asked_for(
    asked: int, offsets: list[int]
) -> None:
    received = receive(
        answer(wrapped(3, "a", "b", "c"), record(6)), QUEUE, asked_offset=asked, group=GROUP
    )
    assert [message.queue_offset for message in received.messages] == offsets
    assert received.messages[-1].properties["MAX_OFFSET"] == "50"


def test_the_tags_of_a_batch_are_those_of_its_messages() -> None:
    received = receive(
        answer(wrapped(3, "a", "b", "a")), QUEUE, asked_offset=3, tags={"a"}, group=GROUP
    )
    assert [(one.queue_offset, one.body) for one in received.messages] == [(3, b"a"), (5, b"a")]


def test_a_batch_that_cannot_be_taken_apart_is_given_as_it_is_whatever_the_tags() -> None:
    received = receive(
        answer(wrapped(3, "a", "b"), wrapped(5, body=b"none"), record(6)),
        QUEUE,
        asked_offset=3,
        tags={"a"},
        group=GROUP,
    )
    assert [message.queue_offset for message in received.messages] == [3, 5]
    assert received.messages[1].body == b"none"
    assert received.stopped_at is None


def test_a_batch_that_cannot_be_taken_apart_comes_once_only() -> None:
    """After it was handled, the group goes on behind its first message."""
    received = receive(
        answer(wrapped(5, body=b"none"), record(7)), QUEUE, asked_offset=6, group=GROUP
    )
    assert [message.queue_offset for message in received.messages] == [7]


def tiny_messages(offset: int, count: int, sys_flag: int) -> bytes:
    """A batch of empty messages, which a few bytes hold when they are compressed."""
    body = encode_batch([(0, b"", b"")]) * count
    if sys_flag & COMPRESSED:
        body = zlib.compress(body)
    return record(offset, body=body, sys_flag=sys_flag | INNER_BATCH | NEED_UNWRAP)


@pytest.mark.parametrize("sys_flag", [0, COMPRESSED])
def test_an_answer_becomes_no_more_messages_than_fit_into_the_memory_of_one(sys_flag: int) -> None:
    """What follows is asked for again, and comes then: nothing is lost."""
    count = FRAME_SIZE_MAX // MESSAGE_COST // 2 + 1
    batches = [tiny_messages(number * count, count, sys_flag) for number in range(3)]
    received = receive(answer(*batches), QUEUE, asked_offset=0, group=GROUP)
    assert len(received.messages) == 2 * count
    assert (received.stopped_at, received.problem) == (2 * count, None)
    rest = receive(answer(batches[2]), QUEUE, asked_offset=2 * count, group=GROUP)
    assert [one.queue_offset for one in rest.messages] == list(range(2 * count, 3 * count))
    assert rest.stopped_at is None


def test_the_largest_batch_that_there_can_be_is_taken_apart() -> None:
    whole = receive(
        answer(tiny_messages(0, BATCH_MAX, COMPRESSED)), QUEUE, asked_offset=0, group=GROUP
    )
    assert len(whole.messages) == BATCH_MAX
    assert whole.stopped_at is None

"""Who gets a reply that a broker pushes."""

from __future__ import annotations

import zlib

import pytest

from rocketmq_py.client.replies import Replies
from rocketmq_py.errors import HeaderError
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.send import PushReplyMessageRequestHeader
from rocketmq_py.protocol.properties import encode_properties


def push(correlation_id: str = "c-1", body: bytes = b"yes", **fields: object) -> RemotingCommand:
    text = encode_properties({"CORRELATION_ID": correlation_id, "TTL": "3000"}).decode()
    header = PushReplyMessageRequestHeader(
        **{
            "producer_group": "repliers",
            "topic": "shop_REPLY_TOPIC",
            "default_topic": "TBW102",
            "default_topic_queue_nums": 4,
            "queue_id": 2,
            "sys_flag": 0,
            "born_timestamp": 1,
            "flag": 5,
            "properties": text,
            "reconsume_times": 3,
            "born_host": "127.0.0.1:40000",
            "store_host": "127.0.0.1:10911",
            "store_timestamp": 2,
        }
        | fields  # type: ignore[arg-type] # whatever a test wants to try
    )
    code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    return RemotingCommand(code, opaque=9, ext_fields=header.to_ext(), body=body)


@pytest.fixture
def got() -> list[MessageExt]:
    return []


@pytest.fixture
def replies(got: list[MessageExt]) -> Replies:
    made = Replies()
    made.expect("c-1", got.append)
    return made


def test_a_reply_goes_to_who_waits_for_it(replies: Replies, got: list[MessageExt]) -> None:
    answer = replies.serve(push())
    assert (answer.code, answer.opaque, len(replies)) == (0, 9, 0)
    (reply,) = got
    assert (reply.topic, reply.body, reply.queue_id, reply.flag) == (
        "shop_REPLY_TOPIC",
        b"yes",
        2,
        5,
    )
    assert (reply.born_timestamp, reply.store_timestamp, reply.reconsume_times) == (1, 2, 3)
    assert (reply.born_host, reply.store_host) == ("127.0.0.1:40000", "127.0.0.1:10911")
    assert reply.properties.pop("ARRIVE_TIME").isdecimal()
    assert reply.properties == {"CORRELATION_ID": "c-1", "TTL": "3000"}


def test_a_compressed_reply_is_not_decompressed_before_somebody_wants_it(
    replies: Replies, got: list[MessageExt]
) -> None:
    replies.serve(push(body=zlib.compress(b"long " * 100), sys_flag=0x301))
    assert got[0].body == zlib.compress(b"long " * 100)
    reply = got[0].unpacked()
    assert (reply.body, reply.sys_flag) == (b"long " * 100, 0x300)


def test_a_reply_comes_once(replies: Replies, got: list[MessageExt]) -> None:
    assert [replies.serve(push()).code for _ in range(2)] == [0, 0]
    assert len(got) == 1


def test_a_reply_that_nobody_waits_for_is_dropped_with_a_warning(
    replies: Replies, got: list[MessageExt], caplog: pytest.LogCaptureFixture
) -> None:
    replies.forget("c-1")
    assert replies.serve(push()).code == 0
    assert got == []
    assert "no request c-1 waits here" in caplog.text


def test_hosts_that_are_none_are_left_out(replies: Replies, got: list[MessageExt]) -> None:
    replies.serve(push(born_host="nowhere", store_host="/127.0.0.1:1"))
    assert (got[0].born_host, got[0].store_host) == ("", "127.0.0.1:1")


def test_a_push_without_its_fields_is_an_error_that_names_one(replies: Replies) -> None:
    with pytest.raises(HeaderError, match="producerGroup"):
        replies.serve(RemotingCommand(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT))

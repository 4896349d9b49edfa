"""The message with which a consumer answers a request."""

from __future__ import annotations

import pytest

from rocketmq_py import MessageExt, ReplyTopicMissingError, create_reply_message

ASKED = {
    "CLUSTER": "shop",
    "CORRELATION_ID": "c-1",
    "REPLY_TO_CLIENT": "asker",
    "TTL": "3000",
    "KEYS": "k",
    "UNIQ_KEY": "ID",
}


def test_a_reply_goes_to_the_clusters_topic_and_says_whose_request_it_was() -> None:
    reply = create_reply_message(MessageExt("T", b"?", properties=ASKED), b"yes")
    assert (reply.topic, reply.body) == ("shop_REPLY_TOPIC", b"yes")
    assert reply.properties == {
        "CORRELATION_ID": "c-1",
        "REPLY_TO_CLIENT": "asker",
        "TTL": "3000",
        "MSG_TYPE": "reply",
        "WAIT": "true",
    }


def test_what_the_request_does_not_say_the_reply_does_not_say() -> None:
    reply = create_reply_message(MessageExt("T", b"?", properties={"CLUSTER": "c"}), b"yes")
    assert reply.properties == {"MSG_TYPE": "reply", "WAIT": "true"}


def test_a_message_that_no_broker_stored_cannot_be_replied_to() -> None:
    with pytest.raises(ReplyTopicMissingError, match="no property CLUSTER") as caught:
        create_reply_message(MessageExt("T", b"?"), b"yes")
    assert caught.value.response_code == 10007

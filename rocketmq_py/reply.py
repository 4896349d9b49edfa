"""How a consumer answers a request: the message that goes back to who asked.

``MessageUtil.createReplyMessage`` of the original. Must not know how it is sent: any producer sends
it. Read on: ``producer/requesting.py`` for the other side.
"""

from typing import Final

from rocketmq_py.errors import ReplyTopicMissingError
from rocketmq_py.message import Message, MessageExt
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.names import REPLY_TOPIC_SUFFIX
from rocketmq_py.protocol.properties import REPLY, Prop

_KEPT: Final = (Prop.CORRELATION_ID, Prop.REPLY_TO_CLIENT, Prop.TTL)
"""What tells whose request it was."""


def create_reply_message(request: MessageExt, body: bytes) -> Message:
    """Make the reply to a request that arrived; send it with any started producer.

    ``send`` raises `SendFailedError` when who asked is gone, or waits no longer. Raises
    `ReplyTopicMissingError` for a message in which no broker has named its cluster.

    >>> asked = MessageExt("orders", b"?", properties={"CLUSTER": "c", "CORRELATION_ID": "1"})
    >>> create_reply_message(asked, b"yes").topic
    'c_REPLY_TOPIC'
    """
    cluster = request.properties.get(Prop.CLUSTER)
    if not cluster:
        raise ReplyTopicMissingError(
            f"no reply to message {request.msg_id} can be made: it has no property CLUSTER, which "
            "brokers write into the messages that they store",
            response_code=ResponseCode.CREATE_REPLY_MESSAGE_EXCEPTION,
            topic=request.topic,
        )
    reply = Message(cluster + REPLY_TOPIC_SUFFIX, body)
    reply.properties[Prop.MSG_TYPE] = REPLY
    for name in _KEPT:
        value = request.properties.get(name)
        if value is not None:
            reply.properties[name] = value
    return reply

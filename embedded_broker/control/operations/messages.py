"""Messages: what is stored, the life of one, and sending without a client.

Must not know: how messages are found. Read on: ``embedded_broker/api/views/messages.py``.
"""

from typing import Final

from embedded_broker.api.views import MessagePage, MessageTrace, SentMessage, StoredMessage
from embedded_broker.control.fields import Field, FieldType
from embedded_broker.control.operation import PAGE_MAX, Call, Operation, answer_bodies
from rocketmq_py.errors import ConfigError


def list_messages(call: Call) -> MessagePage:
    """List the visible messages of a topic, or those with a key."""
    fields = call.only("topic", "key", "skip", "limit")
    return call.broker.messages.page(**fields, bodies=answer_bodies())


def find_message(call: Call) -> StoredMessage:
    """Find a message by its id, also while it waits for its time."""
    return call.broker.messages.by_id(call["id"], topic=call["topic"], bodies=answer_bodies())


def trace_message(call: Call) -> MessageTrace:
    """Tell the life of a message: its state and its times, in general and for each group."""
    return call.broker.messages.trace(call["id"], topic=call["topic"])


def send_message(call: Call) -> SentMessage:
    """Send one message without any client, for tests of consumers only."""
    text, data = call["body"], call["body_base64"]
    if (text is None) == (data is None):
        raise ConfigError("body", text, "give one of body (a text) and body_base64")
    return call.broker.send(
        call["topic"],
        data if text is None else text.encode(),
        **call.only("tags", "keys", "queue", "properties", "delay", "delay_level", "deliver_at"),
    )


def redeliver_message(call: Call) -> SentMessage:
    """Deliver a message again with the same id, as happens after a lost answer."""
    return call.broker.redeliver(call["id"], group=call["group"])


_OF_TOPIC: Final = Field("topic", FieldType.TEXT, "Choose between messages with the same id.")
MESSAGES: Final = (
    Operation(
        "GET",
        "/messages",
        list_messages,
        (
            Field("topic", FieldType.TEXT, "Name of a topic.", required=True),
            Field("key", FieldType.TEXT, "Only messages with this key, or this unique id."),
            Field("skip", FieldType.INTEGER, "How many to leave out before.", default=0, low=0),
            Field("limit", FieldType.INTEGER, "Size of a page.", default=100, low=1, high=PAGE_MAX),
        ),
    ),
    Operation("GET", "/messages/{id}", find_message, (_OF_TOPIC,)),
    Operation("GET", "/messages/{id}/trace", trace_message, (_OF_TOPIC,)),
    Operation(
        "POST",
        "/messages",
        send_message,
        (
            Field("topic", FieldType.TEXT, "Name of a topic.", required=True),
            Field("body", FieldType.TEXT, "The body as a text."),
            Field("body_base64", FieldType.BYTES, "The body as bytes."),
            Field("tags", FieldType.TEXT, "Its tag."),
            Field("keys", FieldType.TEXT, "Its keys, a blank between two."),
            Field(
                "queue", FieldType.INTEGER, "Number of a queue; without it one is chosen.", low=0
            ),
            Field("properties", FieldType.TEXT_MAP, "Its properties."),
            Field("delay", FieldType.NUMBER, "Deliver it so many seconds later.", low=0),
            Field(
                "delay_level", FieldType.INTEGER, "Deliver it after the delay of a level.", low=0
            ),
            Field("deliver_at", FieldType.INSTANT, "Deliver it at this time."),
        ),
    ),
    Operation(
        "POST",
        "/messages/{id}/redeliver",
        redeliver_message,
        (Field("group", FieldType.TEXT, "Only to this consumer group."),),
    ),
)

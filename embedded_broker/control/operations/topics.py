"""Topics: list, look up and create them; wait until messages became visible.

Read on: ``embedded_broker/api/views/topics.py``.
"""

from typing import Final

from attrs import frozen

from embedded_broker.api.broker import EmbeddedBroker
from embedded_broker.control.fields import Field, FieldType
from embedded_broker.control.operation import TIMEOUT, Call, Operation
from embedded_broker.lifecycle.arguments import MESSAGE_TYPES, QUEUES_MAX


@frozen(kw_only=True)
class TopicTold:
    """A topic: its queues, and how many messages became visible since it was created."""

    name: str
    queues: int
    count: int
    max_offsets: tuple[int, ...]


def list_topics(call: Call) -> list[TopicTold]:
    """List the topics that somebody created."""
    return [_told(call.broker, name) for name in call.broker.topics.names()]


def find_topic(call: Call) -> TopicTold:
    """Tell of one topic, also of one that every broker has."""
    return _told(call.broker, call["topic"])


def create_topic(call: Call) -> TopicTold:
    """Create a topic, or change an existing one. Clients find it when the answer comes."""
    call.broker.topics.create(call["name"], **call.only("queues", "message_type"))
    return _told(call.broker, call["name"])


def wait_delivered(call: Call) -> TopicTold:
    """Wait until so many messages became visible in a topic since it was created."""
    call.broker.wait_delivered(call["topic"], call["count"], timeout=call["timeout"])
    return _told(call.broker, call["topic"])


def _told(broker: EmbeddedBroker, name: str) -> TopicTold:
    view = broker.topics[name]
    queues = view.queues
    return TopicTold(
        name=name,
        queues=queues,
        count=view.count(),
        max_offsets=tuple(view.max_offset(queue) for queue in range(queues)),
    )


TOPICS: Final = (
    Operation("GET", "/topics", list_topics),
    Operation("GET", "/topics/{topic}", find_topic),
    Operation(
        "POST",
        "/topics",
        create_topic,
        (
            Field("name", FieldType.TEXT, "Name of the topic.", required=True),
            Field(
                "queues",
                FieldType.INTEGER,
                "How many queues it has.",
                default=4,
                low=1,
                high=QUEUES_MAX,
            ),
            Field("message_type", FieldType.TEXT, "What may be sent to it.", choices=MESSAGE_TYPES),
        ),
    ),
    Operation(
        "POST",
        "/topics/{topic}/wait",
        wait_delivered,
        (Field("count", FieldType.INTEGER, "How many messages.", default=1, low=0), TIMEOUT),
    ),
)

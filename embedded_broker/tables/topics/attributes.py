"""Topic attributes of request 17, and how they change what is stored.

The text is `+key=value,-key`: plus sets, minus removes. Keys are stored without the sign. The
rules are those of RocketMQ's AttributeParser, AttributeUtil and TopicAttributes. This module
knows no requests; read on in `table.py`.
"""

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from rocketmq_py.protocol.bodies.topics import TopicConfig


class TopicAttributeError(ValueError):
    """An attribute text that cannot be applied; the message names the key, value and limit."""


@frozen
class TopicAttribute:
    """One attribute a topic may carry: its values, and whether it may change later.

    `missing` are values that a real broker knows and this one has no behaviour for.
    """

    name: str
    values: tuple[str, ...]
    changeable: bool
    missing: frozenset[str] = frozenset()


QUEUE_TYPE: Final = "queue.type"
BATCH_QUEUES: Final = "BatchCQ"
"""The type of queues whose entries stand for whole batches."""

TOPIC_ATTRIBUTES: Final[Mapping[str, TopicAttribute]] = {
    attribute.name: attribute
    for attribute in (
        TopicAttribute(
            "message.type",
            ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"),
            changeable=True,
        ),
        TopicAttribute(QUEUE_TYPE, ("SimpleCQ", BATCH_QUEUES), changeable=False),
        TopicAttribute(
            "cleanup.policy", ("DELETE",), changeable=False, missing=frozenset({"COMPACTION"})
        ),
    )
}


def takes_batches(topic: TopicConfig | None) -> bool:
    """Whether this is a BatchCQ topic: a batch that comes there is stored as one record."""
    return topic is not None and (topic.attributes or {}).get(QUEUE_TYPE) == BATCH_QUEUES


def parse_attributes(text: str | None) -> dict[str, str]:
    """Split `+a=1,-b` into `{"+a": "1", "-b": ""}`; an empty or missing text gives no changes.

    Raises TopicAttributeError for a missing sign and for a key that appears twice.
    """
    changes: dict[str, str] = {}
    seen: set[str] = set()
    for item in text.split(",") if text else ():
        key, equals, value = item.partition("=")
        wanted = "+" if equals else "-"
        if not key.startswith(wanted):
            raise TopicAttributeError(
                f"topic attribute {item!r} is not of the form +key=value or -key"
            )
        if len(key) == 1 or "+" in key[1:] or "-" in key[1:]:
            raise TopicAttributeError(f"topic attribute {item!r} has no usable key")
        if key[1:] in seen:
            raise TopicAttributeError(f"topic attribute {key[1:]} is given twice")
        seen.add(key[1:])
        changes[key] = value
    return changes


def apply_attributes(
    current: Mapping[str, str] | None, changes: Mapping[str, str]
) -> dict[str, str]:
    """Return the attributes after `changes`; `current` is None for a topic that is created now.

    Raises TopicAttributeError naming the key for an unknown key or value, for a change of an
    attribute that is fixed at creation, and for removing what is not there.
    """
    result = dict(current or {})
    for signed, value in changes.items():
        key = signed[1:]
        attribute = TOPIC_ATTRIBUTES.get(key)
        if attribute is None:
            known = ", ".join(TOPIC_ATTRIBUTES)
            raise TopicAttributeError(f"topic attribute {key} is not known; known are {known}")
        if current is not None and not attribute.changeable:
            raise TopicAttributeError(f"topic attribute {key} is fixed when the topic is created")
        if signed[0] == "+":
            if value not in attribute.values:
                reason = "is not supported here" if value in attribute.missing else "is not known"
                allowed = ", ".join(attribute.values)
                raise TopicAttributeError(
                    f"topic attribute {key}={value} {reason}; allowed: {allowed}"
                )
            result[key] = value
        elif current is None or key not in current:
            raise TopicAttributeError(f"topic attribute {key} is not set, so it cannot be removed")
        else:
            del result[key]
    return result

"""Tag expressions: ``TagA || TagB``, answered by the queue's entry alone.

Must not know: topics, groups. An entry keeps the hash of the tag, as in RocketMQ; so a message
whose tag has the same hash passes too, and the client drops it.
"""

from collections.abc import Mapping
from typing import ClassVar

from attrs import frozen

from embedded_broker.store.consume_queue import Entry
from rocketmq_py.protocol.bodies.heartbeat import ALL_TAGS, SubscriptionData


@frozen
class TagFilter:
    """Messages with one of some tags."""

    codes: frozenset[int]
    reads_properties: ClassVar[bool] = False
    steps: ClassVar[int] = 0

    def accepts(self, entry: Entry, properties: Mapping[str, str] | None) -> bool:  # noqa: ARG002
        """Say whether the entry has one of the tags."""
        return entry[2] in self.codes


NO_TAG = TagFilter(frozenset())
"""No message passes it."""


def tag_filter(expression: str, codes: frozenset[int]) -> TagFilter | None:
    """Make the filter of a tag expression; None when every message passes.

    ``codes`` are the tags codes that the client computed; those it left out are computed here.
    Raises ``BodyError`` for an expression that names no tag.
    """
    if expression in {"", ALL_TAGS}:
        return None
    return TagFilter(codes or SubscriptionData.parse("", expression, 0).code_set)

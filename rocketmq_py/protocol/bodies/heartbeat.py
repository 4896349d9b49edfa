"""What a client tells a broker about itself: the body of 34.

Sources: `HeartbeatData`, `ConsumerData`, `SubscriptionData`, `FilterAPI`. Who keeps it is
`embedded_broker.tables.consumers`.
"""

from typing import Final, Self

from attrs import define, field

from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.bodies.document import Document, ordinals, wire
from rocketmq_py.protocol.tag_hash import java_hash

CONSUME_ACTIVELY: Final = "CONSUME_ACTIVELY"
CONSUME_PASSIVELY: Final = "CONSUME_PASSIVELY"
CONSUME_POP: Final = "CONSUME_POP"
CLUSTERING: Final = "CLUSTERING"
BROADCASTING: Final = "BROADCASTING"
FROM_LAST_OFFSET: Final = "CONSUME_FROM_LAST_OFFSET"
FROM_FIRST_OFFSET: Final = "CONSUME_FROM_FIRST_OFFSET"
FROM_TIMESTAMP: Final = "CONSUME_FROM_TIMESTAMP"
CONSUME_TYPES: Final = (CONSUME_ACTIVELY, CONSUME_PASSIVELY, CONSUME_POP)
MESSAGE_MODELS: Final = (BROADCASTING, CLUSTERING)
STARTS: Final = (
    FROM_LAST_OFFSET,
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    FROM_FIRST_OFFSET,
    FROM_TIMESTAMP,
)
"""The order of each enumeration, by which C++ clients number it; RocketMQ keeps the three old names
of `ConsumeFromWhere` for that alone."""

TAG: Final = "TAG"
SQL92: Final = "SQL92"
ALL_TAGS: Final = "*"


@define
class SubscriptionData(Document):
    """What a group wants of a topic; a larger `sub_version` (ms) replaces a smaller one."""

    topic: str = ""
    sub_string: str = ""
    tags_set: frozenset[str] = frozenset()
    code_set: frozenset[int] = frozenset()
    sub_version: int = 0
    expression_type: str = TAG
    class_filter_mode: bool = False

    @classmethod
    def parse(
        cls, topic: str, expression: str | None, sub_version: int, expression_type: str = TAG
    ) -> Self:
        """Build a subscription from an expression (`FilterAPI.build`).

        For tags: None, an empty text and ``*`` mean all, else words between ``||``. Raises
        `BodyError` when a tag expression holds separators only, or an SQL expression nothing.

        >>> sorted(SubscriptionData.parse("T", "TagA || TagB", 1).tags_set)
        ['TagA', 'TagB']
        """
        if expression_type != TAG:
            if not expression:
                raise BodyError("SubscriptionData", f"a {expression_type} expression is required")
            return cls(topic, expression, sub_version=sub_version, expression_type=expression_type)
        if not expression or expression == ALL_TAGS:
            return cls(topic, ALL_TAGS, sub_version=sub_version)
        if not expression.replace("||", ""):
            raise BodyError("SubscriptionData", f"tag expression {expression!r} names no tag")
        tags = frozenset(tag for word in expression.split("||") if (tag := word.strip()))
        codes = frozenset(java_hash(tag) for tag in tags)
        return cls(topic, expression, tags, codes, sub_version)


@define
class ProducerData(Document):
    """One producer group of the client."""

    group_name: str = ""


@define
class ConsumerData(Document):
    """One consumer group of the client."""

    group_name: str = ""
    consume_type: str = field(default=CONSUME_PASSIVELY, metadata=ordinals(*CONSUME_TYPES))
    message_model: str = field(default=CLUSTERING, metadata=ordinals(*MESSAGE_MODELS))
    consume_from_where: str = field(default=FROM_LAST_OFFSET, metadata=ordinals(*STARTS))
    subscription_data_set: list[SubscriptionData] = field(factory=list)
    unit_mode: bool = False


@define
class HeartbeatData(Document):
    """Everything one client instance runs.

    The last two belong to the short heartbeats of 5.x (`useHeartbeatV2`): with `without_sub` the
    subscriptions are not listed and those known to the broker still hold.
    """

    client_id: str = field(default="", metadata=wire("clientID"))
    producer_data_set: list[ProducerData] = field(factory=list)
    consumer_data_set: list[ConsumerData] = field(factory=list)
    heartbeat_fingerprint: int | None = None
    without_sub: bool | None = None

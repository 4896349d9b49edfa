"""Which topic and group names have a meaning of their own, and which names are legal.

Facts of the original's `TopicValidator` and `MixAll`. Lengths are arguments because they differ
between versions; the profiles of the broker and the settings of the client hold them. This module
must not know whether a topic exists.
"""

from typing import Final

AUTO_CREATE_TOPIC: Final = "TBW102"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
SLICE_TIMER_TOPIC: Final = "rmq_sys_slice_timer"
"""Where the embedded broker's sliced timer engine keeps what waits; a real broker has none."""
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
TRACE_DATA_PREFIX: Final = "rmq_sys_TRACE_DATA_"
"""How the trace topics of a vendor's cloud begin; the region follows."""
BENCHMARK_TOPIC: Final = "BenchmarkTest"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC: Final = "CHECKPOINT_TOPIC"
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
REVIVE_TOPIC_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
REPLY_TOPIC_SUFFIX: Final = "_REPLY_TOPIC"

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
LMQ_PREFIX: Final = "%LMQ%"

DEFAULT_PRODUCER_GROUP: Final = "DEFAULT_PRODUCER"
DEFAULT_CONSUMER_GROUP: Final = "DEFAULT_CONSUMER"
ESCAPE_PRODUCER_PREFIX: Final = "InnerProducerGroup_"
"""How the group begins in whose name a broker sends to another one (`EscapeBridge`)."""
TRACE_GROUP_PREFIX: Final = "_INNER_TRACE_PRODUCER"
INNER_PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"
TOOLS_CONSUMER_GROUP: Final = "TOOLS_CONSUMER"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
TRANS_GROUP: Final = "CID_RMQ_SYS_TRANS"
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
"""Its offset is that of the last entry of a revive queue which is done, not of the next one."""

READY_MADE_GROUPS: Final = (
    TOOLS_CONSUMER_GROUP,
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    TRANS_GROUP,
)
"""Groups that every broker knows from its first start (`SubscriptionGroupManager`)."""

DEFAULT_REGION: Final = "DefaultRegion"

SYSTEM_TOPICS: Final = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        TRACE_TOPIC,
        OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        CHECKPOINT_TOPIC,
    }
)
"""Topics that nobody may create or delete; names with `SYSTEM_TOPIC_PREFIX` belong to them too."""

NOT_SENDABLE_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
"""Topics that take no message from a client (answer 16)."""

HOLDING_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        TIMER_TOPIC,
        SLICE_TIMER_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
    }
)
"""Topics in which a broker keeps messages of all other topics until they are delivered."""

TOPIC_LENGTH_MAX: Final = 127
RETRY_TOPIC_LENGTH_MAX: Final = 255
GROUP_LENGTH_MAX: Final = 120
"""Of 5.x; 4.9 allows `GROUP_LENGTH_MAX_V4`."""
GROUP_LENGTH_MAX_V4: Final = 255

_ALLOWED: Final = frozenset("%|-_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_ALLOWED_TEXT: Final = "^[%|a-zA-Z0-9_-]+$"


def retry_topic(group: str) -> str:
    """Name of the topic that holds what the group failed to consume."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Name of the topic that holds what the group gave up on."""
    return DLQ_PREFIX + group


def is_retry_topic(topic: str) -> bool:
    """Say whether the topic is some group's retry topic."""
    return topic.startswith(RETRY_PREFIX)


def is_dlq_topic(topic: str) -> bool:
    """Say whether the topic is some group's dead letter topic."""
    return topic.startswith(DLQ_PREFIX)


def is_group_topic(topic: str) -> bool:
    """Say whether a broker makes the topic by itself, for the retries or dead letters of a group.

    Retry topics of POP, which are of a group and a topic, are among them.
    """
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def is_system_topic(topic: str) -> bool:
    """Say whether the topic belongs to RocketMQ itself (`TopicValidator.isSystemTopic`)."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_broker_topic(topic: str) -> bool:
    """Say whether the topic is a broker's own: what waits lies there, or what it notes for itself.

    Names that begin with `SYSTEM_TOPIC_PREFIX` are, but for trace topics, which clients fill.

    >>> is_broker_topic("rmq_sys_REVIVE_LOG_c"), is_broker_topic("rmq_sys_TRACE_DATA_eu")
    (True, False)
    """
    return topic in HOLDING_TOPICS or (
        topic.startswith(SYSTEM_TOPIC_PREFIX) and not topic.startswith(TRACE_DATA_PREFIX)
    )


def is_system_group(group: str) -> bool:
    """Say whether the group belongs to RocketMQ itself (`MixAll.isSysConsumerGroup`)."""
    return group.startswith(SYSTEM_GROUP_PREFIX)


def is_own_name(name: str) -> bool:
    """Say whether a topic or group belongs to RocketMQ or its clients: no namespace has it.

    A topic that ends as those in which brokers keep replies (`REPLY_TOPIC_SUFFIX`) counts as one.
    """
    return (
        is_system_topic(name)
        or is_system_group(name)
        or name in READY_MADE_GROUPS
        or name == INNER_PRODUCER_GROUP
        or name.startswith(TRACE_GROUP_PREFIX)
        or name.endswith(REPLY_TOPIC_SUFFIX)
    )


def with_namespace(namespace: str, name: str) -> str:
    """Give the name on the wire of a topic or group of a namespace (``NamespaceUtil``).

    The namespace stands behind the prefix of retry and dead letter topics. Names of RocketMQ
    itself, and names that carry the namespace already, stay as they are.

    >>> with_namespace("shop", "orders"), with_namespace("shop", "%RETRY%group")
    ('shop%orders', '%RETRY%shop%group')
    >>> with_namespace("shop", "shop%orders"), with_namespace("shop", "TOOLS_CONSUMER")
    ('shop%orders', 'TOOLS_CONSUMER')
    """
    if not namespace or not name or is_own_name(name):
        return name
    prefix, rest = _cut_prefix(name)
    if rest.startswith(f"{namespace}%"):
        return name
    return f"{prefix}{namespace}%{rest}"


def without_namespace(namespace: str, name: str) -> str:
    """Give the bare name of a topic or group, undoing `with_namespace`.

    >>> without_namespace("shop", "%DLQ%shop%group"), without_namespace("shop", "other%orders")
    ('%DLQ%group', 'other%orders')
    """
    prefix, rest = _cut_prefix(name)
    return prefix + rest.removeprefix(f"{namespace}%") if namespace else name


def _cut_prefix(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name.removeprefix(prefix)
    return "", name


def topic_problem(
    topic: str | None,
    *,
    length_max: int = TOPIC_LENGTH_MAX,
    retry_length_max: int = RETRY_TOPIC_LENGTH_MAX,
) -> str | None:
    """Tell what is wrong with a topic name, or None when nothing is.

    Lengths count UTF-16 units in the original; every allowed character is one. The sentences are
    those of `TopicValidator.validateTopic` in 5.x; tools match on their beginning.

    >>> topic_problem("shop-orders") is None
    True
    >>> topic_problem("a b")
    'The specified topic: a b, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$'
    """
    if isinstance(topic, str) and is_group_topic(topic):
        length_max = retry_length_max
    return _problem("topic", topic, length_max)


def group_problem(group: str | None, *, length_max: int = GROUP_LENGTH_MAX) -> str | None:
    """Tell what is wrong with a group name, or None when nothing is.

    >>> group_problem("")
    'The specified group is blank.'
    """
    return _problem("group", group, length_max)


def _problem(kind: str, name: object, length_max: int) -> str | None:
    if name is not None and not isinstance(name, str):
        return f"The specified {kind} is no str: {type(name).__name__} {name!r}."
    if not name or name.isspace():
        return f"The specified {kind} is blank."
    shown = name if len(name) <= 2 * RETRY_TOPIC_LENGTH_MAX else f"{name[:length_max]}..."
    if not _ALLOWED.issuperset(name):
        return (
            f"The specified {kind}: {shown}, contains illegal characters, "
            f"allowing only {_ALLOWED_TEXT}"
        )
    if len(name) > length_max:
        return f"The specified {kind}: {shown}, is longer than {kind} max length: {length_max}"
    return None

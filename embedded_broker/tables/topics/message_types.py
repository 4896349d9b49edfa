"""Message types: which one a topic takes, and which one a message has.

The proxy of RocketMQ checks it (DefaultTopicMessageTypeValidator), a broker does not; here the
option enforceTopicMessageType or the proxy's limits switch it on. Pure: must not know requests.
"""

from collections.abc import Mapping

from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.names import is_group_topic
from rocketmq_py.protocol.properties import Prop

ATTRIBUTE = "message.type"
NORMAL, FIFO, DELAY, TRANSACTION = "NORMAL", "FIFO", "DELAY", "TRANSACTION"
MIXED, UNSPECIFIED = "MIXED", "UNSPECIFIED"

_DELAY_NAMES = frozenset(
    {Prop.DELAY, Prop.TIMER_DELIVER_MS, Prop.TIMER_DELAY_SEC, Prop.TIMER_DELAY_MS}
)


def message_type(properties: Mapping[str, str], *, start_deliver: bool) -> str:
    """Tell the type of a message from its properties (TopicMessageType.parseFromMessageProperty).

    A property of a delay counts whatever its value; ``__STARTDELIVERTIME`` only if
    ``start_deliver``.
    """
    if properties.get(Prop.TRAN_MSG, "").lower() == "true":
        return TRANSACTION
    if not _DELAY_NAMES.isdisjoint(properties):
        return DELAY
    if start_deliver and Prop.START_DELIVER_TIME in properties:
        return DELAY
    return FIFO if Prop.SHARDING_KEY in properties else NORMAL


def type_problem(
    topic: TopicConfig, properties: Mapping[str, str], *, start_deliver: bool
) -> str | None:
    """Tell why a topic does not take a message, or None.

    A topic without the attribute is NORMAL; MIXED takes everything, UNSPECIFIED nothing. Retry
    and dead-letter topics and messages with a TRANSFER_FLAG are not checked.
    """
    name = topic.topic_name
    if is_group_topic(name) or Prop.TRANSFER_FLAG in properties:
        return None
    wanted = (topic.attributes or {}).get(ATTRIBUTE, NORMAL)
    found = message_type(properties, start_deliver=start_deliver)
    if wanted in {MIXED, found}:
        return None
    return (
        f"the topic[{name}] takes messages of type {wanted} ({ATTRIBUTE}), this one is of type "
        f"{found}"
    )

"""What is refused before anything is sent.

``Validators`` of the original, and the checks a broker would only make later, with the same codes.
Must not know routes or connections. The limits of the broker are its own business.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

from rocketmq_py.client.delay_policy import judge
from rocketmq_py.clock import wall_ms
from rocketmq_py.errors import (
    BodyError,
    ConfigError,
    DelayValueError,
    MQClientException,
    ReservedPropertyError,
)
from rocketmq_py.message import Message
from rocketmq_py.producer.config import ProducerConfig
from rocketmq_py.protocol import delay
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.names import (
    DEFAULT_PRODUCER_GROUP,
    NOT_SENDABLE_TOPICS,
    group_problem,
    is_dlq_topic,
    is_retry_topic,
    topic_problem,
)
from rocketmq_py.protocol.properties import PROPERTIES_SIZE_MAX, Prop, encode_user_properties

GOOD_TOPICS_MAX = 4_096
"""Topic names that are remembered as checked; looking at each letter costs more than a send may."""

_good_topics: set[str] = set()
_MILLISECOND = timedelta(milliseconds=1)


def check_group(group: str) -> None:
    """Raise `MQClientException` for a group name that a producer cannot have."""
    problem = group_problem(group)
    if problem is None and group == DEFAULT_PRODUCER_GROUP:
        problem = f"producer_group must not be {DEFAULT_PRODUCER_GROUP}: choose a name of your own"
    if problem is not None:
        raise MQClientException(problem)


def check_topic(topic: str) -> None:
    """Raise `MQClientException` for a topic that no message can be sent to."""
    if topic in _good_topics:
        return
    problem = topic_problem(topic)
    if problem is None and topic in NOT_SENDABLE_TOPICS:
        problem = f"sending messages to topic {topic} is forbidden: it is RocketMQ's own"
    if problem is not None:
        raise MQClientException(problem, topic=topic)
    if len(_good_topics) >= GOOD_TOPICS_MAX:
        _good_topics.clear()
    _good_topics.add(topic)


def check_recall_topic(topic: str) -> None:
    """Raise `MQClientException` for a topic whose messages cannot be recalled."""
    check_topic(topic)
    if is_retry_topic(topic) or is_dlq_topic(topic):
        raise MQClientException(
            f"topic {topic} is not supported: only messages of ordinary topics can be recalled",
            topic=topic,
        )


def checked_timeout(timeout: object) -> int:
    """Return a timeout, a timedelta or a number, in milliseconds; TypeError for what is neither.

    `ConfigError` for less than one, and for a fraction: whoever gives one has seconds in mind.
    """
    if type(timeout) is int and timeout > 0:
        return timeout
    if isinstance(timeout, timedelta):
        timeout = timeout / _MILLISECOND
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(
            "timeout is a number of milliseconds or a timedelta, not "
            f"{type(timeout).__name__} {timeout!r}"
        )
    if not timeout >= 1 or timeout // 1 != timeout:
        limit = "milliseconds, a whole number from 1: half a second is 500"
        raise ConfigError("timeout", timeout, limit)
    return int(timeout)


def check_message(message: Message, config: ProducerConfig) -> None:
    """Raise `MQClientException`, 13 for the body, for what cannot be sent; see `check_delay`."""
    if not isinstance(message, Message):
        raise _no_message(message)
    check_topic(message.topic)
    check_body(message.topic, message.body, config.max_message_size)
    properties = message.properties
    if Prop.INNER_MULTI_DISPATCH in properties and "/" in properties[Prop.INNER_MULTI_DISPATCH]:
        problem = f"INNER_MULTI_DISPATCH {properties[Prop.INNER_MULTI_DISPATCH]!r} holds a '/'"
        raise _illegal(problem, message.topic)


def check_delay(message: Message, config: ProducerConfig, known_as: Callable[[], str]) -> None:
    """Judge a message that `mentions_delay`, by ``delay_policy`` and the limits of the settings.

    ``known_as`` gives what a warning names the message by. Raises `DelayValueError`,
    `DelayConflictError`, `ReservedPropertyError`.
    """
    properties = message.properties
    if config.strict_reserved:
        for name in message.legacy_delays:
            if name in delay.TIMER_REQUEST_PROPERTIES:
                raise ReservedPropertyError(name)
    judge(config.delay_policy, message.topic, properties, known_as)
    if config.max_delay is not None:
        _check_length(properties, config.max_delay)


def _check_length(properties: Mapping[str, str], max_delay: timedelta) -> None:
    try:
        asked = delay.effective_delay(properties)
    except DelayValueError:
        return  # the broker says what it cannot read
    now_ms = wall_ms()
    if asked is not None and asked.due_ms(now_ms) - now_ms > max_delay // _MILLISECOND:
        told = f"longer than this client's max_delay, {max_delay}"
        raise DelayValueError(asked.kind.value, asked.value, told)


def _no_message(thing: object) -> MQClientException:
    several = isinstance(thing, Iterable) and not isinstance(thing, (str, bytes))
    hint = "; send_batch takes several messages" if several else ""
    return _illegal(f"a Message is needed, not {type(thing).__name__}{hint}")


def _illegal(problem: str, topic: str | None = None) -> MQClientException:
    return MQClientException(problem, response_code=ResponseCode.MESSAGE_ILLEGAL, topic=topic)


def check_body(topic: str, body: bytes, size_max: int) -> None:
    """Raise `MQClientException` 13 for an empty or too long body."""
    if not body:
        raise _illegal("the message body is empty: a message must hold at least one byte", topic)
    if len(body) > size_max:
        raise _illegal(
            f"the message body of {len(body)} bytes is over max_message_size ({size_max}): send "
            "less, or raise the setting here and maxMessageSize at the broker",
            topic,
        )


def encoded_properties(topic: str, properties: Mapping[str, str]) -> str:
    """Write the properties for a send header; `MQClientException` 13 when they cannot travel."""
    try:
        data = encode_user_properties(properties)
    except BodyError as error:
        raise _illegal(str(error), topic) from error
    if len(data) > PROPERTIES_SIZE_MAX:
        raise _illegal(
            f"the properties take {len(data)} bytes, the limit is {PROPERTIES_SIZE_MAX}: put "
            "large values into the body",
            topic,
        )
    return data.decode()

"""How a message that was not handled comes again, and where none does.

`SendBack` asks the broker that stores the message for a delayed second delivery, and when that
call fails publishes a copy to the group's retry topic. It must not know why a message failed.
Facts: `DefaultMQPushConsumerImpl.sendMessageBack`, ``sendMessageBackAsNormalMessage``.
"""

from bisect import bisect_left
from typing import Protocol

from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.core.outcome import AS_ATTEMPT, Later, Outcome
from rocketmq_py.errors import RemotingException, RocketMQError, UnsupportedOperationError
from rocketmq_py.logs import get_logger
from rocketmq_py.message import Message, MessageExt
from rocketmq_py.protocol.compression import compress
from rocketmq_py.protocol.delay import DEFAULT_LEVELS_MS
from rocketmq_py.protocol.names import retry_topic
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.sysflag import COMPRESSED, COMPRESSION_MASK, WRAPPED

logger = get_logger(__name__)

FIRST_RETRY_LEVEL = 3
"""Delay level of the first retry, 10 s; each further one is a level higher."""
DEAD_LEVEL = -1
"""Instead of a delay level: to the dead letters."""
COMPRESS_OVER = 4096
"""Bodies of this size were compressed by their producer; plain they might exceed the limit."""

_LEFT_OUT = (
    # What this client wrote for the listener,
    Prop.MIN_OFFSET,
    Prop.MAX_OFFSET,
    Prop.CONSUME_START_TIME,
    # what travels in the header instead,
    Prop.RECONSUME_TIME,
    Prop.MAX_RECONSUME_TIMES,
    # and the mark of a half message.
    Prop.TRAN_MSG,
)


class RetrySettings(Protocol):
    """How often messages come again; see `PushConsumerConfig`."""

    @property
    def reconsume_times_max(self) -> int:
        """Attempts after the first one."""


class SendBack:
    """Second deliveries for one group."""

    def __init__(self, group: str, calls: ConsumerCalls, settings: RetrySettings) -> None:
        self._group = group
        self._calls = calls
        self._settings = settings

    def arrange(self, message: MessageExt, outcome: Outcome) -> bool:
        """Arrange what an outcome says; False when no broker took the message back."""
        return self.send(message, outcome.level if isinstance(outcome, Later) else DEAD_LEVEL)

    def plan(self, message: MessageExt, delay_ms: int | None) -> tuple[Outcome, int]:
        """Choose the delay level for a delay, the exact one or the next longer one, and its ms.

        None is the delay of the attempt. What is longer than the longest level gets that one.
        """
        if delay_ms is None:
            level = min(FIRST_RETRY_LEVEL + message.reconsume_times, len(DEFAULT_LEVELS_MS))
            return AS_ATTEMPT, DEFAULT_LEVELS_MS[level - 1]
        level = min(bisect_left(DEFAULT_LEVELS_MS, delay_ms) + 1, len(DEFAULT_LEVELS_MS))
        return Later(level), DEFAULT_LEVELS_MS[level - 1]

    def send(self, message: MessageExt, delay_level: int) -> bool:
        """Arrange another delivery; False, logged, when neither way worked.

        `delay_level` as in `ConsumeConcurrentlyContext`; a copy that is published instead takes
        the level of its attempt. Blocks until brokers have answered.
        """
        try:
            self._calls.send_back(message, delay_level, self._settings.reconsume_times_max)
        except RocketMQError as error:
            self._tell(message, "is not sent back, it is published again", error)
        else:
            return True
        try:
            self._publish(message)
        except RocketMQError as error:
            self._tell(message, "stays here for another try", error)
            return False
        return True

    def _tell(self, message: MessageExt, outcome: str, error: RocketMQError) -> None:
        if isinstance(error, RemotingException):  # as for every other message, while it is away
            what = f"group {self._group}: message {message.msg_id} {outcome}"
            self._calls.unreachable.failed(message.broker_name, what, error)
            return
        logger.warning("group %s: message %s %s: %s", self._group, message.msg_id, outcome, error)

    def _publish(self, message: MessageExt) -> None:
        copy = Message(retry_topic(self._group), message.body, flag=message.flag)
        sys_flag = message.sys_flag & (COMPRESSED | COMPRESSION_MASK | WRAPPED)
        if not sys_flag & COMPRESSED:
            sys_flag &= WRAPPED  # a plain body may have kept the type
        if not sys_flag and len(copy.body) >= COMPRESS_OVER:
            copy.body = compress(copy.body)
            sys_flag = COMPRESSED
        properties = copy.properties
        properties.update(message.properties)
        for name in _LEFT_OUT:
            properties.pop(name, None)
        properties.setdefault(Prop.ORIGIN_MESSAGE_ID, message.msg_id)
        properties[Prop.RETRY_TOPIC] = message.topic
        properties[Prop.DELAY] = str(FIRST_RETRY_LEVEL + message.reconsume_times)
        most = self._settings.reconsume_times_max
        self._calls.publish_retry(copy, sys_flag, message.reconsume_times + 1, most)


class NoRetries:
    """Nothing comes again: what was not handled is logged and passed over."""

    def __init__(self, group: str, why: str) -> None:
        self._group = group
        self._why = why

    def arrange(self, message: MessageExt, outcome: Outcome) -> bool:  # noqa: ARG002
        """Pass the message over."""
        logger.warning(
            "group %s: message %s of topic %s, queue %d, offset %d was not handled and does not "
            "come again: %s",
            self._group,
            message.msg_id,
            message.topic,
            message.queue_id,
            message.queue_offset,
            self._why,
        )
        return True

    def plan(self, message: MessageExt, delay_ms: int | None) -> tuple[Outcome, int]:
        """Refuse: raises UnsupportedOperationError."""
        del delay_ms
        raise UnsupportedOperationError(
            f"message {message.msg_id} of group {self._group} cannot come again: {self._why}"
        )

"""What becomes of a message that a consumer could not handle.

Request 36, RocketMQ's AbstractSendMessageProcessor.consumerSendMsgBack, and the same decision for
clients that send the copy themselves (SendMessageProcessor.handleRetryAndDLQ). A copy goes through
a delay level to %RETRY%group, or to %DLQ%group when the group has tried often enough. The copy's
delay is nothing but its DELAY property; the put hook of `timer/admission.py` acts on it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.remoting.endpoint import Request, RequestError
from embedded_broker.store.inner import InnerMessage
from rocketmq_py.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_py.protocol.codes import (
    PERM_WRITE,
    MQVersion,
    RequestCode,
    ResponseCode,
    TopicSysFlag,
)
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.delay import retry_level
from rocketmq_py.protocol.headers.send import (
    ConsumerSendMsgBackRequestHeader,
    SendMessageRequestHeader,
)
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import RETRY_PREFIX, dlq_topic, retry_topic
from rocketmq_py.protocol.properties import Prop

DLQ_QUEUES: Final = 1


class Destination(NamedTuple):
    """Where a copy goes, and the text of its DELAY property."""

    topic: str
    queue_id: int
    delay: str


class RetryRoutes:
    """Decides between retry and dead letters, for both ways a copy can come."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._habits = core.profile

    def group(self, name: str) -> SubscriptionGroupConfig:
        """Give the settings of the consumer's group, or refuse with 26."""
        group = self._core.groups.find(name)
        if group is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group not exist, {name}: "
                "autoCreateSubscriptionGroup is false or the name is not legal",
            )
        return group

    def of_send_back(
        self,
        header: ConsumerSendMsgBackRequestHeader,
        group: SubscriptionGroupConfig,
        record: MessageRecord,
        version: int,
    ) -> Destination:
        """Give the destination of a copy that the broker makes itself (request 36)."""
        tried = record.reconsume_times
        limit = _limit(group, header.max_reconsume_times, version)
        if tried >= limit or header.delay_level < 0:
            return Destination(self._dead_letters(group.group_name), 0, "0")
        level = retry_level(header.delay_level, tried)
        queue_id = self._core.random.randrange(group.retry_queue_nums)
        return Destination(retry_topic(group.group_name), queue_id, str(level))

    def of_client_send(
        self,
        header: SendMessageRequestHeader,
        command: RemotingCommand,
        properties: dict[str, str],
    ) -> tuple[str, int] | None:
        """Give topic and queue of a send to %RETRY% that belongs to the dead letters, or None.

        5.x gives up above the maximum, 4.9 at it; 5.x also at once while the group holds a queue
        lock, which means that an orderly consumer has given up.
        """
        group = self.group(header.topic.removeprefix(RETRY_PREFIX))
        limit = _limit(group, header.max_reconsume_times, command.version)
        tried = header.reconsume_times or 0
        given_up = tried > limit or (tried == limit and not self._habits.retries_at_limit)
        if not given_up and self._habits.locked_group_gives_up:
            given_up = self._core.locks.any_held(
                group.group_name, now_ms=self._core.session_clock.now_ms
            )
        if not given_up:
            return None
        properties[Prop.DELAY] = "-1"
        return self._dead_letters(group.group_name), 0

    def _dead_letters(self, group: str) -> str:
        topic, _ = self._core.topics.ensure(dlq_topic(group), DLQ_QUEUES)
        return topic.topic_name


def _limit(group: SubscriptionGroupConfig, asked: int | None, version: int) -> int:
    """Give the most reconsumes: the client's number if it is new enough to send one."""
    if asked is not None and version >= MQVersion.V3_4_9:
        return asked
    return group.retry_max_times


class SendBackProcessor:
    """Request 36: make a copy of a consumed message and send it on its way."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._routes = RetryRoutes(core)

    def register(self) -> None:
        """Take over the request of this module."""
        self._core.endpoint.register(RequestCode.CONSUMER_SEND_MSG_BACK, self.send_back)

    def send_back(self, request: Request) -> RemotingCommand:
        """36: group missing 26; broker or topic not writable 16; no such record 1."""
        command = request.command
        header = ConsumerSendMsgBackRequestHeader.from_ext(command.ext_fields)
        group = self._routes.group(header.group)
        perm = self._core.config.int("brokerPermission")
        if not perm & PERM_WRITE:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._core.address}] sending message is forbidden: "
                f"brokerPermission={perm} has no write bit (2)",
            )
        if group.retry_queue_nums <= 0:
            return command.answer(ResponseCode.SUCCESS)
        self._retry_topic(header, group)
        record = self._core.store.record(header.offset)
        if record is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {header.offset}"
            )
        destination = self._routes.of_send_back(header, group, record, command.version)
        result = self._core.store.put(_copy(record, destination))
        if not result.ok:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"{result.status.name}: {result.remark or ''}"
            )
        return command.answer(ResponseCode.SUCCESS)

    def _retry_topic(
        self, header: ConsumerSendMsgBackRequestHeader, group: SubscriptionGroupConfig
    ) -> None:
        sys_flag = TopicSysFlag.UNIT_SUB if header.unit_mode else 0
        topic, _ = self._core.topics.ensure(
            retry_topic(group.group_name), group.retry_queue_nums, sys_flag=sys_flag
        )
        if not topic.perm & PERM_WRITE:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the topic[{topic.topic_name}] sending message is forbidden: "
                f"its perm={topic.perm} has no write bit (2)",
            )


def _copy(record: MessageRecord, destination: Destination) -> InnerMessage:
    """Make the copy: same content and birth, one more try, and where it came from.

    RETRY_TOPIC and ORIGIN_MESSAGE_ID are those of the first failure; UNIQ_KEY stays, so a
    client sees one message id through all tries.
    """
    properties: Mapping[str, str] = record.properties
    copied = dict(properties)
    copied.setdefault(Prop.RETRY_TOPIC, record.topic)
    copied.setdefault(Prop.ORIGIN_MESSAGE_ID, record.offset_msg_id)
    copied[Prop.WAIT] = "false"
    copied[Prop.DELAY] = destination.delay
    return InnerMessage(
        destination.topic,
        destination.queue_id,
        record.body,
        copied,
        record.flag,
        record.sys_flag,
        record.born_timestamp,
        record.born_host,
        record.reconsume_times + 1,
    )

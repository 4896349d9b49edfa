"""Retries and dead letters: what becomes of a message that a consumer could not handle.

RocketMQ's AbstractSendMessageProcessor.consumerSendMsgBack, and the same decision for clients that
send the copy themselves (SendMessageProcessor.handleRetryAndDLQ). A copy goes through a delay level
to %RETRY%group, or to %DLQ%group when the group has tried often enough. The copy's delay is nothing
but its DELAY property; the put hook of ``timer/admission.py`` acts on it. Must not know: headers,
the store. Read on: ``produce.py``.
"""

from typing import Final, NamedTuple

from attrs import define

from embedded_broker.core.environment import Environment
from embedded_broker.core.guards import Caller
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.core.send_gate import SendGate, check_topic_writable
from embedded_broker.core.send_values import Incoming
from embedded_broker.store.put_values import InnerMessage
from embedded_broker.tables.broker_tables import Tables
from rocketmq_py.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_py.protocol.codes import TopicSysFlag
from rocketmq_py.protocol.delay import retry_level
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import RETRY_PREFIX, dlq_topic, retry_topic
from rocketmq_py.protocol.pop_handles import normal_topic
from rocketmq_py.protocol.properties import Prop

DLQ_QUEUES: Final = 1


class SentBack(NamedTuple):
    """A stored message that a consumer of a group could not handle.

    ``delay_level`` is the one it asks for: 0 lets the broker choose, less than 0 gives up.
    ``max_reconsume_times`` counts instead of the group's own number unless it is None. With
    ``names_origin`` a dead letter says which topic and message it was.
    """

    offset: int
    group: str
    delay_level: int
    max_reconsume_times: int | None = None
    is_unit: bool = False
    names_origin: bool = False


@define(eq=False, kw_only=True)
class Retries:
    """Decides between retry and dead letters, for both ways a copy can come."""

    _env: Environment
    _tables: Tables
    _gate: SendGate

    def copy(self, asked: SentBack, caller: Caller) -> InnerMessage | None:
        """Make the copy of a message that is sent back; None for a group that wants no retries.

        Refused: no such group, broker or topic not writable, no such message, or one of a topic
        that the caller may not read.
        """
        group = self._group(asked.group)
        self._gate.check_writable()
        if group.retry_queue_nums <= 0:
            return None
        record = self._env.store.queued(asked.offset)
        if record is None:
            raise Refused(Reason.FAILED, f"look message by offset failed, {asked.offset}")
        caller.demand_to_read(record)
        topic, _ = self._tables.topics.ensure(
            retry_topic(group.group_name),
            group.retry_queue_nums,
            sys_flag=TopicSysFlag.UNIT_SUB if asked.is_unit else 0,
        )
        check_topic_writable(topic)
        tried = record.reconsume_times
        if tried >= _limit(group, asked.max_reconsume_times) or asked.delay_level < 0:
            copy = _copy(record, self._dead_letters(group.group_name), 0, "0")
            if asked.names_origin:
                origin = normal_topic(copy.properties[Prop.RETRY_TOPIC], group.group_name)
                copy.properties.setdefault(Prop.DLQ_ORIGIN_TOPIC, origin)
                copy.properties.setdefault(Prop.DLQ_ORIGIN_MESSAGE_ID, record.msg_id)
            return copy
        level = retry_level(asked.delay_level, tried)
        queue_id = self._env.random.randrange(group.retry_queue_nums)
        return _copy(record, topic.topic_name, queue_id, str(level))

    def of_client_send(
        self, message: Incoming, properties: dict[str, str]
    ) -> tuple[str, int] | None:
        """Give topic and queue of a send to %RETRY% that belongs to the dead letters, or None.

        5.x gives up above the maximum, 4.9 at it; 5.x also at once while the group holds a queue
        lock, which means that an orderly consumer has given up.
        """
        group = self._group(message.topic.removeprefix(RETRY_PREFIX))
        limit = _limit(group, message.terms.max_reconsume_times)
        tried = message.terms.reconsume_times
        given_up = tried > limit or (tried == limit and not self._env.profile.retries_at_limit)
        if not given_up and self._env.profile.locked_group_gives_up:
            given_up = self._tables.locks.any_held(
                group.group_name, now_ms=self._env.session.clock.now_ms
            )
        if not given_up:
            return None
        properties[Prop.DELAY] = "-1"
        return self._dead_letters(group.group_name), 0

    def _group(self, name: str) -> SubscriptionGroupConfig:
        group = self._tables.groups.find(name)
        if group is None:
            raise Refused(
                Reason.GROUP_NOT_EXIST,
                f"subscription group not exist, {name}: "
                "autoCreateSubscriptionGroup is false or the name is not legal",
            )
        return group

    def _dead_letters(self, group: str) -> str:
        topic, _ = self._tables.topics.ensure(dlq_topic(group), DLQ_QUEUES)
        return topic.topic_name


def _limit(group: SubscriptionGroupConfig, asked: int | None) -> int:
    """Give the most reconsumes: the client's number if it sends one."""
    return group.retry_max_times if asked is None else asked


def _copy(record: MessageRecord, topic: str, queue_id: int, delay: str) -> InnerMessage:
    """Make the copy: same content and birth, one more try, and where it came from.

    RETRY_TOPIC and ORIGIN_MESSAGE_ID are those of the first failure; UNIQ_KEY stays, so a
    client sees one message id through all tries.
    """
    copied = dict(record.properties)
    copied.setdefault(Prop.RETRY_TOPIC, record.topic)
    copied.setdefault(Prop.ORIGIN_MESSAGE_ID, record.offset_msg_id)
    copied[Prop.WAIT] = "false"
    copied[Prop.DELAY] = delay
    copy = InnerMessage.copy_of(record, topic, queue_id, copied)
    copy.reconsume_times += 1
    return copy

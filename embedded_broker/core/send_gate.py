"""Checks of a send: who may send what to which topic.

RocketMQ's AbstractSendMessageProcessor.msgCheck in its order, the types of messages that a proxy
checks, and the first half of a transaction. Must not know: the store, delays, what is answered.
Read on: ``produce.py``, who asks here first.
"""

from collections.abc import Mapping

from attrs import define, field

from embedded_broker.core.environment import Environment
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.core.send_values import Incoming
from embedded_broker.core.transactions.half import asks_for_transaction
from embedded_broker.tables.topics.attributes import takes_batches
from embedded_broker.tables.topics.message_types import type_problem
from embedded_broker.tables.topics.table import TopicTable
from rocketmq_py.errors import RecordError
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.codes import PERM_WRITE, TopicSysFlag
from rocketmq_py.protocol.delay import has_delay
from rocketmq_py.protocol.inner_batch import BATCH_MAX
from rocketmq_py.protocol.message_codec import decode_batch
from rocketmq_py.protocol.names import (
    HOLDING_TOPICS,
    NOT_SENDABLE_TOPICS,
    RETRY_PREFIX,
    is_broker_topic,
    topic_problem,
)
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.sysflag import (
    INNER_BATCH,
    MULTI_TAGS,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
)


@define(eq=False, kw_only=True)
class SendGate:
    """Lets messages in or raises `Refused`. Used under the door."""

    _env: Environment
    _topics: TopicTable
    _broker_perm: int = field(init=False)
    checks_types: bool = field(init=False)
    """Whether a message must be of its topic's message.type."""

    def __attrs_post_init__(self) -> None:
        self._read_settings(frozenset())
        self._env.config.on_change(self._read_settings)

    def topic_for(self, message: Incoming) -> TopicConfig:
        """Give the topic to write to, created if need be, or refuse the message.

        A topic that exists has a legal name. Refused, in this order: a broker without write
        permission, a topic no client may send to (a broker acts on what lies in its own), a bad
        name, an unknown topic that cannot be created, a topic without write permission, a queue
        beyond the topic's, an empty body. Another broker may send what is due there.
        """
        name = message.topic
        self.check_writable()
        is_own = is_broker_topic(name) and not message.terms.is_escaped
        if is_own or name in NOT_SENDABLE_TOPICS or name in HOLDING_TOPICS:
            raise Refused(Reason.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden.")
        topic = self._topics.get(name)
        if topic is None:
            topic = self._create_topic(message)
        check_topic_writable(topic)
        queues, wanted = max(topic.write_queue_nums, topic.read_queue_nums), message.terms.queue_id
        if wanted >= queues or (wanted < 0 and not topic.write_queue_nums):
            raise Refused(
                Reason.INVALID_PARAMETER,
                f"request queueId[{wanted}] is illegal, topic[{name}] has "
                f"writeQueueNums={topic.write_queue_nums} readQueueNums={topic.read_queue_nums}",
            )
        if not message.body and not self._env.profile.empty_body_allowed:
            raise Refused(Reason.FAILED, "the message has no body")
        return topic

    def check_writable(self) -> None:
        """Refuse while the broker has no write permission."""
        if not self._broker_perm & PERM_WRITE:
            raise Refused(
                Reason.NO_PERMISSION,
                f"the broker[{self._env.address}] sending message is forbidden: "
                f"brokerPermission={self._broker_perm} has no write bit (2)",
            )

    def _create_topic(self, message: Incoming) -> TopicConfig:
        name, profile = message.topic, self._env.profile
        problem = topic_problem(
            name,
            length_max=profile.topic_length_max,
            retry_length_max=profile.system_topic_length_max,
        )
        if problem is not None:
            raise Refused(Reason.INVALID_PARAMETER, problem)
        is_retry = name.startswith(RETRY_PREFIX)
        sys_flag = 0
        if message.terms.is_unit:
            sys_flag = TopicSysFlag.UNIT_SUB if is_retry else TopicSysFlag.UNIT
        topic = self._topics.create_for_send(
            name, message.terms.template, message.terms.template_queues, sys_flag=sys_flag
        )
        if topic is None and is_retry:
            topic, _ = self._topics.ensure(name, 1, sys_flag=sys_flag)
        if topic is None:
            raise Refused(
                Reason.TOPIC_NOT_EXIST,
                f"topic[{name}] not exist, apply first please! Its template "
                f"defaultTopic[{message.terms.template}] is missing or not inheritable; "
                "autoCreateTopicEnable="
                f"{str(self._env.config.flag('autoCreateTopicEnable')).lower()}",
            )
        return topic

    def queue_for(self, message: Incoming, topic: TopicConfig) -> int:
        """Give the queue to write to: the one that is asked for, or any."""
        if message.terms.queue_id >= 0:
            return message.terms.queue_id
        return self._env.random.randrange(topic.write_queue_nums)

    def check_type(self, topic: TopicConfig, properties: Mapping[str, str]) -> None:
        """Refuse what is not of the topic's message.type, where that is enforced."""
        if not self.checks_types:
            return
        aliased = self._env.config.flag("startDeliverTimeEnable")
        problem = type_problem(topic, properties, start_deliver=aliased)
        if problem is not None:
            raise Refused(Reason.MESSAGE_ILLEGAL, problem)

    def is_half(self, message: Incoming, properties: Mapping[str, str]) -> bool:
        """Say whether this is the first half of a transaction; refuse where those are forbidden.

        TRAN_MSG decides, as on a real broker. That one stores a message which only has the bits
        in its sysFlag where nobody ever finds it; here it is refused.
        """
        if asks_for_transaction(properties, message.terms.reconsume_times):
            if self._env.config.flag("rejectTransactionMessage"):
                raise Refused(
                    Reason.NO_PERMISSION,
                    f"the broker[{self._env.address}] sending transaction message is forbidden: "
                    "rejectTransactionMessage=true",
                )
            return True
        if message.terms.sys_flag & TRANSACTION_MASK == TRANSACTION_PREPARED:
            raise Refused(
                Reason.MESSAGE_ILLEGAL, "sysFlag 4 says half message, but TRAN_MSG is not true"
            )
        return False

    def check_inner_batch(
        self, message: Incoming, topic: TopicConfig, properties: Mapping[str, str]
    ) -> None:
        """Refuse what says that it is a batch stored as one record, and is none (checkInnerBatch).

        A real broker believes INNER_NUM; here the body must hold so many messages.
        """
        if not self._env.profile.topic_attributes:
            return
        wanted = properties.get(Prop.INNER_NUM)
        if not message.terms.sys_flag & INNER_BATCH:
            problem = f"INNER_NUM is {wanted}, but sysFlag does not say inner batch (128)"
        elif not takes_batches(topic):
            return  # the store refuses it
        else:
            try:
                count = len(decode_batch(message.body, BATCH_MAX))
            except RecordError as error:
                problem = f"its body is no batch: {error}"
            else:
                if wanted == str(count):
                    return
                problem = f"INNER_NUM is {wanted}, its body holds {count} messages"
        raise Refused(Reason.MESSAGE_ILLEGAL, f"this is no inner batch: {problem}")

    def check_no_delay(self, properties: Mapping[str, str]) -> None:
        """Refuse what asks for a delay: a batch, or a message in it."""
        if not has_delay(properties):
            return
        if not self._env.config.flag("startDeliverTimeEnable"):
            # Without the alias __STARTDELIVERTIME is a user's property like any other.
            properties = {k: v for k, v in properties.items() if k != Prop.START_DELIVER_TIME}
            if not has_delay(properties):
                return
        raise Refused(
            Reason.MESSAGE_ILLEGAL,
            "a batch cannot be delayed: DELAY, TIMER_DELAY_SEC, TIMER_DELAY_MS, "
            "TIMER_DELIVER_MS and __STARTDELIVERTIME must be sent one by one",
        )

    def _read_settings(self, _changed: frozenset[str]) -> None:
        config = self._env.config
        self._broker_perm = config.int("brokerPermission")
        self.checks_types = self._env.profile.topic_attributes and (
            config.flag("enforceTopicMessageType")
            or (self._env.limits.checks_types and config.flag("enableTopicMessageTypeCheck"))
        )


def check_topic_writable(topic: TopicConfig) -> None:
    """Refuse a topic without write permission."""
    if not topic.perm & PERM_WRITE:
        raise Refused(
            Reason.NO_PERMISSION,
            f"the topic[{topic.topic_name}] sending message is forbidden: "
            f"its perm={topic.perm} has no write bit (2)",
        )


def stored_sys_flag(sys_flag: int, topic: TopicConfig) -> int:
    """Give the sysFlag to store: topics of several tags add theirs."""
    return sys_flag | MULTI_TAGS if topic.topic_filter_type == "MULTI_TAG" else sys_flag

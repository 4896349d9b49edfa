"""Which requests does a consumer make, and what do their answers mean.

`ConsumerCalls` turns the questions of the other modules into commands and checks the answers. This
module must not know when a question is asked. Requests: wire codes 11, 14, 15, 29, 30, 36, 38;
those about one queue are made in `rocketmq_py/client/queue_requests.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from random import randrange
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rocketmq_py.client.answers import lacks_queue
from rocketmq_py.client.asking import AnyOf, Broker, Question, nothing
from rocketmq_py.client.queue_requests import QueueRequests, queue_request
from rocketmq_py.clock import monotonic, wall_ms
from rocketmq_py.errors import RocketMQError
from rocketmq_py.message import Message, MessageExt
from rocketmq_py.protocol.bodies.groups import ConsumerList
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from rocketmq_py.protocol.codes import SEND_RESPONSE_STORED, PullSysFlag, RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.client import GetConsumerListByGroupRequestHeader
from rocketmq_py.protocol.headers.send import ConsumerSendMsgBackRequestHeader, send_fields
from rocketmq_py.protocol.names import INNER_PRODUCER_GROUP
from rocketmq_py.protocol.properties import encode_properties
from rocketmq_py.send_result import MessageQueue

if TYPE_CHECKING:
    from rocketmq_py.client.instance import ClientInstance
    from rocketmq_py.client.unreachable_servers import UnreachableServers

MASTER_ID = 0
OFFSET_CALL_TIMEOUT_MS = 5_000
SEND_BACK_TIMEOUT_MS = 5_000
LONG_POLL_MS = 15_000
"""How long the broker may keep a pull that finds nothing."""
PULL_TIMEOUT_MS = 30_000

PUBLISH_ATTEMPTS = 3


class CallSettings(Protocol):
    """What the requests of a consumer say; see `ConsumerConfig`."""

    unit_mode: bool
    post_subscription_when_pull: bool
    pull_batch_size: int
    pull_batch_size_in_bytes: int


class PullAsk(NamedTuple):
    """One pull: `commit_offset` rides along when it is above 0."""

    queue: MessageQueue
    offset: int
    commit_offset: int
    subscription: SubscriptionData
    broker_id: int


class ConsumerCalls(QueueRequests):
    """The requests of one consumer group member; every method may be called by any thread."""

    def __init__(self, engine: ClientInstance, group: str, config: CallSettings) -> None:
        super().__init__(engine, OFFSET_CALL_TIMEOUT_MS)
        self._group = group
        self._config = config
        self.informant: str | None = None
        """Who answered last about the members."""

    @property
    def unreachable(self) -> UnreachableServers:
        """Where calls that a broker does not answer are reported."""
        return self._instance.unreachable

    def consumer_ids(self, addresses: Sequence[str], timeout_ms: float) -> list[str]:
        """Client ids of the group's members, sorted as Java sorts them (38).

        Every broker of a topic knows them. The one that answered last time is asked, and another
        one whenever it refuses or no answer came for a moment; the first answer counts.
        """
        known = self.informant
        header = GetConsumerListByGroupRequestHeader(consumer_group=self._group)
        question = Question(
            AnyOf(tuple(sorted(addresses, key=lambda address: address != known))),
            RequestCode.GET_CONSUMER_LIST_BY_GROUP,
            lambda answer, address: (address, ConsumerList.decode(answer.body).consumer_id_list),
            header.to_ext(),
        )
        self.informant, members = self._asker.answer(question, timeout_ms)
        return sorted(members, key=java_order)

    def stored_offset(self, queue: MessageQueue) -> int | None:
        """Offset that the broker keeps for the group, None when it keeps none (14)."""
        return self.group_offset(self._group, queue)

    def store_offset(self, queue: MessageQueue, offset: int) -> None:
        """Tell the broker the group's offset, without an answer (15)."""
        address = self._instance.routes.require_address(queue.topic, queue.broker_name)
        command = queue_request(
            RequestCode.UPDATE_CONSUMER_OFFSET,
            queue,
            consumer_group=self._group,
            commit_offset=offset,
        )
        self._instance.remoting.post(address, command)

    def publish_retry(
        self, message: Message, sys_flag: int, reconsume_times: int, reconsume_times_max: int
    ) -> None:
        """Send to the retry topic as the inner producer does; tries up to three queues (310)."""
        routes, topic = self._instance.routes, message.topic
        properties = encode_properties(message.properties).decode()
        start = randrange(len(routes.publish_info(topic).queues))
        for attempt in range(PUBLISH_ATTEMPTS):
            queues = routes.publish_info(topic).queues
            queue = queues[(start + attempt) % len(queues)]
            fields = send_fields(
                INNER_PRODUCER_GROUP,
                topic,
                queue_id=queue.queue_id,
                sys_flag=sys_flag,
                born_timestamp=wall_ms(),
                flag=message.flag,
                properties=properties,
                reconsume_times=reconsume_times,
                unit_mode=self._config.unit_mode,
                max_reconsume_times=reconsume_times_max,
                broker_name=queue.broker_name,
            )
            question = Question(
                _master(topic, queue.broker_name),
                RequestCode.SEND_MESSAGE_V2,
                nothing,
                fields,
                message.body,
                accepts=SEND_RESPONSE_STORED,
            )
            since = monotonic()
            try:
                self._asker.answer(question, SEND_BACK_TIMEOUT_MS)
            except RocketMQError as error:
                if attempt == PUBLISH_ATTEMPTS - 1:
                    raise
                if lacks_queue(error):
                    self._look_again(topic, since)
            else:
                return

    def _look_again(self, topic: str, since: float) -> None:
        """Ask for a route that a broker contradicted; the known one serves without an answer."""
        try:
            self._instance.routes.look_again(topic, since, SEND_BACK_TIMEOUT_MS)
        except RocketMQError as error:
            self._instance.routes.log_failure(topic, error)

    def send_back(self, message: MessageExt, delay_level: int, reconsume_times_max: int) -> None:
        """Ask the broker that stores the message to deliver it again later (36)."""
        header = ConsumerSendMsgBackRequestHeader(
            offset=message.commit_log_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.msg_id,
            origin_topic=message.topic,
            unit_mode=self._config.unit_mode,
            max_reconsume_times=reconsume_times_max,
            broker_name=message.broker_name,
        )
        code = RequestCode.CONSUMER_SEND_MSG_BACK
        master = _master(message.topic, message.broker_name)
        self._asker.answer(Question(master, code, nothing, header.to_ext()), SEND_BACK_TIMEOUT_MS)

    def pull(self, ask: PullAsk) -> Future[RemotingCommand]:
        """Ask for messages, kept by the broker while there are none (11)."""
        queue, subscription = ask.queue, ask.subscription
        sys_flag: int = PullSysFlag.SUSPEND
        # Only a master keeps offsets, so nothing rides along to a slave.
        if ask.commit_offset > 0 and ask.broker_id == MASTER_ID:
            sys_flag |= PullSysFlag.COMMIT_OFFSET
        expression = None
        if self._config.post_subscription_when_pull:
            expression = subscription.sub_string
            sys_flag |= PullSysFlag.SUBSCRIPTION
        command = queue_request(
            RequestCode.PULL_MESSAGE,
            queue,
            consumer_group=self._group,
            queue_offset=ask.offset,
            max_msg_nums=self._config.pull_batch_size,
            sys_flag=sys_flag,
            commit_offset=ask.commit_offset,
            suspend_timeout_millis=LONG_POLL_MS,
            subscription=expression,
            sub_version=subscription.sub_version,
            expression_type=subscription.expression_type,
            max_msg_bytes=self._config.pull_batch_size_in_bytes,
        )
        address = self._instance.routes.require_address(
            queue.topic, queue.broker_name, broker_id=ask.broker_id
        )
        return self._instance.remoting.invoke_async(address, command, PULL_TIMEOUT_MS)


def _master(topic: str, broker_name: str) -> Broker:
    return Broker(topic, broker_name, only_this=True)


def java_order(text: str) -> bytes:
    """Sort key that puts texts in the order of Java's ``String.compareTo``."""
    return text.encode("utf-16-be", "surrogatepass")

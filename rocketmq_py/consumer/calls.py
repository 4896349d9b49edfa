"""Which requests does a consumer make, and what do their answers mean.

`ConsumerCalls` turns the questions of the other modules into commands and checks the answers;
`Engine` is what it needs of the client instance, which is also what a test has to imitate. This
module must not know when a question is asked. Requests: wire codes 11, 14, 15, 29, 30, 36, 38.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from random import randrange
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rocketmq_py.clock import wall_ms
from rocketmq_py.errors import MQBrokerException, MQClientException, RocketMQError
from rocketmq_py.message import Message, MessageExt, MessageQueue
from rocketmq_py.protocol.bodies.groups import ConsumerList
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from rocketmq_py.protocol.codes import PullSysFlag, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.client import GetConsumerListByGroupRequestHeader
from rocketmq_py.protocol.headers.offsets import (
    GetMaxOffsetRequestHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rocketmq_py.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rocketmq_py.protocol.headers.send import (
    ConsumerSendMsgBackRequestHeader,
    SendMessageRequestHeader,
)
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC, INNER_PRODUCER_GROUP
from rocketmq_py.protocol.properties import encode_properties

if TYPE_CHECKING:
    from rocketmq_py.consumer.settings import PushConsumerConfig

logger = logging.getLogger(__name__)

MASTER_ID = 0
OFFSET_CALL_TIMEOUT_MS = 5_000
SEND_BACK_TIMEOUT_MS = 5_000
LONG_POLL_MS = 15_000
"""How long the broker may keep a pull that finds nothing."""
PULL_TIMEOUT_MS = 30_000

PUBLISH_ATTEMPTS = 3

_STORED_CODES = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    }
)
_PULL_CODES = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)


class Handle(Protocol):
    """A scheduled call that can be given up."""

    def cancel(self) -> object:
        """Give it up; harmless when it has run."""
        ...


class WritableQueues(Protocol):
    """Where messages of a topic can be sent to."""

    @property
    def queues(self) -> Sequence[MessageQueue]:
        """Writable queues, at least one."""
        ...


class Engine(Protocol):
    """What a consumer needs of the client instance that it shares with other clients."""

    client_id: str
    """Name of this client in its groups."""

    @property
    def is_running(self) -> bool:
        """Whether it is started and not closed: nothing can be asked through a closed one."""
        ...

    def publish_info(self, topic: str) -> WritableQueues:
        """Writable queues of a topic; MQClientException without a route."""
        ...

    def subscribe_queues(self, topic: str) -> tuple[MessageQueue, ...] | None:
        """Readable queues of the cached route, None without a route."""
        ...

    def update_route(self, topic: str) -> bool:
        """Ask the name server for the route; whether it changed."""
        ...

    def broker_address(
        self, broker_name: str, *, broker_id: int = 0, only_this: bool = False
    ) -> str | None:
        """Address of a broker, another id of the same name unless `only_this`."""
        ...

    def any_broker_address(self, topic: str) -> str | None:
        """Address of one broker that has the topic."""
        ...

    def invoke(self, address: str, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Call and wait; the answer may have any code."""
        ...

    def invoke_async(
        self, address: str, command: RemotingCommand, timeout_ms: int
    ) -> Future[RemotingCommand]:
        """Call; the future is completed by the I/O thread."""
        ...

    def invoke_oneway(self, address: str, command: RemotingCommand, timeout_ms: int) -> None:
        """Send without wanting an answer."""
        ...

    def send_heartbeats(self) -> None:
        """Tell all known brokers what this client subscribes to, now."""
        ...

    def schedule_after(self, delay_ms: float, task: Callable[[], object]) -> Handle:
        """Run a short call on the timer thread later; never when the instance is closed."""
        ...

    def schedule_every(
        self, initial_ms: float, period_ms: float, task: Callable[[], object]
    ) -> Handle:
        """Run a short call on the timer thread again and again."""
        ...

    def submit(self, task: Callable[[], object]) -> bool:
        """Run a call on the callback pool; False when it is full or closed."""
        ...

    def rebalance_soon(self) -> object:
        """Run the rebalance of this instance's consumers on a background thread, soon."""
        ...


class PullAnswer(NamedTuple):
    """A broker's answer to a pull: `code` is 0, 19, 20 or 21, `body` records back to back."""

    code: int
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker: int
    offset_delta: int
    body: bytes


class PullAsk(NamedTuple):
    """One pull: `commit_offset` rides along when it is above 0."""

    queue: MessageQueue
    offset: int
    commit_offset: int
    subscription: SubscriptionData
    broker_id: int


class ConsumerCalls:
    """The requests of one consumer group member; every method may be called by any thread."""

    def __init__(self, engine: Engine, group: str, config: PushConsumerConfig) -> None:
        self._engine = engine
        self._group = group
        self._config = config

    def consumer_ids(self, address: str) -> list[str]:
        """Client ids of the group's members, sorted as Java sorts them (38)."""
        header = GetConsumerListByGroupRequestHeader(consumer_group=self._group)
        answer = self._call(
            address,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP,
            header.to_ext(),
            self._config.mq_client_api_timeout,
        )
        ids = ConsumerList.decode(answer.body).consumer_id_list
        return sorted(ids, key=java_order)

    def stored_offset(self, queue: MessageQueue) -> int | None:
        """Offset that the broker keeps for the group, None when it keeps none (14)."""
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            broker_name=queue.broker_name,
        )
        address = self._address(queue, MASTER_ID)
        answer = self._engine.invoke(
            address,
            RemotingCommand(code=RequestCode.QUERY_CONSUMER_OFFSET, ext_fields=header.to_ext()),
            OFFSET_CALL_TIMEOUT_MS,
        )
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        _checked(answer, address)
        return OffsetResponseHeader.from_ext(answer.ext_fields).offset

    def store_offset(self, queue: MessageQueue, offset: int) -> None:
        """Tell the broker the group's offset, without an answer (15)."""
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            broker_name=queue.broker_name,
        )
        self._engine.invoke_oneway(
            self._address(queue, MASTER_ID),
            RemotingCommand(code=RequestCode.UPDATE_CONSUMER_OFFSET, ext_fields=header.to_ext()),
            OFFSET_CALL_TIMEOUT_MS,
        )

    def max_offset(self, queue: MessageQueue) -> int:
        """Offset that the queue's next message will get (30)."""
        header = GetMaxOffsetRequestHeader(
            topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name
        )
        return self._offset(queue, RequestCode.GET_MAX_OFFSET, header.to_ext())

    def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """First offset stored at or after the instant (29)."""
        header = SearchOffsetRequestHeader(
            topic=queue.topic,
            queue_id=queue.queue_id,
            timestamp=timestamp_ms,
            broker_name=queue.broker_name,
        )
        return self._offset(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header.to_ext())

    def publish_retry(self, message: Message, sys_flag: int, reconsume_times: int) -> None:
        """Send to the retry topic as the inner producer does; tries up to three queues (310)."""
        queues = self._engine.publish_info(message.topic).queues
        properties = encode_properties(message.properties).decode()
        start = randrange(len(queues))
        for attempt in range(PUBLISH_ATTEMPTS):
            queue = queues[(start + attempt) % len(queues)]
            header = SendMessageRequestHeader(
                producer_group=INNER_PRODUCER_GROUP,
                topic=message.topic,
                default_topic=AUTO_CREATE_TOPIC,
                default_topic_queue_nums=4,
                queue_id=queue.queue_id,
                sys_flag=sys_flag,
                born_timestamp=wall_ms(),
                flag=message.flag,
                properties=properties,
                reconsume_times=reconsume_times,
                unit_mode=self._config.unit_mode,
                max_reconsume_times=self._config.reconsume_times_max,
                batch=False,
                broker_name=queue.broker_name,
            )
            try:
                self._publish_to(queue, header.to_ext_v2(), message.body)
            except RocketMQError:
                if attempt == PUBLISH_ATTEMPTS - 1:
                    raise
            else:
                return

    def _publish_to(self, queue: MessageQueue, ext: dict[str, str], body: bytes) -> None:
        address = self._engine.broker_address(queue.broker_name, only_this=True)
        if address is None:
            raise MQClientException(f"broker {queue.broker_name} has no master address")
        command = RemotingCommand(code=RequestCode.SEND_MESSAGE_V2, ext_fields=ext, body=body)
        answer = self._engine.invoke(address, command, SEND_BACK_TIMEOUT_MS)
        if answer.code not in _STORED_CODES:
            raise MQBrokerException(answer.code, answer.remark, address, topic=queue.topic)

    def send_back(self, message: MessageExt, delay_level: int) -> None:
        """Ask the broker that stores the message to deliver it again later (36)."""
        header = ConsumerSendMsgBackRequestHeader(
            offset=message.commit_log_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.msg_id,
            origin_topic=message.topic,
            unit_mode=self._config.unit_mode,
            max_reconsume_times=self._config.reconsume_times_max,
            broker_name=message.broker_name,
        )
        address = self._engine.broker_address(message.broker_name, only_this=True)
        if address is None:
            raise MQClientException(f"broker {message.broker_name} has no master address")
        self._call(
            address,
            RequestCode.CONSUMER_SEND_MSG_BACK,
            header.to_ext(),
            SEND_BACK_TIMEOUT_MS,
        )

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
        header = PullMessageRequestHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=ask.offset,
            max_msg_nums=self._config.pull_batch_size,
            sys_flag=sys_flag,
            commit_offset=ask.commit_offset,
            suspend_timeout_millis=LONG_POLL_MS,
            subscription=expression,
            sub_version=subscription.sub_version,
            expression_type=subscription.expression_type,
            max_msg_bytes=self._config.pull_batch_size_in_bytes,
            broker_name=queue.broker_name,
        )
        return self._engine.invoke_async(
            self._address(queue, ask.broker_id),
            RemotingCommand(code=RequestCode.PULL_MESSAGE, ext_fields=header.to_ext()),
            PULL_TIMEOUT_MS,
        )

    def _offset(self, queue: MessageQueue, code: RequestCode, ext: dict[str, str]) -> int:
        answer = self._call(self._address(queue, MASTER_ID), code, ext, OFFSET_CALL_TIMEOUT_MS)
        return OffsetResponseHeader.from_ext(answer.ext_fields).offset

    def _call(
        self, address: str, code: RequestCode, ext: dict[str, str], timeout_ms: int
    ) -> RemotingCommand:
        command = RemotingCommand(code=code, ext_fields=ext)
        return _checked(self._engine.invoke(address, command, timeout_ms), address)

    def _address(self, queue: MessageQueue, broker_id: int) -> str:
        address = self._engine.broker_address(queue.broker_name, broker_id=broker_id)
        if address is None:
            self._engine.update_route(queue.topic)
            address = self._engine.broker_address(queue.broker_name, broker_id=broker_id)
        if address is None:
            raise MQClientException(
                f"broker {queue.broker_name} is in no route: is it still registered?",
                topic=queue.topic,
            )
        return address


def pull_answer(answer: RemotingCommand, address: str = "") -> PullAnswer:
    """Read the answer of a pull; MQBrokerException for a code that is no pull result."""
    if answer.code not in _PULL_CODES:
        raise MQBrokerException(answer.code, answer.remark, address or None)
    header = PullMessageResponseHeader.from_ext(answer.ext_fields)
    return PullAnswer(
        answer.code,
        header.next_begin_offset,
        header.min_offset,
        header.max_offset,
        header.suggest_which_broker_id,
        header.offset_delta or 0,
        answer.body,
    )


def java_order(text: str) -> bytes:
    """Sort key that puts texts in the order of Java's ``String.compareTo``."""
    return text.encode("utf-16-be", "surrogatepass")


def _checked(answer: RemotingCommand, address: str) -> RemotingCommand:
    if answer.code != ResponseCode.SUCCESS:
        raise MQBrokerException(answer.code, answer.remark, address)
    return answer

"""Which requests does a consumer make, and what do their answers mean.

`ConsumerCalls` turns the questions of the other modules into commands and checks the answers. This
module must not know when a question is asked. Requests: wire codes 11, 14, 15, 29, 30, 36, 38;
those about one queue are made in `rocketmq_py/client/queue_requests.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from random import randrange
from typing import TYPE_CHECKING, NamedTuple

from rocketmq_py.client.answers import broker_error, check_answer
from rocketmq_py.client.queue_requests import QueueRequests, queue_request
from rocketmq_py.clock import monotonic, wall_ms
from rocketmq_py.errors import RemotingTimeoutException, RocketMQError
from rocketmq_py.logs import get_logger
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
    from rocketmq_py.client.absences import Absences
    from rocketmq_py.client.instance import ClientInstance
    from rocketmq_py.consumer.settings import PushConsumerConfig

logger = get_logger(__name__)

MASTER_ID = 0
OFFSET_CALL_TIMEOUT_MS = 5_000
SEND_BACK_TIMEOUT_MS = 5_000
LONG_POLL_MS = 15_000
"""How long the broker may keep a pull that finds nothing."""
PULL_TIMEOUT_MS = 30_000

PUBLISH_ATTEMPTS = 3
NEXT_AFTER_S = 0.2
"""Without an answer for so long another broker is asked the same."""


class PullAsk(NamedTuple):
    """One pull: `commit_offset` rides along when it is above 0."""

    queue: MessageQueue
    offset: int
    commit_offset: int
    subscription: SubscriptionData
    broker_id: int


class ConsumerCalls(QueueRequests):
    """The requests of one consumer group member; every method may be called by any thread."""

    def __init__(self, engine: ClientInstance, group: str, config: PushConsumerConfig) -> None:
        super().__init__(engine, OFFSET_CALL_TIMEOUT_MS)
        self._group = group
        self._config = config
        self.informant: str | None = None
        """Who answered last about the members."""

    @property
    def absences(self) -> Absences:
        """Where calls that a broker does not answer are reported."""
        return self._instance.absences

    def consumer_ids(self, addresses: Sequence[str], timeout_ms: float) -> list[str]:
        """Client ids of the group's members, sorted as Java sorts them (38).

        Every broker of a topic knows them. The first of ``addresses`` is asked, and another one
        whenever no answer came for a moment; the first answer counts.
        """
        self.informant, answer = self._first_answer(addresses, timeout_ms)
        check_answer(answer, self.informant)
        return sorted(ConsumerList.decode(answer.body).consumer_id_list, key=java_order)

    def _first_answer(
        self, addresses: Sequence[str], timeout_ms: float
    ) -> tuple[str, RemotingCommand]:
        deadline = monotonic() + timeout_ms / 1000
        silent, known = self._instance.connections.silent, self.informant
        waiting = sorted(addresses, key=lambda address: (address in silent, address != known))
        asked: dict[Future[RemotingCommand], str] = {}
        failure: BaseException | None = None
        while waiting or asked:
            if waiting:
                address = waiting.pop(0)
                asked[self._ask_members(address, timeout_ms)] = address
            patience = NEXT_AFTER_S if waiting else deadline - monotonic()
            done, _ = wait(asked, timeout=max(0.0, patience), return_when=FIRST_COMPLETED)
            for future in done:
                address, failure = asked.pop(future), future.exception()
                if failure is None:
                    return address, future.result()
            if not waiting and not done:
                break
        if failure is not None:
            raise failure
        raise RemotingTimeoutException(
            f"no broker tells the members of group {self._group} within {timeout_ms:.0f} ms",
            address=next(iter(asked.values()), None),  # the log has its lines by server
        )

    def _ask_members(self, address: str, timeout_ms: float) -> Future[RemotingCommand]:
        header = GetConsumerListByGroupRequestHeader(consumer_group=self._group)
        code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
        command = RemotingCommand(code, ext_fields=header.to_ext())
        return self._instance.remoting.invoke_async(address, command, timeout_ms)

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

    def publish_retry(self, message: Message, sys_flag: int, reconsume_times: int) -> None:
        """Send to the retry topic as the inner producer does; tries up to three queues (310)."""
        queues = self._instance.routes.publish_info(message.topic).queues
        properties = encode_properties(message.properties).decode()
        start = randrange(len(queues))
        for attempt in range(PUBLISH_ATTEMPTS):
            queue = queues[(start + attempt) % len(queues)]
            fields = send_fields(
                INNER_PRODUCER_GROUP,
                message.topic,
                queue_id=queue.queue_id,
                sys_flag=sys_flag,
                born_timestamp=wall_ms(),
                flag=message.flag,
                properties=properties,
                reconsume_times=reconsume_times,
                unit_mode=self._config.unit_mode,
                max_reconsume_times=self._config.reconsume_times_max,
                broker_name=queue.broker_name,
            )
            try:
                self._publish_to(queue, fields, message.body)
            except RocketMQError:
                if attempt == PUBLISH_ATTEMPTS - 1:
                    raise
            else:
                return

    def _publish_to(self, queue: MessageQueue, fields: dict[str, str], body: bytes) -> None:
        command = RemotingCommand(RequestCode.SEND_MESSAGE_V2, ext_fields=fields, body=body)
        address, answer = self._ask_master(queue.topic, queue.broker_name, command)
        if answer.code not in SEND_RESPONSE_STORED:
            raise broker_error(answer, address, topic=queue.topic)

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
        command = RemotingCommand(RequestCode.CONSUMER_SEND_MSG_BACK, ext_fields=header.to_ext())
        address, answer = self._ask_master(message.topic, message.broker_name, command)
        check_answer(answer, address, message.topic)

    def _ask_master(
        self, topic: str, broker_name: str, command: RemotingCommand
    ) -> tuple[str, RemotingCommand]:
        address = self._instance.routes.require_address(topic, broker_name, only_this=True)
        return address, self._instance.remoting.invoke(address, command, SEND_BACK_TIMEOUT_MS)

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


def java_order(text: str) -> bytes:
    """Sort key that puts texts in the order of Java's ``String.compareTo``."""
    return text.encode("utf-16-be", "surrogatepass")

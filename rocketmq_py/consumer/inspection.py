"""What a consumer tells of itself, and does for once, when a broker asks: 221, 307 and 309.

``MQClientInstance.getConsumerStatus`` and ``consumerRunningInfo``, and
``ConsumeMessageConcurrentlyService.consumeMessageDirectly``: an administrator looks into a running
consumer, or lets it handle one message at once. Nothing here moves an offset. Must not know: who
asks. Read on: ``core/member.py``.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from attrs import define

from rocketmq_py.clock import Clock, monotonic, wall_ms
from rocketmq_py.consumer.core.offset_table import OffsetTable
from rocketmq_py.consumer.listening import consume_directly
from rocketmq_py.logs import get_logger
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.bodies.consumption import (
    ConsumeDirectlyResult,
    ConsumerRunningInfo,
    ConsumerStatus,
    PopProcessQueueInfo,
    ProcessQueueInfo,
)
from rocketmq_py.protocol.bodies.document import Document, MessageQueueKey
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from rocketmq_py.protocol.codes import MQVersion, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.groups import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
)
from rocketmq_py.protocol.message_codec import decode_record
from rocketmq_py.protocol.names import retry_topic
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.send_result import MessageQueue

if TYPE_CHECKING:
    from rocketmq_py.consumer.core.lane import Lane
    from rocketmq_py.consumer.core.member import Dispatch, GroupMember
    from rocketmq_py.consumer.listener import Listening

logger = get_logger(__name__)

_MIB: Final = 1 << 20


@define(eq=False, kw_only=True)
class Inspection:
    """Looks into one member of a group."""

    _group: str
    _settings: Any
    _offsets: OffsetTable
    _listening: Listening | None
    _clock: Clock
    _started_ms: int

    def answer(
        self, command: RemotingCommand, member: GroupMember[Dispatch]
    ) -> RemotingCommand | None:
        """Answer a broker's request; None for one that is not served."""
        fields = command.ext_fields
        told: Document
        match command.code:
            case RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
                header = GetConsumerStatusRequestHeader.from_ext(fields)
                told = self.status(member.lanes, header.topic)
            case RequestCode.GET_CONSUMER_RUNNING_INFO:
                with_stacks = GetConsumerRunningInfoRequestHeader.from_ext(fields).jstack_enable
                told = self.running_info(
                    member.lanes, member.subscriptions(), with_stacks=with_stacks
                )
            case RequestCode.CONSUME_MESSAGE_DIRECTLY if self._listening is not None:
                direct = ConsumeMessageDirectlyResultRequestHeader.from_ext(fields)
                told = self.consume(command.body, direct.broker_name or "", self._listening)
            case code:
                logger.warning("group %s: broker request %d is not served", self._group, code)
                return None
        return command.answer(ResponseCode.SUCCESS, body=told.encode())

    def status(self, lanes: Iterable[Lane], topic: str) -> ConsumerStatus:
        """Tell how far this consumer is in its queues of a topic (221)."""
        table = {
            _key(lane.queue): offset
            for lane in lanes
            if lane.queue.topic == topic and (offset := self._offsets.in_memory(lane.queue)) >= 0
        }
        return ConsumerStatus(message_queue_table=table)

    def running_info(
        self, lanes: Iterable[Lane], subscriptions: list[SubscriptionData], *, with_stacks: bool
    ) -> ConsumerRunningInfo:
        """Tell how this consumer is (307)."""
        settings, listening = self._settings, self._listening
        consume_type = "CONSUME_ACTIVELY" if listening is None else "CONSUME_PASSIVELY"
        lanes = list(lanes)
        popped = [lane for lane in lanes if lane.is_popped]
        pulled = [lane for lane in lanes if not lane.is_popped]
        return ConsumerRunningInfo(
            properties={
                "PROP_NAMESERVER_ADDR": settings.namesrv_addr or "",
                "PROP_CONSUME_TYPE": consume_type,
                "PROP_CONSUMEORDERLY": "true" if listening and listening.is_orderly else "false",
                "PROP_THREADPOOL_CORE_SIZE": str(getattr(settings, "consume_thread_min", 0)),
                "PROP_CLIENT_VERSION": MQVersion.V5_3_3.name,
                "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
                "consumerGroup": self._group,
                "messageModel": settings.message_model.value,
                "consumeFromWhere": settings.consume_from_where.value,
                "consumeThreadMin": str(getattr(settings, "consume_thread_min", 0)),
                "pullBatchSize": str(settings.pull_batch_size),
            },
            subscription_set=subscriptions,
            mq_table={_key(lane.queue): self._queue_info(lane) for lane in pulled},
            mq_pop_table={_key(lane.queue): _pop_info(lane) for lane in popped},
            jstack=_stacks() if with_stacks else None,
        )

    def _queue_info(self, lane: Lane) -> ProcessQueueInfo:
        head = lane.head()
        first = 0 if head is None else head.queue_offset
        return ProcessQueueInfo(
            commit_offset=max(0, self._offsets.in_memory(lane.queue)),
            cached_msg_min_offset=first,
            cached_msg_max_offset=0 if head is None else first + lane.max_span,
            cached_msg_count=lane.count,
            cached_msg_size_in_mi_b=lane.size // _MIB,
            droped=lane.dropped,
            last_pull_timestamp=_fetched_ms(lane),
        )

    def consume(self, body: bytes, broker_name: str, listening: Listening) -> ConsumeDirectlyResult:
        """Let the listener handle a stored message now, and say what came of it (309)."""
        body_size_max = self._settings.decompressed_body_max_bytes
        record = decode_record(body)
        message = MessageExt.from_record(record, broker_name, body_size_max=body_size_max)
        if message.topic == retry_topic(self._group):
            message.topic = message.properties.get(Prop.RETRY_TOPIC, message.topic)
        queue = MessageQueue(message.topic, broker_name, message.queue_id)
        began_ms = self._clock.now_ms
        result, remark = consume_directly(self._group, listening, message, queue)
        return ConsumeDirectlyResult(
            consume_result=result,
            remark=remark,
            spent_time_mills=max(0, self._clock.now_ms - began_ms),
        )


def _pop_info(lane: Lane) -> PopProcessQueueInfo:
    return PopProcessQueueInfo(
        wait_ack_count=lane.count, droped=lane.dropped, last_pop_timestamp=_fetched_ms(lane)
    )


def _fetched_ms(lane: Lane) -> int:
    return wall_ms() - int((monotonic() - lane.fetched_at) * 1000)


def _key(queue: MessageQueue) -> MessageQueueKey:
    return MessageQueueKey(queue.topic, queue.broker_name, queue.queue_id)


def _stacks() -> str:
    """Show what every thread of this process does."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()  # noqa: SLF001 - documented
    )

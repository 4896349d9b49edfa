"""What a consumer tells of itself, and does for once, when a broker asks: 221, 307 and 309.

``MQClientInstance.getConsumerStatus`` and ``consumerRunningInfo``, and
``ConsumeMessageConcurrentlyService.consumeMessageDirectly``: an administrator looks into a running
consumer, or lets it handle one message at once. Nothing here moves an offset. Must not know: who
asks. Read on: ``group_member.py``.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from attrs import define

from rocketmq_py.clock import Clock, monotonic, wall_ms
from rocketmq_py.consumer.listener import ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus
from rocketmq_py.consumer.offsets import OffsetStore
from rocketmq_py.logs import get_logger
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.bodies.consumption import (
    ConsumeDirectlyResult,
    ConsumerRunningInfo,
    ConsumerStatus,
    ProcessQueueInfo,
)
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from rocketmq_py.protocol.codes import MQVersion
from rocketmq_py.protocol.message_codec import decode_record
from rocketmq_py.protocol.names import retry_topic
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.send_result import MessageQueue

if TYPE_CHECKING:
    from rocketmq_py.consumer.listener import ConsumeFunction
    from rocketmq_py.consumer.process_queue import PullState
    from rocketmq_py.consumer.settings import PushConsumerConfig

logger = get_logger(__name__)

_RESULTS: Final = {
    ConsumeConcurrentlyStatus.CONSUME_SUCCESS: "CR_SUCCESS",
    ConsumeConcurrentlyStatus.RECONSUME_LATER: "CR_LATER",
    None: "CR_RETURN_NULL",
}
_MIB: Final = 1 << 20


@define(eq=False, kw_only=True)
class Inspection:
    """Looks into one member of a group."""

    _group: str
    _config: PushConsumerConfig
    _offsets: OffsetStore
    _consume: ConsumeFunction
    _clock: Clock
    _started_ms: int

    def status(self, states: Iterable[PullState], topic: str) -> ConsumerStatus:
        """Tell how far this consumer is in its queues of a topic (221)."""
        table = {
            _key(state.queue): offset
            for state in states
            if state.queue.topic == topic and (offset := self._offsets.in_memory(state.queue)) >= 0
        }
        return ConsumerStatus(message_queue_table=table)

    def running_info(
        self,
        states: Iterable[PullState],
        subscriptions: list[SubscriptionData],
        name_servers: str,
        *,
        with_stacks: bool,
    ) -> ConsumerRunningInfo:
        """Tell how this consumer is (307)."""
        config = self._config
        return ConsumerRunningInfo(
            properties={
                "PROP_NAMESERVER_ADDR": name_servers,
                "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
                "PROP_CONSUMEORDERLY": "false",
                "PROP_THREADPOOL_CORE_SIZE": str(config.consume_thread_min),
                "PROP_CLIENT_VERSION": MQVersion.V5_3_3.name,
                "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
                "consumerGroup": self._group,
                "messageModel": config.message_model.value,
                "consumeFromWhere": config.consume_from_where.value,
                "consumeThreadMin": str(config.consume_thread_min),
                "pullBatchSize": str(config.pull_batch_size),
            },
            subscription_set=subscriptions,
            mq_table={_key(state.queue): self._queue_info(state) for state in states},
            jstack=_stacks() if with_stacks else None,
        )

    def _queue_info(self, state: PullState) -> ProcessQueueInfo:
        queue = state.process_queue
        head = queue.head()
        first = 0 if head is None else head.queue_offset
        return ProcessQueueInfo(
            commit_offset=max(0, self._offsets.in_memory(state.queue)),
            cached_msg_min_offset=first,
            cached_msg_max_offset=0 if head is None else first + queue.max_span,
            cached_msg_count=queue.count,
            cached_msg_size_in_mi_b=queue.size // _MIB,
            droped=queue.dropped,
            last_pull_timestamp=wall_ms() - int((monotonic() - queue.last_pull) * 1000),
        )

    def consume(self, body: bytes, broker_name: str) -> ConsumeDirectlyResult:
        """Let the listener handle a stored message now, and say what came of it (309)."""
        body_size_max = self._config.decompressed_body_max_bytes
        record = decode_record(body)
        message = MessageExt.from_record(record, broker_name, body_size_max=body_size_max)
        if message.topic == retry_topic(self._group):
            message.topic = message.properties.get(Prop.RETRY_TOPIC, message.topic)
        queue = MessageQueue(message.topic, broker_name, message.queue_id)
        began_ms = self._clock.now_ms
        remark = None
        try:
            status = self._consume([message], ConsumeConcurrentlyContext(queue))
            result = _RESULTS.get(status, "CR_RETURN_NULL")
        except Exception as error:
            logger.exception("group %s: the listener failed for %s", self._group, message.msg_id)
            result, remark = "CR_THROW_EXCEPTION", f"{type(error).__name__}: {error}"
        return ConsumeDirectlyResult(
            consume_result=result,
            remark=remark,
            spent_time_mills=max(0, self._clock.now_ms - began_ms),
        )


def _key(queue: MessageQueue) -> MessageQueueKey:
    return MessageQueueKey(queue.topic, queue.broker_name, queue.queue_id)


def _stacks() -> str:
    """Show what every thread of this process does."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()  # noqa: SLF001 - documented
    )

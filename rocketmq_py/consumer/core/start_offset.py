"""Where fetching of a fresh queue begins.

Facts: `RebalancePushImpl.computePullFromWhere`.
"""

from datetime import datetime
from typing import Protocol

from rocketmq_py.clock import Clock
from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.core.offset_table import OffsetTable
from rocketmq_py.consumer.listener import ConsumeFromWhere
from rocketmq_py.consumer.settings import parse_instant
from rocketmq_py.errors import MQClientException
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.send_result import MessageQueue

TIMESTAMP_DEFAULT_MS = 30 * 60 * 1000
"""CONSUME_FROM_TIMESTAMP without a timestamp: this long before now."""


class StartSettings(Protocol):
    """The settings that say where a group without an offset begins; see `PushConsumerConfig`."""

    consume_from_where: ConsumeFromWhere
    consume_timestamp: str | datetime


def first_offset(
    queue: MessageQueue,
    *,
    offsets: OffsetTable,
    calls: ConsumerCalls,
    settings: StartSettings,
    clock: Clock,
) -> int:
    """Where pulling of a fresh queue begins.

    A stored offset always wins. Without one: LAST and the legacy names begin at the end, FIRST at
    0, TIMESTAMP at the first message stored since then; the retry topic begins at 0 (TIMESTAMP:
    at its end). Raises RocketMQError when a broker does not answer; the caller tries again.
    """
    stored = offsets.load(queue)
    if stored is not None:
        return stored
    retry = is_retry_topic(queue.topic)
    match settings.consume_from_where:
        case ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
            offset = 0
        case ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
            offset = (
                calls.max_offset(queue)
                if retry
                else calls.search_offset(
                    queue, _timestamp_ms(settings.consume_timestamp, clock), None
                )
            )
        case _:
            offset = 0 if retry else calls.max_offset(queue)
    if offset < 0:
        raise MQClientException(f"broker gave offset {offset} for {queue}", topic=queue.topic)
    return offset


def _timestamp_ms(setting: str | datetime, clock: Clock) -> int:
    if setting == "":
        return clock.now_ms - TIMESTAMP_DEFAULT_MS
    instant = parse_instant(setting) if isinstance(setting, str) else setting
    return int(instant.timestamp() * 1000)

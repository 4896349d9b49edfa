"""Put results: what a producer is told when the store did not simply accept a message.

RocketMQ's SendMessageProcessor.handlePutMessageResult as a table: store status to reason. The first
four mean that the message is stored. A store or hook that refuses says why in its own remark; the
sentences here stand in when it says nothing. Every sentence names value, limit and setting where
there are any.
"""

from collections.abc import Callable, Mapping
from typing import Final

from embedded_broker.core.refusals import Reason
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.put_values import PutResult, PutStatus
from rocketmq_py.protocol.properties import PROPERTIES_SIZE_MAX

Sentence = str | Callable[[BrokerConfig], str] | None
"""What is said when the store gave no remark."""


def _illegal(config: BrokerConfig) -> str:
    return (
        "the message is illegal: the limits are "
        f"maxMessageSize={config.int('maxMessageSize')} bytes for the body and "
        f"{PROPERTIES_SIZE_MAX} bytes for the properties, those of the broker included"
    )


def _timer_illegal(config: BrokerConfig) -> str:
    limit_ms = config.int("timerMaxDelaySec") * 1000
    return (
        f"timer message illegal: the delay must be a number of at most {limit_ms} ms "
        "(timerMaxDelaySec), and a delete mark needs a time in the future"
    )


def _timer_congested(config: BrokerConfig) -> str:
    limit = config.int("timerCongestNumEachSlot")
    return (
        f"timer message is under flow control: a slot takes at most {2 * limit} messages, and "
        f"between {limit} and {2 * limit} (timerCongestNumEachSlot) some are refused at random"
    )


def _timer_off(config: BrokerConfig) -> str:
    value = str(config.flag("timerWheelEnable")).lower()
    return f"accurate timer message is not enabled, timerWheelEnable is {value}"


MEANINGS: Final[Mapping[PutStatus, tuple[Reason | None, Sentence]]] = {
    PutStatus.PUT_OK: (None, None),
    PutStatus.FLUSH_DISK_TIMEOUT: (Reason.FLUSH_DISK_TIMEOUT, None),
    PutStatus.FLUSH_SLAVE_TIMEOUT: (Reason.FLUSH_SLAVE_TIMEOUT, None),
    PutStatus.SLAVE_NOT_AVAILABLE: (Reason.SLAVE_NOT_AVAILABLE, None),
    PutStatus.MESSAGE_ILLEGAL: (Reason.MESSAGE_ILLEGAL, _illegal),
    PutStatus.PROPERTIES_SIZE_EXCEEDED: (Reason.MESSAGE_ILLEGAL, _illegal),
    PutStatus.WHEEL_TIMER_MSG_ILLEGAL: (Reason.MESSAGE_ILLEGAL, _timer_illegal),
    PutStatus.WHEEL_TIMER_FLOW_CONTROL: (Reason.FAILED, _timer_congested),
    PutStatus.WHEEL_TIMER_NOT_ENABLE: (Reason.FAILED, _timer_off),
    PutStatus.SERVICE_NOT_AVAILABLE: (
        Reason.SERVICE_NOT_AVAILABLE,
        "service not available now: the store is full, closed or not writable",
    ),
    PutStatus.OS_PAGE_CACHE_BUSY: (
        Reason.BUSY,
        "[PC_SYNCHRONIZED]broker busy, start flow control for a while",
    ),
    PutStatus.CREATE_MAPPED_FILE_FAILED: (
        Reason.FAILED,
        "create mapped file failed, server is busy or broken.",
    ),
    PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH: (Reason.FAILED, "in-sync replicas not enough"),
    PutStatus.UNKNOWN_ERROR: (Reason.FAILED, "UNKNOWN_ERROR"),
}


def reason_of(result: PutResult, config: BrokerConfig) -> tuple[Reason | None, str | None]:
    """Give reason and remark of a put; the store's own remark goes before the table's sentence."""
    reason, sentence = MEANINGS.get(result.status, (Reason.FAILED, "UNKNOWN_ERROR DEFAULT"))
    if callable(sentence):
        sentence = sentence(config)
    return reason, result.remark or sentence

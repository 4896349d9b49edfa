"""What a producer is told when the store did not simply accept a message.

RocketMQ's SendMessageProcessor.handlePutMessageResult as a table: store status to reason. The first
four mean that the message is stored. A store or hook that refuses says why in its own remark; the
sentences here stand in when it says nothing. Every sentence names value, limit and setting where
there are any.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from embedded_broker.core.refusals import Reason
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.inner import PutResult, PutStatus
from rocketmq_py.protocol.properties import PROPERTIES_SIZE_MAX

STORED: Final = frozenset(
    {
        PutStatus.PUT_OK,
        PutStatus.FLUSH_DISK_TIMEOUT,
        PutStatus.FLUSH_SLAVE_TIMEOUT,
        PutStatus.SLAVE_NOT_AVAILABLE,
    }
)


class Meaning(NamedTuple):
    """What one store status means, and the sentence when the store gave none."""

    reason: Reason | None
    sentence: Callable[[BrokerConfig], str | None]


def _silent(_config: BrokerConfig) -> None:
    return None


def _says(text: str) -> Callable[[BrokerConfig], str]:
    return lambda _config: text


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


MEANINGS: Final[Mapping[PutStatus, Meaning]] = {
    PutStatus.PUT_OK: Meaning(None, _silent),
    PutStatus.FLUSH_DISK_TIMEOUT: Meaning(Reason.FLUSH_DISK_TIMEOUT, _silent),
    PutStatus.FLUSH_SLAVE_TIMEOUT: Meaning(Reason.FLUSH_SLAVE_TIMEOUT, _silent),
    PutStatus.SLAVE_NOT_AVAILABLE: Meaning(Reason.SLAVE_NOT_AVAILABLE, _silent),
    PutStatus.MESSAGE_ILLEGAL: Meaning(Reason.MESSAGE_ILLEGAL, _illegal),
    PutStatus.PROPERTIES_SIZE_EXCEEDED: Meaning(Reason.MESSAGE_ILLEGAL, _illegal),
    PutStatus.WHEEL_TIMER_MSG_ILLEGAL: Meaning(Reason.MESSAGE_ILLEGAL, _timer_illegal),
    PutStatus.WHEEL_TIMER_FLOW_CONTROL: Meaning(Reason.FAILED, _timer_congested),
    PutStatus.WHEEL_TIMER_NOT_ENABLE: Meaning(Reason.FAILED, _timer_off),
    PutStatus.SERVICE_NOT_AVAILABLE: Meaning(
        Reason.SERVICE_NOT_AVAILABLE,
        _says("service not available now: the store is full, closed or not writable"),
    ),
    PutStatus.OS_PAGE_CACHE_BUSY: Meaning(
        Reason.BUSY,
        _says("[PC_SYNCHRONIZED]broker busy, start flow control for a while"),
    ),
    PutStatus.CREATE_MAPPED_FILE_FAILED: Meaning(
        Reason.FAILED, _says("create mapped file failed, server is busy or broken.")
    ),
    PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH: Meaning(
        Reason.FAILED, _says("in-sync replicas not enough")
    ),
    PutStatus.UNKNOWN_ERROR: Meaning(Reason.FAILED, _says("UNKNOWN_ERROR")),
}

_OTHER: Final = Meaning(Reason.FAILED, _says("UNKNOWN_ERROR DEFAULT"))


def reason_of(result: PutResult, config: BrokerConfig) -> tuple[Reason | None, str | None]:
    """Give reason and remark of a put; the store's own remark goes before the table's sentence."""
    meaning = MEANINGS.get(result.status, _OTHER)
    return meaning.reason, result.remark or meaning.sentence(config)

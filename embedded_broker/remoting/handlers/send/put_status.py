"""What a producer hears when the store did not simply say yes.

RocketMQ's SendMessageProcessor.handlePutMessageResult as a table: store status to response code.
The first four codes mean that the message is stored. A store or hook that refuses says why in its
own remark; the sentences here stand in when it says nothing. Every sentence names value, limit
and setting where there are any.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.inner import PutResult, PutStatus
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.properties import PROPERTIES_SIZE_MAX

STORED: Final = frozenset(
    {
        PutStatus.PUT_OK,
        PutStatus.FLUSH_DISK_TIMEOUT,
        PutStatus.FLUSH_SLAVE_TIMEOUT,
        PutStatus.SLAVE_NOT_AVAILABLE,
    }
)


class Outcome(NamedTuple):
    """The code for one store status, and the sentence when the store gave none."""

    code: ResponseCode
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


OUTCOMES: Final[Mapping[PutStatus, Outcome]] = {
    PutStatus.PUT_OK: Outcome(ResponseCode.SUCCESS, _silent),
    PutStatus.FLUSH_DISK_TIMEOUT: Outcome(ResponseCode.FLUSH_DISK_TIMEOUT, _silent),
    PutStatus.FLUSH_SLAVE_TIMEOUT: Outcome(ResponseCode.FLUSH_SLAVE_TIMEOUT, _silent),
    PutStatus.SLAVE_NOT_AVAILABLE: Outcome(ResponseCode.SLAVE_NOT_AVAILABLE, _silent),
    PutStatus.MESSAGE_ILLEGAL: Outcome(ResponseCode.MESSAGE_ILLEGAL, _illegal),
    PutStatus.PROPERTIES_SIZE_EXCEEDED: Outcome(ResponseCode.MESSAGE_ILLEGAL, _illegal),
    PutStatus.WHEEL_TIMER_MSG_ILLEGAL: Outcome(ResponseCode.MESSAGE_ILLEGAL, _timer_illegal),
    PutStatus.WHEEL_TIMER_FLOW_CONTROL: Outcome(ResponseCode.SYSTEM_ERROR, _timer_congested),
    PutStatus.WHEEL_TIMER_NOT_ENABLE: Outcome(ResponseCode.SYSTEM_ERROR, _timer_off),
    PutStatus.SERVICE_NOT_AVAILABLE: Outcome(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        _says("service not available now: the store is full, closed or not writable"),
    ),
    PutStatus.OS_PAGE_CACHE_BUSY: Outcome(
        ResponseCode.SYSTEM_BUSY,
        _says("[PC_SYNCHRONIZED]broker busy, start flow control for a while"),
    ),
    PutStatus.CREATE_MAPPED_FILE_FAILED: Outcome(
        ResponseCode.SYSTEM_ERROR, _says("create mapped file failed, server is busy or broken.")
    ),
    PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH: Outcome(
        ResponseCode.SYSTEM_ERROR, _says("in-sync replicas not enough")
    ),
    PutStatus.UNKNOWN_ERROR: Outcome(ResponseCode.SYSTEM_ERROR, _says("UNKNOWN_ERROR")),
}

_OTHER: Final = Outcome(ResponseCode.SYSTEM_ERROR, _says("UNKNOWN_ERROR DEFAULT"))


def outcome_of(result: PutResult, config: BrokerConfig) -> tuple[ResponseCode, str | None]:
    """Give code and remark for a put; the store's own remark goes before the table's sentence."""
    outcome = OUTCOMES.get(result.status, _OTHER)
    return outcome.code, result.remark or outcome.sentence(config)

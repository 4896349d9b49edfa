"""Which error a server's refusal becomes, with the sentence that says what to do next.

Section "errors" of the client API: code, remark and what was asked decide the class. Must not know
who asked. The classes are in ``errors.py``.
"""

import re
from collections.abc import Iterable, Mapping

from rocketmq_py.errors import (
    DelayOutOfRangeError,
    DelayValueError,
    FlowControlError,
    InvalidDelayError,
    MQBrokerException,
    PermissionDeniedError,
    TopicNotExistError,
)
from rocketmq_py.protocol import delay
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.command import RemotingCommand

_CONGESTED = (
    "Too many messages are due at this time: choose another time, or raise "
    "timerCongestNumEachSlot at the broker"
)
_NOTHING: Mapping[str, str] = {}

_WRONG_TYPE = re.compile(r"(?:this one is of type|but actual type is) (\w+)")
"""How servers that check ``message.type`` name the type of the message that they refuse."""

_DELAY_TOO_LONG = ("timer message illegal", "delay time")
"""Words of brokers and proxies for a delay that they do not take; no topic name has blanks."""

_NO_QUEUE = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.INVALID_PARAMETER,  # a number that the topic does not have
        ResponseCode.NOT_LEADER_FOR_QUEUE,
    }
)
_NO_QUEUE_4X = "queueid["
"""What brokers of 4.x say of such a number, with the code of any failure."""

_LIMITS = ("timerMaxDelaySec at the broker", "maxDelayTimeMills at the proxy")
"""Settings that limit delays; a remark may name one."""


def is_refusal(answer: RemotingCommand) -> bool:
    """Whether an answer says that account or signature are not accepted, or may not do this.

    5.x brokers answer 16; 4.x ones 1 with the name of an exception in the remark.
    """
    if answer.code == ResponseCode.SYSTEM_ERROR:
        remark = (answer.remark or "").lower()
        return "aclexception" in remark or "signature" in remark
    return answer.code == ResponseCode.NO_PERMISSION


def lacks_queue(error: BaseException | None) -> bool:
    """Whether a broker says that it does not have the queue, so that a newer route may help."""
    return isinstance(error, MQBrokerException) and _says_no_queue(error.code, error.remark)


def answers_lack_queue(answers: Iterable[object]) -> bool:
    """Whether one of these is an answer that says so."""
    return any(
        isinstance(one, RemotingCommand) and one.code and _says_no_queue(one.code, one.remark)
        for one in answers
    )


def _says_no_queue(code: int, remark: str | None) -> bool:
    if code == ResponseCode.SYSTEM_ERROR:
        return _NO_QUEUE_4X in (remark or "").lower()
    return code in _NO_QUEUE


def broker_error(
    answer: RemotingCommand,
    address: str | None,
    *,
    topic: str | None = None,
    properties: Mapping[str, str] = _NOTHING,
    attempt: int | None = None,
    elapsed_ms: int | None = None,
) -> MQBrokerException:
    """Build the error of a refusal; ``properties`` are those of the refused message."""
    kind, advice = _kind_of(answer, properties)
    return kind(
        answer.code,
        answer.remark,
        address,
        topic=topic,
        attempt=attempt,
        elapsed_ms=elapsed_ms,
        advice=advice,
    )


def _kind_of(
    answer: RemotingCommand, properties: Mapping[str, str]
) -> tuple[type[MQBrokerException], str]:
    code = answer.code
    remark = (answer.remark or "").lower()
    if code == ResponseCode.MESSAGE_ILLEGAL:
        wrong_type = _WRONG_TYPE.search(answer.remark or "")
        if wrong_type is not None:
            return MQBrokerException, (
                f"Send it to a topic of type {wrong_type[1]} (attribute message.type), or of type "
                "MIXED"
            )
        return _illegal(remark, properties)
    if code in {ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL}:
        return FlowControlError, "The broker is overloaded: send again later, or more slowly"
    if code == ResponseCode.SYSTEM_ERROR and delay.has_delay(properties):
        if "flow control" in remark or "congest" in remark:
            return FlowControlError, _CONGESTED
        if "not enable" in remark or "disabled" in remark:
            return MQBrokerException, "Switch on timerWheelEnable at the broker"
    if is_refusal(answer):
        if code == ResponseCode.SYSTEM_ERROR:
            advice = "Check access key, secret key and the account's permissions"
        else:
            advice = "Check the permissions of broker, topic and account, and the credentials"
        return PermissionDeniedError, advice
    if code == ResponseCode.TOPIC_NOT_EXIST:
        return TopicNotExistError, "Create the topic, or switch on autoCreateTopicEnable"
    return MQBrokerException, ""


def _illegal(remark: str, properties: Mapping[str, str]) -> tuple[type[MQBrokerException], str]:
    if not delay.has_delay(properties):
        return MQBrokerException, "Check topic, body and properties against the broker's limits"
    try:
        asked = delay.effective_delay(properties)
    except DelayValueError as error:
        return InvalidDelayError, f"Correct the delay: {error}"
    if asked is not None and any(words in remark for words in _DELAY_TOO_LONG):
        named = [limit for limit in _LIMITS if limit.partition(" ")[0].lower() in remark]
        advice = (
            f"{asked.kind.value}={asked.value} is beyond the server's limit: choose a shorter "
            f"delay, or raise {' or '.join(named or _LIMITS)}"
        )
        return DelayOutOfRangeError, advice
    return MQBrokerException, "Check body and properties against the broker's limits"

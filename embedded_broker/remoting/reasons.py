"""The response codes in which this wire tells why the broker refused.

Answers: RocketMQ's number for each reason. Must not know: requests, remarks.
"""

from typing import Final

from embedded_broker.core.refusals import Reason
from embedded_broker.settings.profiles import Profile
from rocketmq_py.protocol.codes import ResponseCode

__all__ = ["code_for"]

_CODES: Final = {
    Reason.FAILED: ResponseCode.SYSTEM_ERROR,
    Reason.BUSY: ResponseCode.SYSTEM_BUSY,
    Reason.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    Reason.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    Reason.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    Reason.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    Reason.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    Reason.ILLEGAL_OPERATION: ResponseCode.ILLEGAL_OPERATION,
    Reason.NO_PERMISSION: ResponseCode.NO_PERMISSION,
    Reason.TOPIC_NOT_EXIST: ResponseCode.TOPIC_NOT_EXIST,
    Reason.GROUP_NOT_EXIST: ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    Reason.SUBSCRIPTION_NOT_EXIST: ResponseCode.SUBSCRIPTION_NOT_EXIST,
    Reason.SUBSCRIPTION_NOT_LATEST: ResponseCode.SUBSCRIPTION_NOT_LATEST,
    Reason.SUBSCRIPTION_PARSE_FAILED: ResponseCode.SUBSCRIPTION_PARSE_FAILED,
    Reason.NOT_FOUND: ResponseCode.QUERY_NOT_FOUND,
    Reason.CONSUMER_NOT_ONLINE: ResponseCode.CONSUMER_NOT_ONLINE,
}


def code_for(reason: Reason, profile: Profile) -> int:
    """Give the response code of a reason; a bad parameter has another one in 4.9."""
    if reason is Reason.INVALID_PARAMETER:
        return profile.invalid_parameter
    return _CODES[reason]

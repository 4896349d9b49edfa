"""Refusals: why the broker does not do what it is asked to.

Answers: the reasons that every wire can tell, and the sentence with value, limit and setting. Must
not know: the numbers and headers in which a wire says so. Read on:
``embedded_broker/remoting/code_meanings.py`` for RocketMQ's codes.
"""

from enum import Enum, auto
from typing import Final

OVERLOAD: Final = "[OVERLOAD]system busy, start flow control for a while"
"""How a remark begins when too much waits, as after ``NettyRemotingAbstract``."""


class Reason(Enum):
    """The kinds of refusals; names as in RocketMQ's ``ResponseCode`` where it has one."""

    FAILED = auto()
    BUSY = auto()
    FLUSH_DISK_TIMEOUT = auto()
    FLUSH_SLAVE_TIMEOUT = auto()
    SLAVE_NOT_AVAILABLE = auto()
    SERVICE_NOT_AVAILABLE = auto()
    MESSAGE_ILLEGAL = auto()
    INVALID_PARAMETER = auto()
    ILLEGAL_OPERATION = auto()
    NO_PERMISSION = auto()
    TOPIC_NOT_EXIST = auto()
    GROUP_NOT_EXIST = auto()
    SUBSCRIPTION_NOT_EXIST = auto()
    SUBSCRIPTION_NOT_LATEST = auto()
    SUBSCRIPTION_PARSE_FAILED = auto()
    FILTER_DATA_NOT_EXIST = auto()
    FILTER_DATA_NOT_LATEST = auto()
    NOT_FOUND = auto()
    NO_MESSAGE = auto()
    CONSUMER_NOT_ONLINE = auto()
    CONSUME_MSG_TIMEOUT = auto()


class Refused(Exception):  # noqa: N818 - the broker says no; nothing is wrong with it
    """Nothing was done; ``remark`` names value, limit and setting."""

    def __init__(self, reason: Reason, remark: str) -> None:
        super().__init__(remark)
        self.reason = reason
        self.remark = remark

"""Errors of the HTTP face: problem+json (RFC 9457).

Answers: which status an error of the broker has, and its text with value, limit and setting as
members of their own. Must not know: which operation was asked for. Read on: ``app.py``.
"""

from typing import Any, Final

from embedded_broker.control.answers import to_json
from embedded_broker.errors import (
    BrokerStateError,
    ClockError,
    FaultNotUsedError,
    StoreError,
    TimerNotPending,
    WaitTimeoutError,
)
from rocketmq_py.errors import BodyTooLargeError, MQBrokerException, RocketMQError
from rocketmq_py.logs import get_logger

logger = get_logger(__name__)

PROBLEM_TYPE: Final = "application/problem+json"
STATUSES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (TimerNotPending, 409),
    (LookupError, 404),
    (WaitTimeoutError, 504),
    (ClockError, 409),
    (BrokerStateError, 409),
    (FaultNotUsedError, 409),
    (StoreError, 500),
    (MQBrokerException, 422),
    (BodyTooLargeError, 422),
    (RocketMQError, 400),
    (TypeError, 400),
)
"""The first line that fits decides."""
TITLES: Final = {KeyError: "NotFound", TypeError: "WrongType"}
"""What errors of Python are called here; those of the broker have their own names."""
MEMBERS: Final = ("setting", "value", "limit", "code", "remark", "busy")
"""What errors carry besides their text."""


def problem(status: int, title: str, detail: str, **members: object) -> dict[str, Any]:
    """Give a problem as JSON."""
    told: dict[str, Any] = {"type": "about:blank", "title": title, "status": status}
    return {**told, "detail": detail, **members}


def problem_of(error: Exception) -> dict[str, Any]:
    """Give what a caller is told of an error; one that nobody foresaw is logged, too."""
    status = next((status for kind, status in STATUSES if isinstance(error, kind)), 500)
    if status == 500 and not isinstance(error, StoreError):
        logger.error("control_failed", exc_info=error)
    # str() of a KeyError is its text in quotation marks
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    members = {name: _plain(getattr(error, name)) for name in MEMBERS if hasattr(error, name)}
    title = TITLES.get(type(error), type(error).__name__)
    return problem(status, title, text, **members)


def _plain(value: object) -> object:
    try:
        return to_json(value)
    except TypeError:
        return repr(value)

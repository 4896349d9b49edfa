"""Store statuses as answers."""

from __future__ import annotations

import pytest

from embedded_broker.core.put_reasons import MEANINGS, reason_of
from embedded_broker.core.refusals import Reason
from embedded_broker.remoting.code_meanings import code_for
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.profiles import PROFILES
from embedded_broker.store.put_values import PutResult, PutStatus
from rocketmq_py.protocol.codes import SEND_RESPONSE_STORED


def code_of(reason: Reason | None) -> int:
    """The number in which RocketMQ's wire tells a reason."""
    return 0 if reason is None else code_for(reason, PROFILES["rocketmq-5.x"])


@pytest.mark.case("W49")
@pytest.mark.parametrize("status", list(PutStatus))
def test_a_stored_message_is_answered_with_a_code_that_says_so(status: PutStatus) -> None:
    reason, remark = reason_of(PutResult(status), BrokerConfig())
    assert (code_of(reason) in SEND_RESPONSE_STORED) == status.is_stored
    assert (remark is None) == status.is_stored


@pytest.mark.parametrize(
    ("status", "code", "pieces"),
    [
        (PutStatus.MESSAGE_ILLEGAL, 13, ("4194304", "maxMessageSize", "32767")),
        (PutStatus.PROPERTIES_SIZE_EXCEEDED, 13, ("32767",)),
        (PutStatus.WHEEL_TIMER_MSG_ILLEGAL, 13, ("259200000", "timerMaxDelaySec", "future")),
        (PutStatus.WHEEL_TIMER_FLOW_CONTROL, 1, ("4294967294", "2147483647")),
        (PutStatus.WHEEL_TIMER_NOT_ENABLE, 1, ("timerWheelEnable is true",)),
        (PutStatus.SERVICE_NOT_AVAILABLE, 14, ("not available",)),
        (PutStatus.OS_PAGE_CACHE_BUSY, 2, ("[PC_SYNCHRONIZED]",)),
        (PutStatus.PUT_TO_REMOTE_BROKER_FAIL, 1, ("UNKNOWN_ERROR DEFAULT",)),
    ],
)
def test_a_refusal_names_limit_and_setting(
    status: PutStatus, code: int, pieces: tuple[str, ...]
) -> None:
    reason, remark = reason_of(PutResult(status), BrokerConfig())
    assert code_of(reason) == code
    assert all(piece in (remark or "") for piece in pieces)


def test_the_reason_of_the_store_goes_first() -> None:
    refused = PutResult(PutStatus.MESSAGE_ILLEGAL, remark="the body has 5 bytes")
    expected = (Reason.MESSAGE_ILLEGAL, "the body has 5 bytes")
    assert reason_of(refused, BrokerConfig()) == expected


def test_every_status_that_means_stored_has_a_row() -> None:
    assert all(status in MEANINGS for status in PutStatus if status.is_stored)

"""A short soak with each kind of fault, and what a ledger says of a broken promise."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rocketmq_py import MessageQueue, SendFailedError, SendResult, SendStatus, SendTimeoutError
from tests.pages import ROOT
from tests.soak.ledger import REFUSALS_MAX, Ledger

MINUTES, SEED = 1.0, 2
STORED = SendResult(
    send_status=SendStatus.SEND_OK,
    msg_id="ID",
    offset_msg_id="OFFSET",
    message_queue=MessageQueue("Soak", "broker-b", 3),
    queue_offset=7,
)


@pytest.mark.timeout(240)
def test_clients_keep_their_promises_under_each_kind_of_fault() -> None:
    """In a process that has done nothing else: its threads and its memory are measured."""
    command = [sys.executable, "-m", "tests.soak", "--minutes", str(MINUTES), "--seed", str(SEED)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_message_that_was_acknowledged_and_did_not_come_is_told_with_its_place() -> None:
    ledger = Ledger()
    lost, came, came_first = (ledger.sending(0.0) for _ in range(3))
    ledger.came(came_first)
    for number in (lost, came, came_first):
        ledger.stored(number, STORED)
    ledger.came(came)
    (told,) = ledger.missing(ledger.now)
    assert told.startswith(f"message {lost}, sent at ")
    assert "ID acknowledged at" in told
    assert "broker-b queue 3 offset 7: did not come" in told
    assert ledger.wrong == []


def test_a_delayed_message_is_not_missing_before_its_time_and_must_not_come_then() -> None:
    ledger = Ledger()
    number = ledger.sending(3600.0)
    ledger.stored(number, STORED)
    assert ledger.missing(ledger.now) == []
    assert len(ledger.missing(ledger.now + 3600.0)) == 1
    ledger.came(number)
    assert "came early" in ledger.wrong[0]


@pytest.mark.parametrize("possibly", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_only_a_message_that_no_broker_can_have_must_not_come(
    *, possibly: bool, before: bool
) -> None:
    ledger = Ledger()
    number = ledger.sending(0.0)
    error = SendFailedError("on purpose")
    error.possibly_stored = possibly
    if before:
        ledger.came(number)
    ledger.failed(number, error)
    if not before:
        ledger.came(number)
    assert len(ledger.wrong) == (0 if possibly else 1)
    assert all("on purpose: came all the same" in line for line in ledger.wrong)
    assert ledger.missing(ledger.now) == []


def test_refusals_are_told_in_full_once_and_time_outs_are_not() -> None:
    ledger = Ledger()
    stored = SendFailedError("perhaps")
    stored.possibly_stored = True
    for error in (SendFailedError("refused " * 100), SendTimeoutError("too late"), stored):
        ledger.failed(ledger.sending(0.0), error)
    (told,) = ledger.refusals()
    assert told.startswith("message 1, sent at ")
    assert "SendFailedError at " in told
    assert "refused " * 100 in told
    assert ledger.refusals() == []
    for _ in range(REFUSALS_MAX + 5):
        ledger.failed(ledger.sending(0.0), SendFailedError("refused"))
    assert len(ledger.refusals()) == REFUSALS_MAX

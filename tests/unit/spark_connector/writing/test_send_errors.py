"""Which failures of a send are tried again, when, and what is said about them."""

from __future__ import annotations

import pickle

import pytest

from rocketmq_py import (
    MessageQueue,
    MQBrokerException,
    MQClientException,
    NoRouteError,
    RemotingException,
    SendStatus,
)
from rocketmq_py.raw import RawSend
from spark_connector.errors import InvalidRowError, WeaklyStoredError
from spark_connector.options.write_options import write_options
from spark_connector.writing.send_errors import (
    Patience,
    explained,
    given_up,
    is_permanent,
    plain,
    weakness_of,
)

QUEUE = MessageQueue("T", "broker-a", 0)


def test_pauses_double_until_the_deadline_whose_moment_has_the_last_try() -> None:
    patience = Patience(retries=2, deadline_s=10.0)
    tries, now = [0.0], 0.0
    while (again := patience.next_try(len(tries), 0.0, tries[-1], now)) is not None:
        tries.append(now := again)
    assert tries == pytest.approx([0.0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3, 9.5, 10.0])


def test_tries_that_are_asked_for_are_made_even_after_the_deadline() -> None:
    patience = Patience(retries=2, deadline_s=10.0)
    assert patience.next_try(2, first_at=0.0, last_at=20.0, now=23.0) == pytest.approx(20.2)
    assert patience.next_try(3, first_at=0.0, last_at=23.0, now=26.0) is None


def test_an_error_that_does_not_look_like_a_restart_has_no_deadline() -> None:
    patience = Patience(retries=1, deadline_s=10.0)
    assert patience.next_try(1, 0.0, 0.0, 0.0, lasting=False) == pytest.approx(0.1)
    assert patience.next_try(2, 0.0, 0.1, 0.1, lasting=False) is None


def test_no_deadline_leaves_only_the_tries_that_are_asked_for() -> None:
    options = write_options(
        {"nameServer": "h:1", "topic": "T", "sendRetries": "1", "sendDeadlineMs": "0"},
        streaming=False,
    )
    patience = Patience.of(options)
    assert patience.next_try(1, 5.0, 5.0, 5.0) == pytest.approx(5.1)
    assert patience.next_try(2, 5.0, 5.1, 5.1) is None


def test_a_write_has_two_minutes_unless_it_is_told_otherwise() -> None:
    options = write_options({"nameServer": "h:1", "topic": "T"}, streaming=False)
    assert Patience.of(options) == Patience(retries=2, deadline_s=120.0)


@pytest.mark.parametrize("status", [one for one in SendStatus if one is not SendStatus.SEND_OK])
def test_every_weak_status_is_permanent_and_says_that_the_message_is_stored(
    status: SendStatus,
) -> None:
    error = weakness_of(RawSend(status, QUEUE, 0, ""))
    assert isinstance(error, WeaklyStoredError)
    assert is_permanent(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - made here
    assert f"broker-a says {status.name} for topic T: the message IS stored" in str(error)


def test_the_status_that_is_wanted_is_no_error() -> None:
    assert weakness_of(RawSend(SendStatus.SEND_OK, QUEUE, 0, "")) is None


def test_what_is_about_now_is_not_permanent() -> None:
    assert not is_permanent(MQBrokerException(2, "busy", "b:1"))
    assert not is_permanent(RemotingException("closed"))
    assert is_permanent(NoRouteError("no route"))
    assert is_permanent(MQBrokerException(13, "illegal", "b:1"))


def test_illegal_rows_with_a_delay_get_the_name_of_an_option() -> None:
    refused = MQBrokerException(13, "illegal", "b:1")
    plain_rows = explained(refused, "T", 3, "KEYS\x01k\x02")
    assert isinstance(plain_rows, InvalidRowError)
    assert "refuses 3 rows of topic T for good" in str(plain_rows)
    assert "maxDelayMs" not in str(plain_rows)
    assert "maxDelayMs" in str(explained(refused, "T", 1, "TIMER_DELAY_MS\x015\x02"))
    busy = MQBrokerException(2, "busy", "b:1")
    assert explained(busy, "T", 1, "") is busy


def test_giving_up_says_how_often_how_long_why_and_what_to_set() -> None:
    error = given_up("topic T", "T", 4, 1.25, RemotingException("closed"))
    assert isinstance(error, MQClientException)
    assert "topic T: not stored after 4 tries in 1.2 s: closed" in str(error)
    assert "sendDeadlineMs" in str(error)


def test_an_error_goes_to_the_driver_without_its_chain() -> None:
    caused = RemotingException("closed")
    caused.__cause__ = caused.__context__ = KeyError("hidden")
    alone = plain(caused)
    assert (alone.__cause__, alone.__context__, alone.__traceback__) == (None, None, None)
    assert str(plain(ValueError("other"))) == "other"

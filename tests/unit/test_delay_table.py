"""The tutorial's table of delays that will not be kept: each cell is what a producer does."""

from __future__ import annotations

import logging
import re
from datetime import timedelta

import pytest

from compat.ons import Message as ONSMessage
from compat.ons import ONSFactory
from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import DefaultMQProducer, DelayPolicy, Message, RocketMQError
from tests.pages import ROOT

HEAD = "| what is asked | for example | `strict` | `warn` | `as_java` |"
POLICIES: tuple[DelayPolicy, ...] = ("strict", "warn", "as_java")
UNITS = {"s": "seconds", "h": "hours"}
MILLISECOND = timedelta(milliseconds=1)


def rows() -> list[list[str]]:
    _, found, after = (ROOT / "TUTORIAL.md").read_text(encoding="utf-8").partition(HEAD)
    assert found
    lines = after.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


ROWS = rows()


def properties(**given: str) -> Message:
    return Message("T", b"x", properties=given)


def asked(example: str, now_ms: int) -> Message:
    names = {"m": Message("T", b"x"), "properties": properties, "timedelta": timedelta}
    made = eval(example, {**names, "now": now_ms})  # noqa: S307 - our own page
    assert isinstance(made, Message)
    return made


def arrival(broker: EmbeddedBroker, wait: timedelta) -> str:
    """Say when the one message that was sent arrives, if it is after this time."""
    arrived = broker.topics["T"]
    if arrived.count():
        return "at once"
    broker.clock.advance(wait - MILLISECOND)
    early = arrived.count()
    broker.clock.advance(MILLISECOND)
    return "on time" if not early and arrived.count() else "at another time"


@pytest.mark.case("T42", "T43", "T44", "T45")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_producer_does_what_the_table_says(
    row: list[str], policy: DelayPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    what, example, *cells = row
    told = cells[POLICIES.index(policy)]
    warned, _, outcome = told.rpartition(", ")
    after = re.fullmatch(r"after (\d+) ([sh])", outcome)
    wait = timedelta(**{UNITS[after[2]]: int(after[1])}) if after else timedelta()
    old = "before 5.0" in what
    with (
        EmbeddedBroker(
            clock=VirtualClock(),
            topics=["T"],
            tcp=False,
            profile="rocketmq-4.9" if old else "rocketmq-5.x",
        ) as broker,
        DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr, delay_policy=policy) as producer,
        caplog.at_level(logging.WARNING, "rocketmq_py"),
    ):
        producer.retry_times_when_send_failed = 0
        try:
            producer.send(asked(example, broker.clock.now_ms))
        except RocketMQError as error:
            seen = type(error).__name__
            assert broker.topics["T"].count() + broker.timers.count() == 0
        else:
            seen = arrival(broker, wait)
    assert ("on time" if after else outcome.strip("`")) == seen
    warnings = [one for one in caplog.records if "delay_policy" in one.getMessage()]
    assert len(warnings) == bool(warned)


def test_ons_sends_as_java(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker(
        clock=VirtualClock(), topics=["T"], tcp=False, profile="rocketmq-4.9"
    ) as broker:
        producer = ONSFactory.create_producer({"NAMESRV_ADDR": broker.namesrv_addr})
        with producer:
            message = ONSMessage("T", "TagA", b"x")
            message.set_start_deliver_time(broker.clock.now_ms + 60_000)
            producer.send(message)
            assert broker.topics["T"].count() == 1
    assert [one for one in caplog.records if "delay_policy" in one.getMessage()] == []


def test_the_table_has_all_policies_and_their_default() -> None:
    assert len(ROWS) > 10
    assert all(len(row) == 2 + len(POLICIES) for row in ROWS)
    assert DefaultMQProducer("G").delay_policy == POLICIES[0]

"""Unmodified Java clients of 4.9.4 and 5.3.3 ask our broker for delays and get them on time."""

from __future__ import annotations

import pytest

from tests.interop.conftest import Serve
from tests.interop.java_tools import client_program
from tests.waiting import HANG_S

TOPIC = "TimerTopic"
# The topic exists before the consumer starts: a Java consumer looks for a new one every 30 s only.
OPTIONS = ("--topic", TOPIC, "--set", "recallMessageEnable=true")
DELAY_MS = 3000
# A hang guard, not a figure: lateness is measured in tests/perf.
LATE_MS = 10_000

WAYS = {
    "4.9.4": ("LegacyTimerSend", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "__STARTDELIVERTIME"]),
    "5.3.3": ("TimerSend", ["setDelayTimeSec", "setDelayTimeMs", "setDeliverTimeMs"]),
}


@pytest.mark.smoke
@pytest.mark.parametrize("version", sorted(WAYS))
def test_a_java_client_gets_each_delayed_message_once_and_never_early(
    serve: Serve, version: str
) -> None:
    program, ways = WAYS[version]
    print(f"rocketmq-client {version} against the embedded broker")
    with (
        serve(*OPTIONS) as namesrv,
        client_program(
            version, "TimerReceive", namesrv, TOPIC, str(len(ways)), str(HANG_S), "ReceiveGroup"
        ) as receiver,
    ):
        receiver.wait_for_line("STARTED", HANG_S)
        with client_program(version, program, namesrv, TOPIC, str(DELAY_MS)) as sender:
            assert sender.finish(HANG_S) == 0, sender.lines
        assert receiver.finish(HANG_S) == 0, receiver.lines
    due = {way: (msg_id, int(at)) for way, msg_id, at, _status in sender.table("SENT")}
    assert {row[3] for row in sender.table("SENT")} == {"SEND_OK"}
    received = receiver.table("RECEIVED")
    assert sorted(row[0] for row in received) == sorted(ways)
    for way, msg_id, arrived, body, reconsumed in received:
        assert due[way][0] == msg_id
        assert due[way][1] <= int(arrived) <= due[way][1] + LATE_MS
        assert body == f"by {way}"
        assert reconsumed == "0"


def test_a_recall_by_the_java_client_is_final(serve: Serve) -> None:
    with serve(*OPTIONS) as namesrv:
        with client_program("5.3.3", "TimerSend", namesrv, TOPIC, "2000") as sender:
            assert sender.finish(HANG_S) == 0, sender.lines
        recalled = {row[1] for row in sender.table("RECALLED")}
        assert recalled == {row[1] for row in sender.table("SENT") if row[0] == "recalled"}
        # Asking for one more than was left waits out the time and finds exactly the other three.
        with client_program(
            "5.3.3", "TimerReceive", namesrv, TOPIC, "4", "12", "RecallGroup"
        ) as receiver:
            assert receiver.finish(HANG_S) == 1
    assert sorted(row[0] for row in receiver.table("RECEIVED")) == sorted(WAYS["5.3.3"][1])

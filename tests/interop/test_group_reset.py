"""Unmodified Java consumers of 4.9.4 and 5.3.3 read again from where their group is moved to."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker, MessageState
from embedded_broker.settings.profiles import ProfileName
from tests.interop.java_tools import client_program
from tests.waiting import HANG_S


@pytest.mark.case("T81")
@pytest.mark.parametrize(
    ("version", "profile"),
    [("5.3.3", "rocketmq-5.x"), ("4.9.4", "rocketmq-5.x"), ("4.9.4", "rocketmq-4.9")],
)
def test_a_java_consumer_follows_its_group(version: str, profile: ProfileName) -> None:
    with EmbeddedBroker(topics=["T"], profile=profile) as broker:
        sent = [broker.send("T", str(n).encode(), queue=0, keys=str(n)) for n in range(3)]
        arguments = (broker.namesrv_addr, "T", "5", "80", "G")
        with client_program(version, "TimerReceive", *arguments) as receiver:
            receiver.wait_for_line("STARTED", HANG_S)
            broker.wait_members("G", timeout=HANG_S)
            broker.wait_for(lambda b: b.groups["G"].lag() == 0, timeout=HANG_S)
            assert broker.messages.trace(sent[2]).state is MessageState.ACKNOWLEDGED
            assert {one.language for one in broker.groups["G"].members} == {"JAVA"}

            broker.groups["G"].reset(topic="T", to=1, queue=0)

            assert receiver.finish(HANG_S) == 0, receiver.lines
        got = sorted(row[3] for row in receiver.table("RECEIVED"))
        assert got == ["0", "1", "1", "2", "2"]
        assert broker.groups["G"].members == ()
        assert broker.groups["G"].lag() == 0

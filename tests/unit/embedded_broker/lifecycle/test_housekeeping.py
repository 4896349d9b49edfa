"""The timers of a running broker are kept tidy on the session clock."""

from __future__ import annotations

import logging
from typing import Literal

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.timer.wheel.engine import TimerMessageStore
from tests.unit.embedded_broker.store.store_tools import delete_before

GUARD_S = 30.0


def test_a_running_broker_does_its_upkeep_on_the_session_clock() -> None:
    clock, session = VirtualClock(), VirtualClock()
    hours = ";".join(str(hour) for hour in range(24))
    with EmbeddedBroker(
        tcp=False,
        clock=clock,
        session_clock=session,
        config={
            "timerCheckMetricsWhen": hours,
            "mappedFileSizeTimerLog": 256,
            "mappedFileSizeCommitLog": 4096,
        },
    ) as broker:
        parts = broker._parts()
        timers = parts.timers
        assert isinstance(timers, TimerMessageStore)
        log = timers._state.log
        for _ in range(40):
            broker.send("T", b"x", delay=1)
        clock.advance(1)
        with parts.door:
            timers._state.metrics.add("T", 7, clock.now_ms)
            timers._state.metrics.add("Gone", 0, clock.now_ms)
            delete_before(parts.store, 8192)
            files = len(log.file_starts)
        session.advance(30)
        with parts.door:
            assert len(log.file_starts) < files
        session.advance(150)
        with parts.door:
            assert "Gone" not in parts.timers.metrics.topics
            assert parts.timers.count("T") == 7
        session.advance(45 * 60)
        broker.wait_for(lambda _: parts.timers.count("T") == 0, timeout=GUARD_S)


@pytest.mark.parametrize("engine", ["wheel", "sliced"])
def test_progress_is_logged_outside_the_door_when_somebody_reads_it(
    engine: Literal["wheel", "sliced"], caplog: pytest.LogCaptureFixture
) -> None:
    session = VirtualClock()
    with EmbeddedBroker(tcp=False, session_clock=session, engine=engine) as broker:
        broker.send("T", b"x", delay=60)
        session.advance(10)
        assert not [one for one in caplog.messages if "progress" in one]
        caplog.set_level(logging.INFO)
        session.advance(10)
        broker.wait_for(
            lambda _: [one for one in caplog.messages if "progress" in one], timeout=GUARD_S
        )

"""What a jump of the clock once refused: timers that were due while the start held them back."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock


@pytest.mark.parametrize("engine", ["wheel", "sliced"])
def test_a_jump_over_the_end_of_the_hold_delivers_what_is_overdue(engine: str) -> None:
    config = {"disappearTimeAfterStart": 5000, "timerEngine": engine}
    with EmbeddedBroker(clock=VirtualClock(), tcp=False, topics=["T"], config=config) as broker:
        began_ms = broker.clock.now_ms
        for delay in (1, 2, 3, 7):
            broker.send("T", b"%d" % delay, delay=delay)
        broker.clock.advance(4.999)
        assert broker.topics["T"].count() == 0
        broker.clock.advance(5)
        arrived = {one.body: one.stored_at for one in broker.messages.in_topic("T")}
        assert sorted(arrived) == [b"1", b"2", b"3", b"7"]
        assert min(arrived.values()).timestamp() * 1000 >= began_ms + 5000

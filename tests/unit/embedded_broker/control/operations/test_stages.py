"""The services of the timer store over HTTP."""

from __future__ import annotations

from embedded_broker import EmbeddedBroker
from tests.unit.embedded_broker.control.http_peer import HttpPeer


def test_a_service_is_held_steps_and_goes_on(broker: EmbeddedBroker, control: HttpPeer) -> None:
    names = [one["name"] for one in control.get("/stages")]
    assert names == list(broker.timers.stages)
    stage = "TimerDequeueGetService"
    assert control.post(f"/stages/{stage}/pause")["paused"]
    broker.send("T", b"x", delay=1)
    control.post("/clock/advance", seconds=2)
    assert broker.topics["T"].count() == 0
    assert control.post(f"/stages/{stage}/step")["paused"]
    assert broker.topics["T"].count() == 1
    assert control.post(f"/stages/{stage}/resume")["paused"] is False
    assert stage in control.refused(404, "POST", "/stages/Odd/pause")["detail"]

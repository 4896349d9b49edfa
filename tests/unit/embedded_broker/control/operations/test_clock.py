"""Time over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime

from embedded_broker import EmbeddedBroker, VirtualClock
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.control.http_peer import HttpPeer
from tests.unit.embedded_broker.wire_peer import Connect, consumer

START = datetime(2030, 1, 1, tzinfo=UTC)


def test_thirty_days_pass_with_one_request(broker: EmbeddedBroker, control: HttpPeer) -> None:
    broker.config.update(timerMaxDelaySec=3_456_000)
    broker.send("T", b"later", delay=30 * 86_400)
    before = broker.clock.now_ms
    assert control.post("/clock/advance", days=30)["fired"] == 1
    assert broker.clock.now_ms - before == 30 * 86_400_000
    assert [one.body for one in broker.messages.in_topic("T")] == [b"later"]


def test_the_time_and_what_is_due_next_are_told(start_broker: StartBroker) -> None:
    broker = start_broker(control=True, topics=["T"], clock=VirtualClock(START))
    control = HttpPeer(broker.control_url)
    broker.send("T", b"later", delay=1.5)
    told = control.get("/clock")
    assert told["now"] == "2030-01-01T00:00:00.000Z"
    assert told["now_ms"] == 1_893_456_000_000
    assert (told["flows"], told["can_be_moved"]) == (False, True)
    assert told["next_deadline"]["at"] == "2030-01-01T00:00:01.500Z"


def test_a_jump_goes_to_an_instant_and_never_back(start_broker: StartBroker) -> None:
    broker = start_broker(control=True, clock=VirtualClock(START))
    control = HttpPeer(broker.control_url)
    assert control.post("/clock/jump", to="2030-01-02T01:00:00+01:00")["until"].startswith(
        "2030-01-02T00:00:00"
    )
    assert control.post("/clock/jump", to=1_893_456_000_000 + 2 * 86_400_000)["fired"] == 0
    told = control.refused(409, "POST", "/clock/jump", to="2030-01-01T00:00:00Z")
    assert "2030-01-01T00:00:00" in told["detail"]
    assert "never goes back" in told["detail"]
    assert control.post("/clock/set_back", milliseconds=1000)["now"] == "2030-01-02T23:59:59.000Z"


def test_wall_time_says_how_to_have_time_that_moves(start_broker: StartBroker) -> None:
    broker = start_broker(control=True, clock=None)
    told = HttpPeer(broker.control_url).refused(409, "POST", "/clock/advance", seconds=1)
    assert "VirtualClock()" in told["detail"]
    assert "--clock frozen" in told["detail"]


def test_a_run_stops_at_each_deadline_on_its_way(broker: EmbeddedBroker, control: HttpPeer) -> None:
    broker.send("T", b"x", delay=10)
    broker.send("T", b"y", delay=20)
    assert control.post("/clock/run", minutes=1)["fired"] == 2


def test_a_wait_that_is_over_tells_who_was_busy(
    broker: EmbeddedBroker, control: HttpPeer, connect: Connect
) -> None:
    assert control.post("/clock/settle") == {"ok": True, "busy": [], "notes": []}
    connect(broker.addr).heartbeat("C", consumer("G", {"T": "*"}))
    told = control.refused(504, "POST", "/clock/settle", timeout=0)
    assert told["title"] == "SettleTimeout"
    assert "G" in told["busy"][0]
    assert control.post("/clock/settle", timeout=0, check=False)["ok"] is False


def test_another_process_says_that_it_is_busy(broker: EmbeddedBroker, control: HttpPeer) -> None:
    held = control.post("/clock/busy", name="mail gateway")
    assert "busy('mail gateway') is held for 0.0 s by another process" in held["told"]
    told = control.refused(504, "POST", "/clock/settle", timeout=0)
    assert "busy('mail gateway')" in told["detail"]
    assert "busy('mail gateway')" in told["busy"][0]

    path = f"/clock/busy/{held['number']}"
    assert "mail gateway" in control.ask("DELETE", path).json["told"]
    assert control.post("/clock/settle")["ok"] is True
    assert "its lease is over" in control.refused(404, "DELETE", path)["detail"]
    assert control.refused(400, "DELETE", "/clock/busy/first")["setting"] == "token"


def test_a_process_that_died_is_waited_for_until_its_lease_is_over(
    broker: EmbeddedBroker, control: HttpPeer
) -> None:
    held = control.post("/clock/busy", name="dead", lease=0.001)
    assert control.post("/clock/settle")["ok"] is True
    told = control.refused(404, "DELETE", f"/clock/busy/{held['number']}")
    assert told["detail"].endswith("there are none")


def test_a_token_has_a_name_and_a_bounded_lease(broker: EmbeddedBroker, control: HttpPeer) -> None:
    assert control.refused(400, "POST", "/clock/busy")["setting"] == "name"
    assert control.refused(400, "POST", "/clock/busy", name="")["setting"] == "name"
    assert control.refused(400, "POST", "/clock/busy", name="x" * 201)["limit"]
    for lease in (0, 301):
        told = control.refused(400, "POST", "/clock/busy", name="x", lease=lease)
        assert (told["setting"], told["value"]) == ("lease", lease)
    assert control.post("/clock/settle")["ok"] is True


def test_going_forward_by_nothing_is_refused(broker: EmbeddedBroker, control: HttpPeer) -> None:
    for path in ("/clock/advance", "/clock/run"):
        told = control.refused(409, "POST", path)
        assert "say how far time is to go" in told["detail"]
    assert control.post("/clock/advance", seconds=0)["fired"] == 0

"""The life of brokers over HTTP."""

from __future__ import annotations

from pathlib import Path

from embedded_broker import EmbeddedBroker, EmbeddedCluster, VirtualClock
from rocketmq_py.protocol.codes import RequestCode
from tests.unit.embedded_broker.control.http_peer import HttpPeer
from tests.unit.embedded_broker.wire_peer import Connect


def test_brokers_and_their_state_are_told(broker: EmbeddedBroker, control: HttpPeer) -> None:
    (told,) = control.get("/brokers")
    assert (told["addr"], told["namesrv_addr"]) == (broker.addr, broker.namesrv_addr)
    assert told["is_running"]
    assert "T: 0 messages" in control.get("/state")["seen"]
    assert "grpc=True" in control.refused(409, "GET", "/grpc_clients")["detail"]


def test_options_are_told_and_changed(broker: EmbeddedBroker, control: HttpPeer) -> None:
    changed = control.post("/config", options={"timerMaxDelaySec": 3_456_000})
    assert changed["options"]["timerMaxDelaySec"] == 3_456_000
    assert broker.config["timerMaxDelaySec"] == 3_456_000
    assert control.get("/config") == changed
    odd = control.refused(400, "POST", "/config", options={"timerMaxDelaySek": 1})
    assert (odd["setting"], odd["value"]) == ("timerMaxDelaySek", 1)
    assert "timerMaxDelaySec" in odd["limit"]


def test_a_paused_broker_answers_here_and_nobody_else(
    broker: EmbeddedBroker, control: HttpPeer, connect: Connect
) -> None:
    control.post("/pause")
    peer = connect(broker.addr)
    opaque = peer.post(RequestCode.GET_BROKER_CONFIG)
    assert control.get("/topics/T")["count"] == 0
    control.post("/clock/advance", seconds=1)
    assert broker.journal.requests(code=RequestCode.GET_BROKER_CONFIG) == []
    control.post("/resume")
    assert peer.answer(opaque).code == 0


def test_a_crash_comes_back_with_its_report(broker: EmbeddedBroker, control: HttpPeer) -> None:
    broker.send("T", b"x", delay=10)
    addr = broker.addr
    report = control.post("/crash", restart_after_ms=1)
    assert (report["clean"], report["timers_pending"]) == (False, 1)
    assert broker.addr == addr
    assert control.post("/restart")["clean"]
    control.post("/clock/advance", seconds=10)
    assert broker.topics["T"].count() == 1
    assert control.refused(400, "POST", "/crash")["setting"] == "restart_after_ms"
    assert control.refused(400, "POST", "/crash", restart_after_ms=60_001)["value"] == 60_001


def test_a_snapshot_opens_as_a_store(
    broker: EmbeddedBroker, control: HttpPeer, tmp_path: Path
) -> None:
    broker.send("T", b"x")
    path = control.post("/snapshot", path=str(tmp_path / "copy"))["path"]
    with EmbeddedBroker(store=path, clock=VirtualClock(), tcp=False) as copy:
        assert copy.topics["T"].count() == 1
    assert control.refused(500, "POST", "/snapshot", path=path)["title"] == "StoreError"


def test_a_reset_empties_and_keeps_the_address(broker: EmbeddedBroker, control: HttpPeer) -> None:
    broker.send("U", b"x")
    control.post("/faults", code=310, verb="drop")
    assert control.post("/reset") == {"consumers": {}, "producers": {}}
    assert broker.topics.names() == ["T"]
    assert control.get("/faults") == []
    assert control.get("/journal")["count"] == 0


def test_one_broker_of_a_cluster_is_named() -> None:
    with EmbeddedCluster(brokers=2, clock=VirtualClock(), control=True) as cluster:
        control = HttpPeer(cluster.control_url)
        assert [one["name"] for one in control.get("/brokers")] == ["broker-a", "broker-b"]
        control.post("/topics?broker=broker-b", name="OnlyB")
        assert "OnlyB" not in cluster["broker-a"].topics
        assert control.get("/topics/OnlyB", broker="broker-b")["queues"] == 4
        told = control.refused(404, "GET", "/topics?broker=broker-c")
        assert "there are broker-a, broker-b" in told["detail"]

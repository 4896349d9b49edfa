"""Faults over HTTP."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import DefaultMQProducer, Message
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.embedded_broker.control.http_peer import HttpPeer
from tests.unit.embedded_broker.wire_peer import Connect


def test_the_second_send_is_refused_and_repeated(broker: EmbeddedBroker, control: HttpPeer) -> None:
    fault = control.post(
        "/faults", code="SEND_MESSAGE_V2", topic="T", nth=2, verb="respond", response="SYSTEM_BUSY"
    )
    with DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer:
        for number in range(3):
            producer.send(Message("T", b"%d" % number))
    (told,) = control.get("/faults")
    assert (told["number"], told["hits"]) == (fault["number"], 1)
    assert control.get("/faults", unused="true") == []
    assert broker.topics["T"].count() == 3


@pytest.mark.parametrize("verb", ["drop", "close"])
def test_a_fault_goes_on_until_it_is_ended(
    broker: EmbeddedBroker, control: HttpPeer, connect: Connect, verb: str
) -> None:
    fault = control.post("/faults", code=310, verb=verb, always=True)
    peer = connect(broker.addr)
    if verb == "close":
        peer.tell(RequestCode.SEND_MESSAGE_V2)
        assert peer.wait_closed()
    else:
        opaque = peer.post(RequestCode.SEND_MESSAGE_V2)
        peer.barrier()
        assert not peer.has_answer(opaque)
    control.delete(f"/faults/{fault['number']}")
    answer = connect(broker.addr).ask(RequestCode.SEND_MESSAGE_V2)
    assert answer.code != ResponseCode.SUCCESS  # its header is empty: but it is answered


def test_a_fault_that_is_none_leaves_nothing_behind(control: HttpPeer) -> None:
    assert control.refused(400, "POST", "/faults", code=310)["setting"] == "verb"
    odd = control.refused(400, "POST", "/faults", code=310, verb="respond", response="SYSTEM_BUSI")
    assert "SYSTEM_BUSY" in odd["limit"]
    without = control.refused(400, "POST", "/faults", code=310, verb="drop", response=1)
    assert without["setting"] == "response"
    assert control.refused(400, "POST", "/faults", verb="explode")["value"] == "explode"
    assert control.get("/faults") == []
    assert control.refused(404, "DELETE", "/faults/7")["detail"] == "no fault '7'; there are none"


def test_the_disk_fills_up_and_is_mended(broker: EmbeddedBroker, control: HttpPeer) -> None:
    fault = control.post("/faults/disk/fill_after", bytes=10)
    assert fault["of_disk"]
    told = control.refused(422, "POST", "/messages", topic="T", body="x")
    assert told["code"]
    control.delete(f"/faults/{fault['number']}")
    control.post("/messages", topic="T", body="x")
    assert control.delete("/faults") == {"count": 1}
    assert broker.faults.asked == []


def test_writes_are_torn_and_syncs_fail(broker: EmbeddedBroker, control: HttpPeer) -> None:
    control.post("/faults/disk/tear_next_write", at=20)
    control.refused(422, "POST", "/messages", topic="T", body="x")
    control.post("/faults/disk/fail_next_flush", times=2, path="timerlog")
    kinds = [(one["hits"], one["of_disk"]) for one in control.get("/faults")]
    assert kinds == [(1, True), (0, True)]
    assert len(control.get("/faults", unused="true")) == 1
    control.post("/faults/disk/lose_unsynced")
    assert "loses unsynced bytes" in repr(broker.faults.disk)


def test_faults_of_the_tests_own_process_have_numbers_too(
    broker: EmbeddedBroker, control: HttpPeer
) -> None:
    fault = broker.faults.on(310).drop()
    (told,) = control.get("/faults")
    control.delete(f"/faults/{told['number']}")
    broker.send("T", b"x")
    assert fault.hits == 0

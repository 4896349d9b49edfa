"""Request 370: what is taken back, and the refusals in their order."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.handles import RecallHandle
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, bodies, records


def recall(peer: WirePeer, handle: str, topic: str = "T") -> RemotingCommand:
    fields = {"topic": topic, "recallHandle": handle, "producerGroup": "producers"}
    return peer.ask(RequestCode.RECALL_MESSAGE, fields)


def timer(peer: WirePeer, seconds: int = 5) -> str:
    answer = peer.send("T", properties={"TIMER_DELAY_SEC": str(seconds)})
    return answer.ext_fields["recallHandle"]


@pytest.mark.case("R4")
def test_a_pending_timer_is_taken_back(broker: EmbeddedBroker, peer: WirePeer) -> None:
    handle = timer(peer)
    broker.clock.advance(1)
    answer = recall(peer, handle)
    assert (answer.code, answer.ext_fields["msgId"]) == (0, "ID0001")
    assert answer.ext_fields["MSG_REGION"] == "DefaultRegion"
    broker.clock.advance(60)
    assert bodies(peer.pull("T")) == []
    assert peer.pull("T").ext_fields["maxOffset"] == "0"


@pytest.mark.case("R7")
def test_the_delete_mark_has_the_content_of_the_original(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    handle = timer(peer)
    recall(peer, handle)
    mark = records(peer.pull("rmq_sys_wheel_timer"))[1]
    now = str(broker.clock.now_ms)
    assert mark.body == b"0"
    expected = {
        "TAGS": "_RECALL_TAG_",
        "UNIQ_KEY": "ID0001",
        "TIMER_DEL_UNIQKEY": "T+ID0001",
        "TIMER_DELIVER_MS": str(RecallHandle.decode(handle).timestamp_ms),
        "BORN_TIMESTAMP": now,
        "PGROUP": "producers",
        "REAL_TOPIC": "T",
        "REAL_QID": "0",
    }
    assert {name: mark.properties.get(name) for name in expected} == expected


def forbid(broker: EmbeddedBroker) -> None:
    broker.config.update(recallMessageEnable=False)


def make_slave(broker: EmbeddedBroker) -> None:
    broker._parts().config._values["brokerRole"] = "SLAVE"


def stop_store(broker: EmbeddedBroker) -> None:
    broker._parts().store._open = False


def make_read_only(broker: EmbeddedBroker) -> None:
    broker.config.update(brokerPermission=4, allowRecallWhenBrokerNotWriteable=False)


@pytest.mark.case("R6")
@pytest.mark.parametrize(
    ("prepare", "code"), [(forbid, 16), (make_slave, 11), (stop_store, 14), (make_read_only, 14)]
)
def test_a_broker_that_may_not_or_cannot_recall_says_so(
    broker: EmbeddedBroker,
    peer: WirePeer,
    prepare: Callable[[EmbeddedBroker], None],
    code: int,
) -> None:
    handle = timer(peer)
    prepare(broker)
    try:
        answer = recall(peer, handle)
    finally:
        broker._parts().store._open = True
    assert answer.code == code
    assert (answer.remark or "").startswith("recall failed, ")


@pytest.mark.case("R6")
def test_a_read_only_broker_recalls_by_default(broker: EmbeddedBroker, peer: WirePeer) -> None:
    handle = timer(peer)
    broker.config.update(brokerPermission=4)
    assert recall(peer, handle).code == 0


@pytest.mark.case("R6")
def test_an_unknown_topic_is_17(peer: WirePeer) -> None:
    assert recall(peer, timer(peer), topic="Unknown").code == 17


@pytest.mark.case("R6")
def test_a_handle_that_does_not_fit_is_604(broker: EmbeddedBroker, peer: WirePeer) -> None:
    right = RecallHandle.decode(timer(peer))
    peer.create_topic("Other")
    now_ms = broker.clock.now_ms
    limit_ms = 259_200_000
    wrong = [
        ("junk", "T"),
        ("", "T"),
        (right.encode(), "Other"),
        (RecallHandle("T", "broker-b", right.timestamp_ms, "ID0001").encode(), "T"),
        (RecallHandle("T", "broker-a", now_ms, "ID0001").encode(), "T"),
        (RecallHandle("T", "broker-a", now_ms + limit_ms, "ID0001").encode(), "T"),
    ]
    answers = [recall(peer, handle, topic) for handle, topic in wrong]
    assert [answer.code for answer in answers[2:]] == [604] * 4
    assert answers[0].code == 604
    assert answers[1].code in {1, 604}
    assert str(limit_ms) in (answers[-1].remark or "")
    assert recall(peer, right.encode()).code == 0


@pytest.mark.case("R5")
def test_a_handle_rebuilt_for_another_topic_recalls_nothing(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    right = RecallHandle.decode(timer(peer))
    peer.create_topic("Other")
    other = RecallHandle("Other", right.broker_name, right.timestamp_ms, right.uniq_key)
    assert recall(peer, other.encode(), topic="Other").code == 0
    broker.clock.advance(60)
    assert bodies(peer.pull("T")) == [b"hello"]


@pytest.mark.case("R8")
def test_in_the_last_slot_before_the_due_time_a_recall_is_too_late(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(clock=VirtualClock(start=datetime(2030, 1, 1, tzinfo=UTC)))
    peer = connect(broker.addr)
    handle = timer(peer)
    broker.clock.advance(4.999)
    assert recall(peer, handle).code == 604
    broker.clock.advance(0.001)
    assert bodies(peer.pull("T")) == [b"hello"]

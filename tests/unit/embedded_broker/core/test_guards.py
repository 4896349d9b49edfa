"""A guard is asked once about every request, before anything else looks at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import pytest
from attrs import define, field

from embedded_broker import EmbeddedBroker
from embedded_broker.core.guards import Action, Guards, Resource, ResourceKind
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.tables.peer import Peer
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.message_codec import encode_batch
from rocketmq_py.protocol.properties import Prop
from tests.unit.embedded_broker.wire_peer import WirePeer, send_fields

KINDS: dict[str, Mapping[str, str]] = {
    "plain": {},
    "timed": {Prop.TIMER_DELAY_MS: "5000"},
    "by level": {Prop.DELAY: "3"},
    "transactional": {Prop.TRAN_MSG: "true", "PGROUP": "P"},
}


@define
class NotThere:
    """A guard that refuses one topic and notes what it is asked."""

    topic: str
    asked: list[tuple[Action, tuple[Resource, ...]]] = field(factory=list)

    def check(self, peer: Peer, action: Action, resources: Sequence[Resource]) -> Refused | None:
        self.asked.append((action, tuple(resources)))
        if Resource(ResourceKind.TOPIC, self.topic) in resources:
            return Refused(Reason.NO_PERMISSION, f"{action.value} to {self.topic} is not for you")
        return None


@pytest.fixture
def guard(broker: EmbeddedBroker) -> NotThere:
    guard = NotThere("Closed")
    broker._parts().guards.append(guard)
    for topic in ("Open", "Closed"):
        broker.topics.create(topic, queues=1)
    return guard


def stored(broker: EmbeddedBroker) -> int:
    """Everything in the commit log, half messages and timers too."""
    return broker._parts().store.log.max_offset


@pytest.mark.parametrize("kind", KINDS)
def test_a_guard_stops_sends_of_every_kind(
    broker: EmbeddedBroker, guard: NotThere, peer: WirePeer, kind: str
) -> None:
    before = stored(broker)
    sys_flag = "4" if kind == "transactional" else "0"

    refused = peer.send("Closed", properties=KINDS[kind], f=sys_flag)

    assert refused.code == ResponseCode.NO_PERMISSION
    assert refused.remark == "Pub to Closed is not for you"
    assert stored(broker) == before
    assert peer.send("Open", properties=KINDS[kind], f=sys_flag).code == ResponseCode.SUCCESS
    assert stored(broker) > before
    assert len(guard.asked) == 2


def test_a_guard_stops_batches(broker: EmbeddedBroker, guard: NotThere, peer: WirePeer) -> None:
    body = encode_batch([(0, b"one", b""), (0, b"two", b"")])
    before = stored(broker)

    for code in (RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2):
        answer = peer.send("Closed", body, code=code, m="true")
        assert answer.code == ResponseCode.NO_PERMISSION

    assert stored(broker) == before
    assert peer.send("Open", body, code=RequestCode.SEND_BATCH_MESSAGE, m="true").code == 0


def test_of_sends_that_come_in_one_piece_each_is_asked_about_once(
    broker: EmbeddedBroker, guard: NotThere, peer: WirePeer
) -> None:
    requests = [
        RemotingCommand(
            RequestCode.SEND_MESSAGE_V2,
            opaque=number,
            ext_fields=send_fields(topic, properties),
            body=b"%d" % number,
        )
        for number, (topic, properties) in enumerate(
            [("Open", {}), ("Closed", {}), ("Open", KINDS["timed"]), ("Closed", KINDS["timed"])] * 3
        )
    ]
    peer.write(b"".join(request.encode() for request in requests))

    codes = [peer.answer(number).code for number in range(len(requests))]

    assert codes == [0, 16, 0, 16] * 3
    assert len(guard.asked) == len(requests)
    assert broker.topics["Open"].count() == 3
    assert broker.timers.count(topic="Open") == 3
    assert broker.topics["Closed"].count() == 0
    assert broker.timers.count(topic="Closed") == 0


def test_a_guard_is_told_what_other_requests_want(
    broker: EmbeddedBroker, guard: NotThere, peer: WirePeer
) -> None:
    assert peer.pull("Closed").code == ResponseCode.NO_PERMISSION
    assert peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO).code == ResponseCode.SUCCESS

    (pull, look) = guard.asked
    assert pull[0] is Action.SUB
    assert Resource(ResourceKind.TOPIC, "Closed") in pull[1]
    assert look == (Action.GET, (Resource(ResourceKind.CLUSTER),))


def test_the_first_refusal_counts(peer: WirePeer) -> None:
    first, second = NotThere("T"), NotThere("T")
    guards = Guards([first, second])

    refused = guards.check(cast("Peer", peer), Action.SUB, [Resource(ResourceKind.TOPIC, "T")])

    assert refused is not None
    assert refused.reason is Reason.NO_PERMISSION
    assert (len(first.asked), len(second.asked)) == (1, 0)

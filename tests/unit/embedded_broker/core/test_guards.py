"""A guard is asked once about every request, before anything else looks at it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import pytest
from attrs import define, field

from embedded_broker import EmbeddedBroker
from embedded_broker.core.guards import (
    Action,
    Asked,
    Guards,
    RemoteAdministration,
    Resource,
    ResourceKind,
    group_resource,
    topic_resource,
)
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.remoting.code_meanings import action_of
from embedded_broker.tables.peer import Peer
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder
from rocketmq_py.protocol.message_codec import encode_batch
from rocketmq_py.protocol.properties import Prop
from tests.hostile.extreme_requests import FORMS
from tests.unit.embedded_broker import peers
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

    def check(self, asked: Asked) -> Refused | None:
        self.asked.append((asked.action, tuple(asked.resources)))
        if Resource(ResourceKind.TOPIC, self.topic) in asked.resources:
            return Refused(
                Reason.NO_PERMISSION, f"{asked.action.value} to {self.topic} is not for you"
            )
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


ADMINISTRATION: tuple[int, ...] = (
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_BROKER_CONFIG,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
    RequestCode.CLEAN_UNUSED_TOPIC,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    RequestCode.DELETE_EXPIRED_COMMITLOG,
    RequestCode.CLONE_GROUP_OFFSET,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
    RequestCode.RESUME_CHECK_HALF_MESSAGE,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
)


PARKED = {RequestCode.PULL_MESSAGE, RequestCode.POP_MESSAGE, RequestCode.NOTIFICATION}


@pytest.fixture
def reachable(start_broker: Callable[..., EmbeddedBroker]) -> EmbeddedBroker:
    """A broker that other hosts could reach, if it had a socket."""
    return start_broker(host="192.0.2.1", allow_remote=True, tcp=False, topics=["Used"])


def asked(broker: EmbeddedBroker, host: str, code: int) -> RemotingCommand:
    """The answer to an ordinary request that comes from a host."""
    peer, form = peers.Peer(host), FORMS[code]
    command = RemotingCommand(code=code, version=479, ext_fields=form.fields, body=form.body)
    broker._parts().endpoint.receive(peer, FrameDecoder().feed(command.encode()))
    return peer.answers[0]


@pytest.mark.parametrize("host", ["10.1.2.3", "2001:db8::7", "::ffff:10.1.2.3", "127.example.org"])
@pytest.mark.parametrize("code", sorted(ADMINISTRATION))
def test_other_hosts_administer_only_a_broker_that_allows_it(
    reachable: EmbeddedBroker, code: int, host: str
) -> None:
    asked(reachable, "127.0.0.1", RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
    refused = asked(reachable, host, code)
    assert refused.code == ResponseCode.NO_PERMISSION
    assert host in (refused.remark or "")
    assert "allowRemoteAdmin" in (refused.remark or "")

    reachable.config.update(allowRemoteAdmin=True)
    assert asked(reachable, host, code).code != ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    "setting", ["brokerPermission=0", "channelExpiredTimeout=0", "fileReservedTime=1"]
)
def test_no_other_host_stops_a_broker_from_serving_by_its_settings(
    reachable: EmbeddedBroker, setting: str
) -> None:
    before = asked(reachable, "127.0.0.1", RequestCode.GET_BROKER_CONFIG).body
    peer = peers.Peer("10.1.2.3")
    command = RemotingCommand(
        code=RequestCode.UPDATE_BROKER_CONFIG, version=479, body=f"{setting}\n".encode()
    )
    reachable._parts().endpoint.receive(peer, FrameDecoder().feed(command.encode()))

    assert peer.answers[0].code == ResponseCode.NO_PERMISSION
    assert asked(reachable, "127.0.0.1", RequestCode.GET_BROKER_CONFIG).body == before


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("code", sorted(ADMINISTRATION))
def test_its_own_host_administers_a_broker(reachable: EmbeddedBroker, code: int, host: str) -> None:
    assert asked(reachable, host, code).code != ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    "code",
    sorted(
        code
        for code in FORMS
        if action_of(code) not in RemoteAdministration.actions and code not in PARKED
    ),
)
def test_whatever_a_client_needs_is_answered_to_other_hosts(
    reachable: EmbeddedBroker, code: int
) -> None:
    assert "allowRemoteAdmin" not in (asked(reachable, "10.1.2.3", code).remark or "")


def test_a_send_from_another_host_may_create_its_topic(reachable: EmbeddedBroker) -> None:
    peer = peers.Peer("10.1.2.3")
    command = RemotingCommand(code=310, version=479, ext_fields=send_fields("New"), body=b"hello")
    reachable._parts().endpoint.receive(peer, FrameDecoder().feed(command.encode()))
    assert (peer.answers[0].code, "New" in reachable._parts().tables.topics) == (0, True)


def test_a_broker_that_listens_at_a_name_is_one_that_others_reach(
    start_broker: Callable[..., EmbeddedBroker],
) -> None:
    named = start_broker(host="127.example.org", allow_remote=True, tcp=False)
    code = RequestCode.UPDATE_BROKER_CONFIG
    assert asked(named, "10.1.2.3", code).code == ResponseCode.NO_PERMISSION
    assert asked(named, "127.0.0.1", code).code != ResponseCode.NO_PERMISSION


def test_a_broker_that_nobody_else_reaches_asks_no_guard(broker: EmbeddedBroker) -> None:
    assert not broker._parts().guards


@pytest.mark.parametrize(
    ("topic", "about"),
    [
        ("T", Resource(ResourceKind.TOPIC, "T")),
        ("%RETRY%G", Resource(ResourceKind.TOPIC, "%RETRY%G")),
        ("%DLQ%G", Resource(ResourceKind.TOPIC, "%DLQ%G")),
        ("rmq_sys_wheel_timer", Resource(ResourceKind.CLUSTER)),
        ("RMQ_SYS_TRANS_HALF_TOPIC", Resource(ResourceKind.CLUSTER)),
        ("rmq_sys_REVIVE_LOG_C", Resource(ResourceKind.CLUSTER)),
        ("rmq_sys_SYNC_BROKER_MEMBER_b", Resource(ResourceKind.CLUSTER)),
        ("rmq_sys_TRACE_DATA_eu", Resource(ResourceKind.TOPIC, "rmq_sys_TRACE_DATA_eu")),
        ("RMQ_SYS_TRACE_TOPIC", Resource(ResourceKind.TOPIC, "RMQ_SYS_TRACE_TOPIC")),
    ],
)
def test_what_a_broker_keeps_for_itself_is_the_clusters_and_every_other_topic_is_one(
    topic: str, about: Resource
) -> None:
    assert topic_resource(topic) == about


def test_the_groups_in_whose_name_a_broker_reads_are_the_clusters() -> None:
    assert group_resource("%RETRY%G") == group_resource("G") == Resource(ResourceKind.GROUP, "G")
    assert group_resource("CID_RMQ_SYS_REVIVE_GROUP") == Resource(ResourceKind.CLUSTER)

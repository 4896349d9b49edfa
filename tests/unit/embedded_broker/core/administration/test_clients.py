"""Dropping the silent and telling the rest, in the corners."""

from __future__ import annotations

from embedded_broker import VirtualClock
from rocketmq_py.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from rocketmq_py.protocol.codes import RequestCode
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.peers import OWNER, Peer
from tests.unit.embedded_broker.steps import rests
from tests.unit.embedded_broker.wire_peer import Connect, consumer

G = consumer("g", {"T": "*"})


def test_a_dropped_client_may_come_back_and_is_watched_again(
    start_broker: StartBroker, connect: Connect
) -> None:
    session = VirtualClock()
    broker = start_broker(session_clock=session)
    for _ in range(2):
        peer = connect(broker.addr)
        assert peer.heartbeat("c1", G).code == 0
        session.advance(120)
        assert peer.wait_closed()
    parts = broker._parts()
    with parts.door:
        assert parts.tables.consumers.groups() == []


def test_a_jump_of_the_message_clock_drops_nobody(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(session_clock=VirtualClock())
    peer = connect(broker.addr)
    peer.heartbeat("c1", G)
    broker.clock.advance(days=30)
    answer = peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
    assert answer.body == b'{"consumerIdList":["c1"]}'


def test_the_time_out_is_a_setting(start_broker: StartBroker, connect: Connect) -> None:
    session = VirtualClock()
    broker = start_broker(session_clock=session, config={"channelExpiredTimeout": 5000})
    peer = connect(broker.addr)
    peer.heartbeat("c1", G)
    session.advance(5)
    assert peer.wait_closed()


def test_a_group_that_is_gone_by_then_is_not_told_a_second_time(
    start_broker: StartBroker, connect: Connect
) -> None:
    session = VirtualClock()
    broker = start_broker(session_clock=session)
    peer = connect(broker.addr)
    peer.heartbeat("c1", G)
    peer.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "c1", "consumerGroup": "g"})
    peer.pushed.clear()
    session.advance(1)
    peer.barrier()
    assert peer.pushed == []


def test_a_broker_may_be_set_to_tell_nobody(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(config={"notifyConsumerIdsChangedEnable": False})
    peer = connect(broker.addr)
    peer.heartbeat("c1", G)
    peer.barrier()
    assert peer.pushed == []


def test_the_filters_of_a_client_die_when_it_leaves_also_in_the_middle_of_its_heartbeat(
    start_broker: StartBroker,
) -> None:
    parts = start_broker()._parts()
    topics = ["T1", "T2", "T3"]

    def living() -> list[str]:
        found = {topic: parts.tables.consumer_filters.find(topic, "g") for topic in topics}
        return [topic for topic, one in found.items() if one is not None and not one.is_dead]

    subscriptions = [
        SubscriptionData(topic, "a = 1", sub_version=1, expression_type="SQL92") for topic in topics
    ]
    group = ConsumerData("g", subscription_data_set=subscriptions)
    data = HeartbeatData(client_id="c", consumer_data_set=[group])
    peer = Peer()
    with parts.door:
        whole = parts.administration.clients.heartbeat(
            peer, data, language=0, version=479, caller=OWNER
        )
        assert [living() for _ in rests(whole)] == [["T1"], ["T1", "T2"], topics, topics]
        parts.administration.clients.has_left(peer)
        assert living() == []
        cut = parts.administration.clients.heartbeat(
            peer, data, language=0, version=479, caller=OWNER
        )
        some = rests(cut)
        next(some)
        next(some)
        assert living() == ["T1", "T2"]
        parts.administration.clients.unregister(peer, producer_group=None, consumer_group="g")
        list(cut)
        assert living() == []

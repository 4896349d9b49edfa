from __future__ import annotations

import zlib
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.core.send_values import Incoming, Terms
from embedded_broker.grpc.schema import ClientType
from rocketmq_py.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_py.protocol.rpc import Rpc
from tests.unit.embedded_broker.grpc.conftest import Open
from tests.unit.embedded_broker.grpc.raw_client import RawClient, gathered, handles
from tests.unit.embedded_broker.peers import Peer


def put_group(broker: EmbeddedBroker, name: str, **settings: Any) -> None:
    parts = broker._parts()
    with parts.door:
        parts.tables.groups.put(SubscriptionGroupConfig(name, **settings))


def parked(broker: EmbeddedBroker, number: int = 1) -> None:
    """Wait until so many receives wait, less long than receives of 20 s do by themselves."""
    broker.wait_for(lambda one: len(one._parts().consume.waiters) == number, timeout=15)


@pytest.mark.case("G30")
def test_a_message_is_received_once_and_gone_when_acknowledged(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    for number in range(3):
        client.send(client.message(queue, b"%d" % number))
    (first,) = client.receive_all(queue, group, 1, batch=1)
    assert (first.body, first.system_properties.delivery_attempt) == (b"0", 1)
    (handle,) = handles([first])
    assert client.ack(queue, group, handle).status.code == 20000
    rest = client.receive_all(queue, group, 2)
    assert [one.body for one in rest] == [b"1", b"2"]
    assert broker.groups[group].lag() == 0


@pytest.mark.case("G31")
def test_what_is_not_acknowledged_comes_back_under_a_new_handle(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    client.send(client.message(queue))
    (first,) = client.receive_all(queue, group, 1, invisible_ms=10_000)
    broker.clock.advance(10)
    (again,) = client.receive_all(queue, group, 1, invisible_ms=10_000)
    assert again.topic.name == queue
    assert again.system_properties.message_id == first.system_properties.message_id
    assert again.system_properties.delivery_attempt == 2
    old, new = handles([first, again])
    assert old != new
    assert client.ack(queue, group, old).status.code == 40013
    assert client.ack(queue, group, new).status.code == 20000


@pytest.mark.case("G32")
def test_a_message_can_stay_hidden_for_longer(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    client.send(client.message(queue))
    (first,) = client.receive_all(queue, group, 1, invisible_ms=10_000)
    (old,) = handles([first])
    changed = client.change(queue, group, old, 30_000)
    assert (changed.status.code, changed.receipt_handle != old) == (20000, True)
    broker.clock.advance(29.999)
    assert client.ack(queue, group, old).status.code == 40013
    assert broker.groups[group].unread() == 0
    refused = client.change(queue, group, old, 30_000)
    assert (refused.status.code, refused.receipt_handle) == (40013, old)
    broker.clock.advance(0.001)
    (again,) = client.receive_all(queue, group, 1)
    second = client.change(queue, group, next(handles([again])), 20_000).receipt_handle
    assert client.ack(queue, group, second).status.code == 20000
    broker.clock.advance(60)
    assert client.ack(queue, group, second).status.code == 40013


@pytest.mark.case("G33")
def test_invisible_times_have_limits(client: RawClient, queue: str, group: str) -> None:
    client.send(client.message(queue))
    assert client.receive(queue, group, invisible_ms=9_999)[0].code == 40011
    assert client.receive(queue, group, invisible_ms=12 * 3_600_000 + 1)[0].code == 40011
    (message,) = client.receive_all(queue, group, 1)
    assert client.change(queue, group, next(handles([message])), 0).status.code == 20000
    (again,) = client.receive_all(queue, group, 1)
    assert again.system_properties.delivery_attempt == 2


@pytest.mark.case("G34")
def test_a_handle_has_eight_items_or_more(client: RawClient, queue: str, group: str) -> None:
    client.send(client.message(queue))
    (handle,) = handles(client.receive_all(queue, group, 1))
    for bad in ("garbage", " ".join(handle.split(" ")[:7]), "a b c d e f g h"):
        assert client.ack(queue, group, bad).status.code == 40013
    assert client.ack(queue, group, f"{handle} 0").status.code == 20000


@pytest.mark.case("G35")
def test_each_entry_of_an_ack_has_a_status(client: RawClient, queue: str, group: str) -> None:
    client.send(client.message(queue))
    (handle,) = handles(client.receive_all(queue, group, 1))
    answer = client.ack(queue, group, handle, "stale")
    assert answer.status.code == 30000
    assert [one.status.code for one in answer.entries] == [20000, 40013]
    assert client.ack(queue, group).status.code == 40000


def test_a_handle_is_of_its_group_and_topic(
    broker: EmbeddedBroker, client: RawClient, queue: str, topic: str, group: str
) -> None:
    client.send(client.message(queue))
    (handle,) = handles(client.receive_all(queue, group, 1))
    assert client.ack(queue, "AnotherGroup", handle).status.code == 40013
    assert client.ack(topic, group, handle).status.code == 40013
    other = handle.replace(broker.broker_name, "broker-z")
    assert client.ack(queue, group, other).status.code == 40013
    assert client.ack(queue, group, handle).status.code == 20000


@pytest.mark.case("G37")
def test_a_parked_receive_is_answered_when_a_message_comes(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    answers = client.parked(
        Rpc.RECEIVE_MESSAGE, client.receive_request(queue, group, poll_ms=20_000)
    )
    parked(broker)
    client.send(client.message(queue, b"woken"))
    status, (message,) = gathered(list(answers))
    assert (status.code, message.body) == (20000, b"woken")


@pytest.mark.case("G38")
@pytest.mark.parametrize(("version", "code"), [("5.0.3", 40018), ("5.0.2", 40000)])
def test_a_client_that_waits_too_short_is_told_so(
    broker: EmbeddedBroker, open_client: Open, queue: str, group: str, version: str, code: int
) -> None:
    client = open_client(broker, x_mq_client_version=version)
    assert client.receive(queue, group, timeout=3)[0].code == code


@pytest.mark.case("G38")
def test_a_client_without_a_deadline_is_served(client: RawClient, queue: str, group: str) -> None:
    client.send(client.message(queue))
    status, messages = client.receive(queue, group, timeout=None)
    assert (status.code, len(messages)) == (20000, 1)


@pytest.mark.case("G40")
def test_a_batch_has_32_messages_at_most(client: RawClient, queue: str, group: str) -> None:
    for _ in range(40):
        client.send(client.message(queue))
    assert len(client.receive(queue, group, batch=100)[1]) == 32
    assert len(client.receive(queue, group, batch=0)[1]) == 1
    assert len(client.receive(queue, group, batch=100)[1]) == 7


@pytest.mark.case("G41")
def test_a_tag_with_the_same_hash_is_another_tag(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    for tag in ("Aa", "BB", "Aa"):
        client.send(client.message(queue, tag.encode(), tag=tag))
    found = client.receive_all(queue, group, 2, expression="Aa")
    assert [one.body for one in found] == [b"Aa", b"Aa"]
    broker.clock.advance(3600)
    again = client.receive_all(queue, group, 2, expression="*")
    assert {one.body for one in again} == {b"Aa"}


@pytest.mark.case("G42")
def test_sql_chooses_by_properties(client: RawClient, queue: str, group: str) -> None:
    for number in (4, 6):
        client.send(client.message(queue, b"%d" % number, properties={"a": str(number)}))
    (found,) = client.receive_all(queue, group, 1, kind=2, expression="a > 5")
    assert found.body == b"6"
    assert client.receive(queue, group, kind=2, expression="a >")[0].code == 40010
    assert client.receive(queue, group, expression="||")[0].code == 40010


@pytest.mark.case("G43")
def test_a_new_group_begins_with_what_is_there(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    for number in range(5):
        client.send(client.message(queue, b"%d" % number))
    assert len(client.receive_all(queue, group, 5)) == 5
    broker.config.update(initPopOffsetByCheckMsgInMem=False)
    try:
        (last,) = client.receive_all(queue, f"{group}-2", 1)
    finally:
        broker.config.update(initPopOffsetByCheckMsgInMem=True)
    assert last.body == b"4"


@pytest.mark.case("G47")
def test_after_so_many_deliveries_a_message_is_a_dead_letter(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    put_group(broker, group, retry_max_times=2)
    client.send(client.message(queue, b"poison", message_id="0102"))
    for attempt in (1, 2, 3):
        (message,) = client.receive_all(queue, group, 1, invisible_ms=10_000)
        assert message.system_properties.delivery_attempt == attempt
        broker.clock.advance(10)
    client.send(client.message(queue, b"next"))
    found = client.receive_all(queue, group, 1)
    assert [one.body for one in found] == [b"next"]
    (dead,) = broker.groups[group].dead_letters()
    assert dead.body == b"poison"
    origin = {"DLQ_ORIGIN_TOPIC": queue, "DLQ_ORIGIN_MESSAGE_ID": "0102"}
    assert dead.properties.items() >= origin.items()
    (told,) = client.receive_all(f"%DLQ%{group}", f"{group}-dlq", 1)
    assert told.system_properties.dead_letter_queue.topic == queue
    assert told.system_properties.dead_letter_queue.message_id == "0102"


def test_what_cannot_be_a_dead_letter_now_becomes_one_later(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    put_group(broker, group, retry_max_times=0)
    client.send(client.message(queue, b"poison"))
    client.receive_all(queue, group, 1, invisible_ms=10_000)
    broker.clock.advance(10)
    broker.config.update(brokerPermission=4)
    try:
        assert client.receive(queue, group, invisible_ms=10_000)[0].code == 40401
        assert broker.groups[group].dead_letters() == []
    finally:
        broker.config.update(brokerPermission=6)
    broker.clock.advance(10)
    assert client.receive(queue, group, invisible_ms=10_000)[0].code == 40401
    assert [one.body for one in broker.groups[group].dead_letters()] == [b"poison"]


def test_a_client_can_move_a_message_to_the_dead_letters(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    client.send(client.message(queue, b"poison"))
    (handle,) = handles(client.receive_all(queue, group, 1))
    no_place = " ".join(handle.split(" ")[:8])
    assert client.forward(queue, group, no_place).status.code == 40013
    assert client.forward(queue, group, handle).status.code == 20000
    assert [one.body for one in broker.groups[group].dead_letters()] == [b"poison"]
    assert client.ack(queue, group, handle).status.code == 40013


@pytest.mark.case("G49")
def test_messages_of_an_orderly_group_wait_for_each_other(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    put_group(broker, group, consume_message_orderly=True)
    for number in range(3):
        client.send(client.message(queue, b"%d" % number, message_group="g"))
    lost = client.receive_all(queue, group, 2, batch=2, attempt_id="one")
    same = client.receive_all(queue, group, 2, batch=2, attempt_id="one")
    assert [one.body for one in same] == [one.body for one in lost] == [b"0", b"1"]
    blocked = client.parked(
        Rpc.RECEIVE_MESSAGE, client.receive_request(queue, group, attempt_id="two", poll_ms=20_000)
    )
    parked(broker)
    for handle in handles(same):
        assert client.ack(queue, group, handle).status.code == 20000
    status, (last,) = gathered(list(blocked))
    assert (status.code, last.body) == (20000, b"2")
    changed = client.change(queue, group, next(handles([last])), 30_000)
    assert client.ack(queue, group, next(handles([last]))).status.code == 40013
    broker.clock.advance(30)
    (again,) = client.receive_all(queue, group, 1)
    assert (again.body, again.system_properties.delivery_attempt) == (b"2", 2)
    assert client.ack(queue, group, changed.receipt_handle).status.code == 40013
    assert client.ack(queue, group, next(handles([again]))).status.code == 20000
    assert broker.groups[group].lag() == 0


@pytest.mark.case("G50", "G51")
def test_what_is_renewed_stays_hidden_for_three_hours_while_its_client_lives(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    stream = client.be_consumer(group, queue)
    assert stream.settings.client_type == ClientType.PUSH_CONSUMER
    client.send(client.message(queue), client.message(queue))
    messages = client.receive_all(queue, group, 2, auto_renew=True, invisible_ms=None)
    first, second = handles(messages)
    broker.clock.advance(minutes=10)
    assert client.ack(queue, group, first).status.code == 20000
    broker.clock.advance(hours=2, minutes=49, seconds=59)
    assert len(list(broker._parts().pop.revive.hidden(group))) == 1
    assert broker.groups[group].unread() == 0
    broker.clock.advance(minutes=1, seconds=1)
    (again,) = client.receive_all(queue, group, 1)
    assert again.system_properties.delivery_attempt == 2
    assert client.ack(queue, group, second).status.code == 40013


@pytest.mark.case("G59")
def test_a_body_of_a_remoting_producer_is_told_as_it_is_stored(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    body = zlib.compress(b"y" * 5000)
    parts = broker._parts()
    with parts.door:
        parts.send.produce([Incoming(queue, body, "", terms=Terms(0, sys_flag=1))], Peer())
    (message,) = client.receive_all(queue, group, 1)
    assert (message.body, message.system_properties.body_encoding) == (body, 2)


@pytest.mark.case("G63")
def test_a_client_that_leaves_gives_back_what_it_renews_and_its_receives_end(
    broker: EmbeddedBroker, client: RawClient, open_client: Open, queue: str, group: str
) -> None:
    client.be_consumer(group, queue)
    client.send(client.message(queue))
    client.receive_all(queue, group, 1, auto_renew=True, invisible_ms=None)
    waiting = client.parked(
        Rpc.RECEIVE_MESSAGE, client.receive_request(queue, group, poll_ms=20_000)
    )
    parked(broker)
    assert client.leave(group).status.code == 20000
    assert gathered(list(waiting))[0].code == 40401
    other = open_client(broker)
    broker.clock.advance(1)
    (again,) = other.receive_all(queue, group, 1)
    assert again.system_properties.delivery_attempt == 2
    assert client.leave(group).status.code == 40015


@pytest.mark.case("G67")
def test_cancelled_receives_leave_nothing_behind(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    request = client.receive_request(queue, group, poll_ms=20_000)
    waiting = [client.parked(Rpc.RECEIVE_MESSAGE, request) for _ in range(200)]
    parked(broker, 200)
    for one in waiting:
        one.cancel()
    parked(broker, 0)
    client.send(client.message(queue))
    (message,) = client.receive_all(queue, group, 1)
    assert message.system_properties.delivery_attempt == 1


@pytest.mark.case("G66")
def test_what_did_not_reach_its_client_comes_back_in_a_second(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    """The client goes away while the broker is paused, so the answer finds nobody."""
    waiting = client.parked(
        Rpc.RECEIVE_MESSAGE, client.receive_request(queue, group, poll_ms=20_000)
    )
    parked(broker)
    broker.pause()
    try:
        broker.send(queue, b"first")  # the pop gets it; its answer is held back
        assert broker.groups[group].unread() == 0
        waiting.cancel()
        runtime = broker._running_brokers._runtime
        assert runtime is not None
        face = runtime.grpc
        assert face is not None
        assert face._server is not None
        under_way = face._server._open
        broker.wait_for(lambda _: not under_way)
    finally:
        broker.resume()
    broker.clock.advance(1)
    (found,) = client.receive_all(queue, group, 1)
    assert found.system_properties.delivery_attempt == 2


@pytest.mark.case("G12")
@pytest.mark.parametrize("name", ["", "a b", "x" * 128, "rmq_sys_x", "TBW102"])
def test_names_of_topics_are_checked(client: RawClient, group: str, name: str) -> None:
    assert client.route(name).status.code == 40002
    assert client.send(client.message(name)).status.code == 40002
    assert client.receive(name, group)[0].code == 40002
    assert client.ack(name, group, "x").status.code == 40002
    assert client.recall(name, "x").status.code == 40002


@pytest.mark.case("G12")
@pytest.mark.parametrize("name", ["", "a b", "x" * 256, "CID_RMQ_SYS_x"])
def test_names_of_groups_are_checked(client: RawClient, topic: str, name: str) -> None:
    assert client.receive(topic, name)[0].code == 40003
    assert client.ack(topic, name, "x").status.code == 40003
    assert client.assignment(topic, name).status.code == 40003
    assert client.forward(topic, name, "x").status.code == 40003

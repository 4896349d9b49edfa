"""A namespace: programs see their own names, whatever their face, and brokers ``namespace%name``.

What brokers see is looked at by clients without a namespace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from rocketmq_py import (
    DefaultMQProducer,
    LocalTransactionState,
    Message,
    MessageExt,
    MessageQueue,
    MQBrokerException,
    MQClientException,
    QueueAccess,
    RocketMQError,
    SendResult,
    TransactionMQProducer,
    aio,
    create_reply_message,
)
from rocketmq_py.admin import AdminClient, GroupSettings
from tests.sdk.conftest import GUARD_S, Forward, stored
from tests.sdk.desk import Desk
from tests.sdk.faces import FACES, Case, Face, Ground, Member, each_face
from tests.waiting import until

NAMESPACE = "MQ_INST_1_shop"
END_S = 0.3
PATIENCE_MS = 30_000

Make = Callable[..., Any]
"""Makes a client of the namespace, which ends with the test."""


@pytest.fixture
def admin(ground: Ground) -> Iterator[AdminClient]:
    """The namespace's administrator; the topic has 4 queues there."""
    with AdminClient(namesrv_addr=ground.namesrv_addr, namespace=NAMESPACE) as started:
        started.ensure_topic(ground.topic, queues=4)
        yield started


@pytest.fixture
def producer(ground: Ground, admin: AdminClient) -> Iterator[DefaultMQProducer]:
    assert admin.topic_settings(ground.topic)
    with DefaultMQProducer(
        f"{ground.group}_sends", namesrv_addr=ground.namesrv_addr, namespace=NAMESPACE
    ) as started:
        yield started


@pytest.fixture
def start(ground: Ground) -> Iterator[Callable[[Face, Desk], Member]]:
    started: list[tuple[Member, Desk]] = []

    def begin(face: Face, desk: Desk, **settings: Any) -> Member:
        member = face.start(ground, desk, {"namespace": NAMESPACE, **settings})
        started.append((member, desk))
        until(lambda: len(own(member, ground)) == face.queues(4), GUARD_S)
        return member

    yield begin
    for member, desk in started:
        desk.go_on()
        member.shutdown(END_S)


def own(member: Member, ground: Ground) -> set[MessageQueue]:
    return {one for one in member.assigned_queues() if one.topic == ground.topic}


def wire(name: str) -> str:
    return f"{NAMESPACE}%{name}"


@pytest.mark.case("T64")
@each_face(Case.DELIVERY)
def test_programs_see_bare_names_and_brokers_those_of_the_namespace(
    face: Face,
    start: Callable[[Face, Desk], Member],
    producer: DefaultMQProducer,
    ground: Ground,
    access: QueueAccess,
    admin: AdminClient,
) -> None:
    desk = Desk()
    member = start(face, desk)
    sent = [producer.send(Message(ground.topic, b"%d" % number)) for number in range(4)]
    until(lambda: len(desk.bodies) == 4, GUARD_S)
    assert {one.message_queue.topic for one in sent} == {ground.topic}
    assert {one.topic for one in desk.messages} == {ground.topic}
    assert {one.properties["INSTANCE_ID"] for one in desk.messages} == {NAMESPACE}
    assert {one.topic for one in member.assigned_queues()} <= {
        ground.topic,
        f"%RETRY%{ground.group}",
    }
    assert (stored(access, wire(ground.topic)), stored(access, ground.topic)) == (4, 0)
    with AdminClient(namesrv_addr=ground.namesrv_addr) as outside:
        members = outside.members(wire(ground.group))
        assert len(members.members) == 1
        assert not outside.members(ground.group).members
    assert len(admin.members(ground.group).members) == 1


@pytest.mark.case("T64")
@each_face(Case.RETRY)
def test_what_comes_again_has_its_bare_name_too(
    face: Face,
    start: Callable[[Face, Desk], Member],
    producer: DefaultMQProducer,
    ground: Ground,
    forward: Forward,
) -> None:
    desk = Desk(lambda message: message.reconsume_times >= 2)
    start(face, desk)
    producer.send(Message(ground.topic, b"x"))
    forward(lambda: len(desk.bodies) >= 3)
    assert {one.topic for one in desk.messages} == {ground.topic}
    assert desk.attempts == [1, 2, 3]


@pytest.mark.case("T64")
@each_face(Case.DEAD_LETTERS)
def test_dead_letters_are_those_of_the_group_of_the_namespace(
    face: Face,
    start: Callable[..., Member],
    producer: DefaultMQProducer,
    ground: Ground,
    forward: Forward,
    access: QueueAccess,
) -> None:
    desk = Desk(lambda _message: False)
    start(face, desk, max_reconsume_times=1)
    producer.send(Message(ground.topic, b"x"))
    forward(lambda: len(desk.bodies) >= 2)
    until(lambda: f"%DLQ%{wire(ground.group)}" in access.topic_names(), GUARD_S)
    until(lambda: stored(access, f"%DLQ%{wire(ground.group)}") == 1, GUARD_S)
    assert f"%DLQ%{ground.group}" not in access.topic_names()


@pytest.mark.case("T64")
def test_every_way_to_send_names_the_topic_of_the_namespace(
    producer: DefaultMQProducer, ground: Ground, access: QueueAccess
) -> None:
    queue = producer.fetch_publish_message_queues(ground.topic)[0]
    batch = [Message(ground.topic, b"batch"), Message(ground.topic, b"batch")]
    results = [
        producer.send(Message(ground.topic, b"sync")),
        producer.send(Message(ground.topic, b"queue"), queue=queue),
        producer.send_batch(batch),
        producer.send_async(Message(ground.topic, b"async")).result(GUARD_S),
    ]
    producer.send_oneway(Message(ground.topic, b"oneway"))

    async def awaited() -> SendResult:
        async with aio.Producer(
            f"{ground.group}_awaits", namesrv_addr=ground.namesrv_addr, namespace=NAMESPACE
        ) as sender:
            return await sender.send(Message(ground.topic, b"awaited"))

    results.append(asyncio.run(awaited()))
    assert {one.message_queue.topic for one in results} == {ground.topic}
    until(lambda: stored(access, wire(ground.topic)) == 7, GUARD_S)
    assert stored(access, ground.topic) == 0


def test_questions_about_messages_and_queues_are_asked_with_bare_names(
    producer: DefaultMQProducer, ground: Ground
) -> None:
    sent = producer.send(Message(ground.topic, b"x", keys=["K"]))
    queue = sent.message_queue
    assert producer.view_message(ground.topic, sent.offset_msg_id).topic == ground.topic

    def found() -> list[tuple[str, bytes]]:
        try:
            messages = producer.query_message(ground.topic, "K", 1, 0, 2**63 - 1).message_list
        except MQClientException:  # none yet
            return []
        return [(one.topic, one.body) for one in messages]

    # Real brokers enter a message into its queue and into the index after they have answered.
    until(lambda: producer.max_offset(queue) == 1, GUARD_S)
    until(lambda: found() == [(ground.topic, b"x")], GUARD_S)


class Bank:
    def __init__(self) -> None:
        self.asked: SimpleQueue[MessageExt] = SimpleQueue()

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        del message, arg
        return LocalTransactionState.UNKNOW

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        self.asked.put(message)
        return LocalTransactionState.COMMIT_MESSAGE


@pytest.mark.case("T64")
def test_a_broker_asks_the_producer_of_the_namespace_about_its_transaction(
    ground: Ground, admin: AdminClient, access: QueueAccess, forward: Forward
) -> None:
    bank = Bank()
    assert admin.topic_settings(ground.topic)
    with TransactionMQProducer(
        ground.group,
        transaction_listener=bank,
        namesrv_addr=ground.namesrv_addr,
        namespace=NAMESPACE,
    ) as sender:
        sent = sender.send_message_in_transaction(Message(ground.topic, b"x"), None)
        assert sent.message_queue.topic == ground.topic
        forward(lambda: not bank.asked.empty())
        assert bank.asked.get().topic == ground.topic
        until(lambda: stored(access, wire(ground.topic)) == 1, GUARD_S)


@pytest.mark.case("T64")
def test_a_request_gets_its_reply_in_a_namespace(
    producer: DefaultMQProducer, start: Callable[[Face, Desk], Member], ground: Ground
) -> None:
    def reply(message: MessageExt) -> bool:
        producer.send(create_reply_message(message, b"yes"))
        return True

    start(FACES[0], Desk(reply))
    answer = producer.request(Message(ground.topic, b"tea?"), timeout=PATIENCE_MS)
    assert (answer.body, answer.topic.endswith("_REPLY_TOPIC")) == (b"yes", True)
    assert NAMESPACE not in answer.topic


def test_an_administrator_sees_and_changes_the_namespace_alone(
    admin: AdminClient, ground: Ground, producer: DefaultMQProducer, access: QueueAccess
) -> None:
    group = f"{ground.group}_kept"
    admin.create_group(group, GroupSettings(retry_max_times=3))
    producer.send(Message(ground.topic, b"x"))
    assert ground.topic in admin.topic_names()
    assert not any("%" in name for name in admin.topic_names() if not name.startswith("%"))
    until(lambda: stored(access, wire(ground.topic)) == 1, GUARD_S)
    assert sum(one.max_offset for one in admin.bounds(ground.topic).values()) == 1
    with AdminClient(namesrv_addr=ground.namesrv_addr) as outside:
        assert outside.group_settings(wire(group))
        assert group not in outside.group_names()
        assert wire(group) in outside.group_names()
    assert [one.retry_max_times for one in admin.group_settings(group).values()] == [3]
    assert group in admin.group_names()
    admin.delete_topic(ground.topic)
    until(lambda: wire(ground.topic) not in access.topic_names(), GUARD_S)
    assert ground.topic in access.topic_names()


def test_an_administrator_talks_with_a_member_by_bare_names(
    admin: AdminClient,
    ground: Ground,
    producer: DefaultMQProducer,
    start: Callable[[Face, Desk], Member],
) -> None:
    desk = Desk()
    start(FACES[0], desk)
    sent = producer.send(Message(ground.topic, b"x"))
    until(lambda: desk.bodies == [b"x"], GUARD_S)
    (member,) = admin.members(ground.group).members
    assert set(admin.members(ground.group).subscriptions) == {
        ground.topic,
        f"%RETRY%{ground.group}",
    }

    def has_both() -> bool:  # the retry topic comes with the first heartbeat
        state = admin.member_state(ground.group, member.client_id)
        return {one.topic for one in state.queues} == {ground.topic, f"%RETRY%{ground.group}"}

    until(has_both, GUARD_S)
    message = admin.message(ground.topic, sent.msg_id)
    admin.consume_now(ground.group, member.client_id, message)
    assert [one.topic for one in desk.messages] == [ground.topic] * 2
    progress = admin.group_progress(ground.group)
    assert {queue.topic for queue in progress.queues} <= {
        ground.topic,
        f"%RETRY%{ground.group}",
    }

    def is_reset() -> bool:
        try:
            admin.reset_offsets(ground.group, ground.topic, "first")
        except MQBrokerException:  # before 5.0 something must be committed in every queue
            return False
        return True

    until(is_reset, GUARD_S)
    until(lambda: len(desk.bodies) == 3, GUARD_S)


def test_offsets_in_files_are_those_of_the_group_of_the_namespace(
    admin: AdminClient, ground: Ground, start: Callable[[Face, Desk], Member], producer: object
) -> None:
    del admin, producer
    (broadcasting,) = (face for face in FACES if face.name == "broadcasting")
    start(broadcasting, Desk()).shutdown(END_S)
    folders = {found.parent.name for found in ground.folder.rglob("offsets.json")}
    assert len(folders) == 1
    assert all(NAMESPACE in name for name in folders)


def test_an_error_names_the_topic_as_the_program_does(admin: AdminClient) -> None:
    with pytest.raises(RocketMQError) as refused:
        admin.bounds("NoSuchTopic")
    assert "NoSuchTopic" in str(refused.value)
    assert wire("NoSuchTopic") not in str(refused.value)

"""Every case for every face (``faces.py``): what a consumer promises, however it is written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from embedded_broker.pytest_plugin import Recorders, Store
from rocketmq_py import ClientClosedError, DefaultMQProducer, Message, MessageExt, MessageQueue
from tests.sdk.conftest import GUARD_S, MEMBERSHIP_S, Forward
from tests.sdk.desk import Desk
from tests.sdk.faces import FACES, Case, Face, Ground, Limit, Member, each_face, each_limit
from tests.sdk.test_crashes import RESTART_MS, killed
from tests.sdk.test_listening import dead_letters
from tests.sdk.way import Harm, Way
from tests.waiting import until, within

END_S = 0.3
HARMS: dict[str, Harm] = {"cut": Way.cut, "blocked": Way.block}

Open = Callable[..., Member]


@pytest.fixture
def start(face: Face, ground: Ground) -> Iterator[Open]:
    """Starts members of the face, which end with the test: ``start(desk, setting=...)``.

    It returns when the member has so many ``queues``, or what stands for them.
    """
    started: list[tuple[Member, Desk]] = []

    def begin(desk: Desk, *, queues: int = 1, **settings: Any) -> Member:
        member = face.start(ground, desk, settings)
        started.append((member, desk))
        until(lambda: len(own(member, ground)) >= min(queues, face.queues(queues)), GUARD_S)
        return member

    yield begin
    for member, desk in started:
        desk.go_on()
        member.shutdown(END_S)


def own(member: Member, ground: Ground) -> set[MessageQueue]:
    return {one for one in member.assigned_queues() if one.topic == ground.topic}


@pytest.fixture
def come(face: Face, forward: Forward) -> Forward:
    """Waits for what may come only when a member has lost it: ``come(lambda: ...)``.

    What was popped is hidden in the broker's time; all else comes to whoever has its queue.
    """
    if face.pops:
        return forward
    return lambda holds: until(holds, MEMBERSHIP_S + GUARD_S)


class Sender:
    """Sends numbered messages to the queues in turn."""

    def __init__(self, producer: DefaultMQProducer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self.sent: list[bytes] = []

    def __call__(self, count: int) -> None:
        queues = self._producer.fetch_publish_message_queues(self._topic)
        for _ in range(count):
            body = b"%d" % len(self.sent)
            message = Message(self._topic, body, keys=["K"])
            self._producer.send(message, queue=queues[len(self.sent) % len(queues)])
            self.sent.append(body)

    def all_in(self, *desks: Desk) -> bool:
        return {body for desk in desks for body in desk.bodies} >= set(self.sent)


@pytest.fixture
def send(rocketmq_producer: DefaultMQProducer, rocketmq_topic: str) -> Sender:
    return Sender(rocketmq_producer, rocketmq_topic)


def test_every_face_has_each_case_or_a_reason_why_not() -> None:
    assert len({face.name for face in FACES}) == len(FACES)
    for case in Case:
        assert any(case not in face.cannot for face in FACES), case
    for face in FACES:
        assert all(reason for reason in face.cannot.values()), face.name


# --- delivery and retry -------------------------------------------------------------------------


@each_face(Case.DELIVERY)
def test_every_message_comes_once_and_those_of_a_queue_in_order_where_that_is_promised(
    face: Face, start: Open, send: Sender
) -> None:
    desk = Desk()
    start(desk)
    send(40)
    until(lambda: send.all_in(desk), GUARD_S)
    assert sorted(desk.bodies) == sorted(send.sent)
    assert set(desk.attempts) == {1}
    if face.in_order:
        for queue in range(4):
            offsets = [one.queue_offset for one in desk.messages if one.queue_id == queue]
            assert offsets == sorted(offsets)


@pytest.mark.case("T77")
@each_face(Case.RETRY)
def test_what_is_not_handled_comes_again_until_it_is(
    face: Face, start: Open, send: Sender, forward: Forward
) -> None:
    desk = Desk(lambda message: message.body != b"0" or message.reconsume_times >= 2)
    start(desk)
    send(9)
    forward(lambda: desk.bodies.count(b"0") >= 3 and send.all_in(desk))
    tries = [
        attempt
        for message, attempt in zip(desk.messages, desk.attempts, strict=True)
        if message.body == b"0"
    ]
    assert tries == [1, 2, 3]
    if face.in_order:  # nothing of the queue overtakes it
        same = [body for body in desk.bodies if int(body) % 4 == 0]
        assert same == [b"0", b"0", b"0", b"4", b"8"]


@each_face(Case.DEAD_LETTERS)
def test_after_its_last_attempt_a_message_is_a_dead_letter(
    face: Face,
    start: Open,
    send: Sender,
    forward: Forward,
    ground: Ground,
    rocketmq_producer: DefaultMQProducer,
) -> None:
    desk = Desk(lambda message: message.body != b"0")
    start(desk, max_reconsume_times=1)
    send(5)
    forward(lambda: desk.bodies.count(b"0") >= 2 and send.all_in(desk))
    until(lambda: dead_letters(rocketmq_producer, ground.group), GUARD_S)
    assert dead_letters(rocketmq_producer, ground.group) == [b"0"]
    assert desk.bodies.count(b"0") == 2, face


# --- who has which queue, and where it goes on --------------------------------------------------


@pytest.mark.case("T79")
@each_face(Case.RESTART)
def test_a_member_that_starts_again_gets_what_it_has_not_had(
    face: Face, start: Open, send: Sender
) -> None:
    before, after = Desk(), Desk()
    first = start(before)
    send(8)
    until(lambda: send.all_in(before), GUARD_S)
    first.shutdown()
    send(4)
    start(after)
    until(lambda: send.all_in(before, after), GUARD_S)
    assert sorted(after.bodies) == sorted(send.sent[8:]), face


@pytest.mark.case("T79")
@each_face(Case.ONCE)
def test_where_a_message_comes_once_one_that_failed_does_not_come_again_after_a_restart(
    face: Face, start: Open, send: Sender
) -> None:
    before, after = Desk(lambda _message: False), Desk()
    first = start(before)
    send(4)
    until(lambda: send.all_in(before), GUARD_S)
    first.shutdown()
    start(after)
    send(4)
    until(lambda: send.all_in(before, after), GUARD_S)
    assert sorted(after.bodies) == sorted(send.sent[4:]), face


@pytest.mark.case("T78")
@each_face(Case.REBALANCE)
def test_members_that_come_and_go_share_the_queues_and_no_message_is_lost(
    face: Face, start: Open, send: Sender, ground: Ground, come: Forward
) -> None:
    desks = [Desk(), Desk()]
    half, whole = face.queues(2), face.queues(4)
    first = start(desks[0], queues=4)
    send(8)
    second = start(desks[1], queues=2)
    until(lambda: len(own(first, ground)) == len(own(second, ground)) == half, GUARD_S)
    assert bool(own(first, ground) & own(second, ground)) is face.pops
    send(8)
    come(lambda: send.all_in(*desks))
    second.shutdown()
    until(lambda: len(own(first, ground)) == whole, GUARD_S)
    send(8)
    come(lambda: send.all_in(*desks))
    assert set(desks[0].bodies) | set(desks[1].bodies) == set(send.sent), face


@pytest.mark.case("T78")
@each_face(Case.IN_ORDER)
def test_a_queue_has_one_call_at_a_time_whichever_member_has_it(
    face: Face, start: Open, send: Sender, ground: Ground
) -> None:
    """The member that is to get a queue waits until the listener of the other one has ended."""
    first_desk = Desk()
    second_desk = Desk(beside=first_desk)
    start(first_desk, queues=4)
    with first_desk.stopped():
        send(12)
        until(lambda: len(+first_desk.inside) == 4, GUARD_S)
        if Case.REBALANCE not in face.cannot:
            second = start(second_desk, queues=0)
    if Case.REBALANCE not in face.cannot:
        until(lambda: len(own(second, ground)) == face.queues(2), GUARD_S)
    until(lambda: send.all_in(first_desk, second_desk), GUARD_S)
    assert first_desk.overlaps == []


@pytest.mark.case("T100")
@each_face(Case.CONSUMER_CRASH)
def test_another_member_goes_on_where_one_has_vanished(
    face: Face,
    start: Open,
    send: Sender,
    way: Way,
    ground: Ground,
    leases_end: Callable[[], None],
    come: Forward,
) -> None:
    gone, left = Desk(), Desk()
    vanishing = start(gone, queues=4, address_mapper=way)
    with gone.stopped():
        send(8)
        until(gone.entered.is_set, GUARD_S)
        way.cut()
        vanishing.shutdown(0)  # nobody hears it
    member = start(left, queues=0)
    if face.in_order:
        leases_end()
    until(lambda: len(own(member, ground)) == face.queues(4), MEMBERSHIP_S + GUARD_S)
    come(lambda: send.all_in(left))
    assert set(left.bodies) == set(send.sent), face


# --- brokers that die and brokers that are away -------------------------------------------------


@each_face(Case.BROKER_CRASH)
def test_what_was_acknowledged_comes_although_the_broker_was_killed(
    face: Face,
    start: Open,
    send: Sender,
    ground: Ground,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_store: Store,
    come: Forward,
) -> None:
    desk = Desk()
    member = start(desk)
    send(4)
    with killed(rocketmq_store) as restart:
        while restart.is_alive():
            body = b"meanwhile %d" % len(send.sent)
            rocketmq_producer.send(Message(ground.topic, body), timeout=RESTART_MS)
            send.sent.append(body)
    rocketmq_producer.send(Message(ground.topic, b"after"), timeout=RESTART_MS)
    send.sent.append(b"after")
    come(lambda: send.all_in(desk))
    assert set(desk.bodies) == set(send.sent), face
    until(lambda: len(own(member, ground)) == face.queues(4), GUARD_S)


@pytest.mark.parametrize("harm", HARMS)
@each_face(Case.AWAY)
def test_a_member_leaves_in_its_time_although_the_broker_is_away(
    face: Face, start: Open, ground: Ground, way: Way, harm: str
) -> None:
    member = start(Desk(), queues=4, address_mapper=way)
    HARMS[harm](way)
    within(END_S, lambda: member.shutdown(END_S))
    with pytest.raises(ClientClosedError, match=ground.group):
        member.suspend()
    assert face in FACES


# --- pauses and ends ----------------------------------------------------------------------------


@pytest.mark.case("T80")
@each_face(Case.SUSPEND)
def test_while_suspended_nothing_new_comes_and_everything_after(
    face: Face, start: Open, send: Sender, rocketmq_recorder: Recorders
) -> None:
    desk, arrived = Desk(), rocketmq_recorder()
    member = start(desk, queues=4)
    member.suspend()
    send(4)  # each queue may have one fetch under way, which brings what comes first
    until(lambda: len(arrived.bodies) == 4, GUARD_S)
    send(8)
    until(lambda: len(arrived.bodies) == 12, GUARD_S)
    assert set(desk.bodies) <= set(send.sent[:4])
    member.resume()
    until(lambda: send.all_in(desk), GUARD_S)
    assert sorted(desk.bodies) == sorted(send.sent), face


@pytest.mark.case("T74")
@each_limit
def test_a_slow_program_is_not_flooded_and_gets_everything_at_last(
    face: Face, start: Open, send: Sender, caplog: pytest.LogCaptureFixture, limit: Limit
) -> None:
    desk = Desk()
    start(desk, queues=4, pull_batch_size=1, **limit.settings)
    with desk.stopped():
        send(48)
        until(lambda: limit.words in caplog.text, GUARD_S)
    until(lambda: send.all_in(desk), GUARD_S)
    assert sorted(desk.bodies) == sorted(send.sent), face


STATES = ("idle", "handling", "suspended", "waiting for another attempt", "from its own listener")


@each_face(Case.SHUTDOWN)
@pytest.mark.parametrize("state", STATES)
def test_a_shutdown_loses_nothing_in_any_state(
    face: Face,
    start: Open,
    send: Sender,
    forward: Forward,
    leases_end: Callable[[], None],
    come: Forward,
    state: str,
) -> None:
    first, rest = Desk(), Desk()
    ended = threading.Event()
    members: list[Member] = []

    def end(_message: MessageExt) -> bool:
        if not ended.is_set():
            members[0].shutdown(END_S)
            ended.set()
        return True

    if state == "waiting for another attempt":
        first = Desk(lambda message: message.body != b"0")
    elif state == "from its own listener":
        first = Desk(end)
    members.append(start(first, queues=4))
    if state == "suspended":
        members[0].suspend()
    if state == "handling":
        first.stop()
    if state != "idle":
        send(8)
    match state:
        case "handling":
            until(first.entered.is_set, GUARD_S)
        case "waiting for another attempt":
            until(lambda: b"0" in first.bodies, GUARD_S)
        case "from its own listener":
            until(ended.is_set, GUARD_S)
    within(END_S, lambda: members[0].shutdown(0 if state == "handling" else END_S))
    first.go_on()
    members[0].shutdown(GUARD_S)  # waits for what was not done in time and went on in background
    start(rest, queues=0)
    send(4)
    if face.in_order and state in {"handling", "from its own listener"}:
        leases_end()  # that of the queue whose listener outlived its consumer
    if state == "waiting for another attempt" and Case.RETRY not in face.cannot:
        first.messages = [one for one in first.messages if one.body != b"0"]
        forward(lambda: send.all_in(first, rest))
    else:
        come(lambda: send.all_in(first, rest))
    assert set(rest.bodies) >= set(send.sent[-4:])

"""Administration, through `AdminClient` and the same calls of `aio.AdminClient`.

Each answer is looked at twice: before and after something else has changed it.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from attrs import astuple

from embedded_broker import EmbeddedBroker, EmbeddedCluster
from embedded_broker.pytest_plugin import Consumers
from rocketmq_py import (
    DefaultMQProducer,
    DefaultMQPushConsumer,
    LocalTransactionState,
    Message,
    MessageExt,
    MessageQueue,
    MQBrokerException,
    MQClientException,
    NoRouteError,
    TransactionMQProducer,
    aio,
)
from rocketmq_py.admin import AdminClient, GroupSettings, OffsetMove, TopicMessageType, TrackState
from tests.pages import ROOT
from tests.sdk.conftest import GUARD_S, Forward
from tests.unit.rocketmq_py.consumer.inbox import Inbox
from tests.waiting import until

BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
END = datetime(2090, 1, 1, tzinfo=UTC)
"""Before and after whatever a broker stores."""
SOON_MS = 100
PROOFS = (
    "tests/sdk/test_admin.py",
    "tests/sdk/test_trace.py",
    "tests/unit/rocketmq_py/administration/acts_on_users.py",  # on a broker with accounts
)
"""Where each answer of an administrator is looked at before and after something has changed it."""
MADE_ONCE = {"ask_again", "consume_now", "set_request_mode"}
"""What they change is seen in answers that other calls and clients get."""


@pytest.fixture
def admin(rocketmq_broker: EmbeddedBroker) -> Iterator[AdminClient]:
    with AdminClient(namesrv_addr=rocketmq_broker.namesrv_addr) as started:
        yield started


@pytest.fixture
def broker_name(admin: AdminClient) -> str:
    return admin.brokers()[0].name


@pytest.fixture
def filled(
    admin: AdminClient, rocketmq_topic: str, rocketmq_producer: DefaultMQProducer
) -> list[MessageQueue]:
    """The queues of a topic that have two messages each, ``q-0`` and ``q-1`` of queue q."""
    queues = sorted(admin.bounds(rocketmq_topic))
    for queue in queues:
        for number in range(2):
            body = b"%d-%d" % (queue.queue_id, number)
            rocketmq_producer.send(Message(rocketmq_topic, body, keys="k"), queue=queue)
    wanted = dict.fromkeys(queues, 2)
    until(
        lambda: {q: one.max_offset for q, one in admin.bounds(rocketmq_topic).items()} == wanted,
        GUARD_S,
    )
    return queues


def answered(call: Callable[[], object]) -> bool:
    """Whether a real broker says yes, which in its first second says no to some requests."""
    try:
        return bool(call())
    except MQBrokerException:
        return False


# --- topics --------------------------------------------------------------------------------


def test_a_topic_that_is_created_is_listed_routed_and_shown(
    admin: AdminClient, rocketmq_topic: str, broker_name: str
) -> None:
    name = f"{rocketmq_topic}-made"
    assert name not in admin.topic_names()
    assert admin.route(name) == ()
    said = admin.create_topic(name, queues=3, dry_run=True)
    with pytest.raises(NoRouteError, match=name):
        admin.topic_settings(name)
    assert admin.create_topic(name, queues=3) == said
    until(lambda: admin.route(name), GUARD_S)
    assert name in admin.topic_names()
    (place,) = admin.route(name)
    assert (place.broker_name, place.write_queues, place.writable) == (broker_name, 3, True)
    assert place.addresses == admin.brokers()[0].addresses
    assert admin.topic_settings(name) == {broker_name: said[broker_name].after}
    with pytest.raises(MQClientException, match="there already"):
        admin.create_topic(name)


def test_an_ensured_topic_can_be_written_at_once_and_is_changed_only_where_it_must(
    admin: AdminClient, rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, broker_name: str
) -> None:
    name = f"{rocketmq_topic}-made"
    (place,) = admin.ensure_topic(name, queues=2)
    sent = rocketmq_producer.send(Message(name, b"x"), timeout=timedelta(seconds=GUARD_S))
    assert sent.message_queue.broker_name == broker_name
    assert admin.ensure_topic(name, queues=1) == (place,)
    (more,) = admin.ensure_topic(name, queues=5)
    assert (place.write_queues, more.write_queues) == (2, 5)
    admin.alter_topic(name, writable=False)
    until(lambda: not admin.route(name)[0].writable, GUARD_S)
    assert admin.ensure_topic(name, queues=5)[0].writable


@pytest.mark.rocketmq(timers=True)
def test_a_topic_has_a_type_of_messages(
    admin: AdminClient, rocketmq_topic: str, broker_name: str
) -> None:
    name = f"{rocketmq_topic}-made"
    admin.ensure_topic(name, message_type=TopicMessageType.DELAY)
    assert admin.topic_settings(name)[broker_name].message_type == TopicMessageType.DELAY
    admin.ensure_topic(name, message_type=TopicMessageType.NORMAL)
    assert admin.topic_settings(name)[broker_name].message_type == TopicMessageType.NORMAL


def test_a_topic_is_altered_as_the_dry_run_says(
    admin: AdminClient, rocketmq_topic: str, broker_name: str
) -> None:
    before = admin.topic_settings(rocketmq_topic)
    said = admin.alter_topic(rocketmq_topic, read_queues=6, write_queues=5, dry_run=True)
    assert admin.topic_settings(rocketmq_topic) == before
    assert said[broker_name].before == before[broker_name]
    assert admin.alter_topic(rocketmq_topic, read_queues=6, write_queues=5) == said
    after = admin.topic_settings(rocketmq_topic)[broker_name]
    assert (after.read_queues, after.write_queues, after.readable) == (6, 5, True)
    assert admin.alter_topic(rocketmq_topic, write_queues=5) == {}
    until(lambda: admin.route(rocketmq_topic)[0].read_queues == 6, GUARD_S)


def test_a_deleted_topic_is_gone_with_its_messages(
    admin: AdminClient, rocketmq_topic: str, filled: list[MessageQueue], broker_name: str
) -> None:
    said = admin.delete_topic(rocketmq_topic, dry_run=True)
    assert said.messages == {broker_name: 2 * len(filled)}
    assert len(admin.bounds(rocketmq_topic)) == len(filled)
    assert admin.delete_topic(rocketmq_topic) == said
    until(lambda: admin.route(rocketmq_topic) == (), GUARD_S)
    assert rocketmq_topic not in admin.topic_names()


def test_bounds_grow_with_sends_and_readers_come_with_commits(
    admin: AdminClient,
    rocketmq_topic: str,
    rocketmq_group: str,
    rocketmq_producer: DefaultMQProducer,
) -> None:
    (first, *others) = sorted(admin.bounds(rocketmq_topic))
    assert {one.max_offset for one in admin.bounds(rocketmq_topic).values()} == {0}
    rocketmq_producer.send(Message(rocketmq_topic, b"x"), queue=first)
    until(lambda: admin.bounds(rocketmq_topic)[first].max_offset == 1, GUARD_S)
    assert {admin.bounds(rocketmq_topic)[one].max_offset for one in others} == {0}
    assert rocketmq_group not in admin.groups_of(rocketmq_topic)
    admin.create_group(rocketmq_group)
    admin.set_offsets(rocketmq_group, {first: 1})
    assert rocketmq_group in admin.groups_of(rocketmq_topic)


# --- groups --------------------------------------------------------------------------------


def test_a_group_is_created_altered_and_deleted_as_dry_runs_say(
    admin: AdminClient, rocketmq_topic: str, rocketmq_group: str, broker_name: str
) -> None:
    wanted = GroupSettings(retry_max_times=5, broadcast_enabled=False)
    admin.create_group(rocketmq_group, wanted, dry_run=True)
    assert rocketmq_group not in admin.group_names()
    admin.create_group(rocketmq_group, wanted)
    assert rocketmq_group in admin.group_names()
    with pytest.raises(MQClientException, match="there already"):
        admin.create_group(rocketmq_group)
    made = admin.group_settings(rocketmq_group)[broker_name]
    assert (made.retry_max_times, made.broadcast_enabled) == (5, False)
    said = admin.alter_group(rocketmq_group, retry_max_times=7, dry_run=True)
    assert admin.group_settings(rocketmq_group)[broker_name] == made == said[broker_name].before
    assert admin.alter_group(rocketmq_group, retry_max_times=7) == said
    assert admin.group_settings(rocketmq_group)[broker_name] == said[broker_name].after
    (queue, *_) = sorted(admin.bounds(rocketmq_topic))
    admin.set_offsets(rocketmq_group, {queue: 3})
    deletion = admin.delete_group(rocketmq_group, dry_run=True)
    assert (deletion.offsets[queue], deletion.members) == (3, ())
    assert admin.group_settings(rocketmq_group)
    assert admin.delete_group(rocketmq_group) == deletion
    with pytest.raises(MQClientException, match="create it"):
        admin.group_settings(rocketmq_group)
    assert admin.group_progress(rocketmq_group).queues == {}


def test_members_and_producers_are_shown_while_they_are_online(
    admin: AdminClient,
    rocketmq_topic: str,
    rocketmq_group: str,
    rocketmq_consumer: Consumers,
    rocketmq_producer: DefaultMQProducer,
    filled: list[MessageQueue],
) -> None:
    senders = rocketmq_producer.producer_group
    until(lambda: admin.producers(senders), GUARD_S)
    assert admin.producers(f"{senders}-others") == ()
    assert admin.members(rocketmq_group).members == ()
    inbox = Inbox()
    consumer = rocketmq_consumer(None, rocketmq_topic, inbox)
    until(lambda: admin.members(rocketmq_group).members, GUARD_S)
    told = admin.members(rocketmq_group)
    assert [one.client_id for one in told.members] == [consumer.client_id]
    assert told.members[0].language == "PYTHON"
    assert told.subscriptions[rocketmq_topic].expression == "*"
    until(lambda: len(inbox) == 2 * len(filled), GUARD_S)

    def has_consumed() -> bool:
        queues = admin.member_state(rocketmq_group, consumer.client_id).queues
        return all(queue in queues and queues[queue].committed == 2 for queue in filled)

    until(has_consumed, GUARD_S)
    state = admin.member_state(rocketmq_group, consumer.client_id, stacks=True)
    assert rocketmq_topic in state.subscriptions
    assert state.stacks
    assert admin.member_state(rocketmq_group, consumer.client_id).stacks is None
    consumer.shutdown()
    until(lambda: admin.members(rocketmq_group).members == (), GUARD_S)
    with pytest.raises(MQBrokerException):
        admin.member_state(rocketmq_group, consumer.client_id)


@pytest.mark.rocketmq(timers=True)
def test_a_group_pops_after_it_was_told_to(
    admin: AdminClient, rocketmq_topic: str, rocketmq_group: str, rocketmq_consumer: Consumers
) -> None:
    def queues(consumer: DefaultMQPushConsumer) -> int:
        return len([one for one in consumer.assigned_queues() if one.topic == rocketmq_topic])

    pulls = rocketmq_consumer(None, rocketmq_topic, Inbox(), client_rebalance=False)
    assert queues(pulls) == 4
    pulls.shutdown()
    admin.set_request_mode(rocketmq_topic, rocketmq_group, "POP")
    pops = rocketmq_consumer(None, rocketmq_topic, Inbox(), client_rebalance=False)
    assert queues(pops) == 1


# --- offsets -------------------------------------------------------------------------------


def test_offsets_of_a_group_that_is_offline_go_where_they_are_sent(
    admin: AdminClient, rocketmq_topic: str, rocketmq_group: str, filled: list[MessageQueue]
) -> None:
    admin.create_group(rocketmq_group)
    all_of = 2 * len(filled)
    change = admin.set_offsets(rocketmq_group, dict.fromkeys(filled, 1), dry_run=True)
    assert admin.group_progress(rocketmq_group, rocketmq_topic).lag == all_of
    assert admin.set_offsets(rocketmq_group, dict.fromkeys(filled, 1)) == change
    progress = admin.group_progress(rocketmq_group)
    assert (progress.lag, progress.queues[filled[0]].committed) == (len(filled), 1)
    assert progress.queues[filled[0]].consumed_until is not None
    said = admin.skip_backlog(rocketmq_group, rocketmq_topic, dry_run=True)
    assert (said.online, said.moves[filled[0]]) == (False, OffsetMove(1, 2))
    assert admin.group_progress(rocketmq_group, rocketmq_topic).lag == len(filled)
    assert admin.skip_backlog(rocketmq_group, rocketmq_topic) == said
    assert admin.group_progress(rocketmq_group, rocketmq_topic).lag == 0
    back = admin.reset_offsets(rocketmq_group, rocketmq_topic, "first")
    assert back.moves[filled[0]] == OffsetMove(2, 0)
    assert admin.group_progress(rocketmq_group, rocketmq_topic).lag == all_of
    admin.reset_offsets(rocketmq_group, rocketmq_topic, BEGIN)
    assert admin.group_progress(rocketmq_group, rocketmq_topic).lag == all_of


def test_a_group_begins_where_another_one_is(
    admin: AdminClient, rocketmq_topic: str, rocketmq_group: str, filled: list[MessageQueue]
) -> None:
    other = f"{rocketmq_group}-other"
    for group in (rocketmq_group, other):
        admin.create_group(group)
    with pytest.raises(MQClientException, match="no offset in any topic"):
        admin.clone_offsets(rocketmq_group, other)
    admin.set_offsets(rocketmq_group, dict.fromkeys(filled, 1))
    said = admin.clone_offsets(rocketmq_group, other, dry_run=True)
    assert {queue: one.after for queue, one in said.moves.items()} == dict.fromkeys(filled, 1)
    assert {one.before for one in said.moves.values()} <= {None, 0}  # 4.9 says 0
    assert admin.group_progress(other).queues == {}
    assert admin.clone_offsets(rocketmq_group, other, rocketmq_topic) == said
    assert admin.group_progress(other).lag == len(filled)


def test_a_group_that_is_online_gets_again_what_it_is_sent_back_to(
    admin: AdminClient,
    rocketmq_topic: str,
    rocketmq_group: str,
    rocketmq_consumer: Consumers,
    filled: list[MessageQueue],
) -> None:
    inbox = Inbox()
    all_of = 2 * len(filled)
    rocketmq_consumer(None, rocketmq_topic, inbox, persist_consumer_offset_interval=SOON_MS)

    def is_done() -> bool:
        places = admin.group_progress(rocketmq_group, rocketmq_topic).queues
        return {queue: one.committed for queue, one in places.items()} == dict.fromkeys(filled, 2)

    until(is_done, GUARD_S)
    assert len(inbox) == all_of
    change = admin.reset_offsets(rocketmq_group, rocketmq_topic, "first")
    assert change.online
    assert change.moves == dict.fromkeys(filled, OffsetMove(2, 0))
    until(lambda: len(inbox) == 2 * all_of, GUARD_S)
    until(is_done, GUARD_S)


# --- messages ------------------------------------------------------------------------------


def test_messages_are_found_by_id_by_key_by_time_and_by_offset(
    admin: AdminClient, rocketmq_topic: str, rocketmq_producer: DefaultMQProducer
) -> None:
    (queue, *_) = sorted(admin.bounds(rocketmq_topic))
    assert admin.messages_by_key(rocketmq_topic, "k1") == ()
    assert admin.messages_by_time(rocketmq_topic, BEGIN, END) == ()
    assert admin.message_at(queue, 0) is None
    with pytest.raises(MQClientException, match="has the id"):
        admin.message(rocketmq_topic, "7F000001000000000000000000000000")
    sent = [
        rocketmq_producer.send(Message(rocketmq_topic, b"%d" % number, keys="k1"), queue=queue)
        for number in range(3)
    ]
    until(lambda: len(admin.messages_by_key(rocketmq_topic, "k1")) == 3, GUARD_S)
    assert len(admin.messages_by_key(rocketmq_topic, "k1", max_messages=2)) == 2
    assert admin.messages_by_key(rocketmq_topic, "k1", end=BEGIN) == ()
    found = admin.messages_by_time(rocketmq_topic, BEGIN, END)
    assert [one.body for one in found] == [b"0", b"1", b"2"]
    assert admin.messages_by_time(rocketmq_topic, BEGIN, END, max_messages=1) == found[:1]
    stored_at = datetime.fromtimestamp(found[-1].store_timestamp / 1000, UTC)
    later = stored_at + timedelta(seconds=1)
    assert admin.messages_by_time(rocketmq_topic, later, END) == ()
    assert admin.message(rocketmq_topic, sent[1].msg_id).body == b"1"
    by_place = admin.message(rocketmq_topic, sent[2].offset_msg_id)
    assert (by_place.body, by_place.msg_id) == (b"2", sent[2].msg_id)
    at = admin.message_at(queue, 1)
    assert at is not None
    assert at.body == b"1"


def test_a_message_is_tracked_through_the_groups_that_read_its_topic(
    admin: AdminClient,
    rocketmq_topic: str,
    rocketmq_group: str,
    rocketmq_consumer: Consumers,
    filled: list[MessageQueue],
) -> None:
    message = admin.message_at(filled[0], 1)
    assert message is not None

    def state() -> TrackState | None:
        """Of the group; a real 5.3.3 names the topic, too, as if it were one that reads itself."""
        told = {one.group: one.state for one in admin.track(message)}
        return told.get(rocketmq_group)

    assert state() is None
    admin.create_group(rocketmq_group)
    admin.set_offsets(rocketmq_group, {filled[0]: 1})
    assert state() is TrackState.NOT_ONLINE
    inbox = Inbox()
    consumer = rocketmq_consumer(
        None, rocketmq_topic, inbox, persist_consumer_offset_interval=SOON_MS
    )
    until(lambda: state() is TrackState.CONSUMED, GUARD_S)
    until(lambda: len(inbox) >= 2 * len(filled) - 1, GUARD_S)
    before = inbox.bodies.count(message.body)
    told = admin.consume_now(rocketmq_group, consumer.client_id, message)
    assert told.result == "CR_SUCCESS"
    assert inbox.bodies.count(message.body) == before + 1


class Bank:
    """Does not know what became of a transaction until it is told."""

    answer = LocalTransactionState.UNKNOW

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return self.answer

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        return self.answer


@pytest.mark.timeout(300)  # a real broker asks every 5 s, and about what is 6 s old
def test_a_transaction_that_was_given_up_is_decided_after_all(
    admin: AdminClient,
    rocketmq_broker: EmbeddedBroker,
    rocketmq_topic: str,
    rocketmq_group: str,
    broker_name: str,
    forward: Forward,
) -> None:
    bank = Bank()
    most = {"transactionCheckMax": "1"}
    before = {name: admin.broker_options()[broker_name][name] for name in most}
    given_up = MessageQueue("TRANS_CHECK_MAX_TIME_TOPIC", broker_name, 0)

    def parked() -> MessageExt | None:
        """The message where a broker leaves those that it has asked about often enough."""
        try:
            bounds = admin.bounds(given_up.topic)[given_up]
        except NoRouteError:  # there never was one
            return None
        found = (admin.message_at(given_up, one) for one in range(*astuple(bounds)[:2]))
        return next((one for one in found if one and one.msg_id == sent.msg_id), None)

    def stored() -> int:
        return sum(one.max_offset for one in admin.bounds(rocketmq_topic).values())

    with TransactionMQProducer(
        rocketmq_group, namesrv_addr=rocketmq_broker.namesrv_addr, transaction_listener=bank
    ) as producer:
        sent = producer.send_message_in_transaction(Message(rocketmq_topic, b"x"))
        admin.alter_broker(most)
        try:
            forward(parked)
        finally:
            admin.alter_broker(before)
        message = parked()
        assert message is not None
        bank.answer = LocalTransactionState.COMMIT_MESSAGE
        assert stored() == 0
        admin.ask_again(message)
        forward(stored)
    assert stored() == 1


# --- brokers -------------------------------------------------------------------------------


def test_options_of_a_broker_are_shown_and_changed(admin: AdminClient, broker_name: str) -> None:
    name = "transactionCheckMax"
    before = admin.broker_options()[broker_name][name]
    wanted = "12" if before != "12" else "13"
    said = admin.alter_broker({name: wanted}, dry_run=True)
    assert admin.broker_options(broker_name)[broker_name][name] == before
    assert admin.alter_broker({name: wanted}, broker_name)[broker_name].options == (
        said[broker_name].options
    )
    assert admin.broker_options()[broker_name][name] == wanted
    admin.alter_broker({name: before})
    assert admin.broker_options()[broker_name][name] == before


def test_a_broker_says_how_it_is_at_its_name_and_its_address(
    admin: AdminClient, rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, broker_name: str
) -> None:
    until(lambda: answered(admin.broker_runtime), GUARD_S)
    runtime = admin.broker_runtime(broker_name)[broker_name]
    master = admin.brokers()[0].master
    assert master is not None
    assert admin.broker_runtime(master)[master].booted_at == runtime.booted_at
    assert runtime.version in runtime.table["brokerVersionDesc"].replace("_", ".")
    rocketmq_producer.send(Message(rocketmq_topic, b"x"))
    until(
        lambda: admin.broker_runtime()[broker_name].messages_today > runtime.messages_today,
        GUARD_S,
    )
    with pytest.raises(MQClientException, match=rf"broker none.*{broker_name}"):
        admin.broker_runtime("none")


def test_brokers_are_told_while_they_are_there(
    admin: AdminClient, rocketmq_cluster: EmbeddedCluster
) -> None:
    all_of = admin.brokers()
    first, *others = all_of
    assert len(others) == 2
    rocketmq_cluster.stop(first.name)
    assert admin.brokers() == tuple(others)
    rocketmq_cluster.start(first.name)
    assert admin.brokers() == all_of


def test_a_broker_is_closed_and_opened_for_writes(
    admin: AdminClient, rocketmq_topic: str, broker_name: str
) -> None:
    assert admin.route(rocketmq_topic)[0].writable
    assert admin.set_broker_writable(broker_name, writable=False) > 0
    try:
        until(lambda: not admin.route(rocketmq_topic)[0].writable, GUARD_S)
    finally:
        admin.set_broker_writable(broker_name, writable=True)
    until(lambda: admin.route(rocketmq_topic)[0].writable, GUARD_S)


def test_name_servers_keep_values(admin: AdminClient, rocketmq_topic: str) -> None:
    assert admin.key_values(rocketmq_topic) == {}
    admin.put_key_value(rocketmq_topic, "colour", "red")
    assert admin.key_values(rocketmq_topic) == {"colour": "red"}
    admin.put_key_value(rocketmq_topic, "colour", None)
    assert admin.key_values(rocketmq_topic) == {}


# --- timers --------------------------------------------------------------------------------


@pytest.mark.rocketmq(timers=True)
def test_timers_wait_and_leave(
    admin: AdminClient,
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    broker_name: str,
    forward: Forward,
) -> None:
    assert rocketmq_topic not in admin.pending_timers()[broker_name]
    begun = admin.timer_check_point()[broker_name]
    rocketmq_producer.send(Message(rocketmq_topic, b"x", delay=timedelta(seconds=10)))

    def waiting() -> int:
        found = admin.pending_timers(broker_name)[broker_name].get(rocketmq_topic)
        return 0 if found is None else found.count

    until(lambda: waiting() == 1, GUARD_S)
    forward(lambda: waiting() == 0)
    until(lambda: admin.timer_check_point()[broker_name].queue_offset > begun.queue_offset, GUARD_S)


def test_the_offset_of_a_delay_level_moves_with_its_messages(
    admin: AdminClient,
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    broker_name: str,
    forward: Forward,
) -> None:
    def offset() -> int:
        return admin.delay_offsets(broker_name)[broker_name].get(1, 0)

    before = admin.delay_offsets()[broker_name].get(1, 0)
    rocketmq_producer.send(Message(rocketmq_topic, b"x").set_delay_time_level(1))
    forward(lambda: offset() > before)
    assert offset() == before + 1


# --- asyncio -------------------------------------------------------------------------------


def calls_of(kind: type) -> dict[str, inspect.Signature]:
    """The public calls of a class itself."""
    return {
        name: inspect.signature(member)
        for name, member in vars(kind).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }


def test_both_faces_have_the_same_calls() -> None:
    blocking = calls_of(AdminClient)
    assert len(blocking) > 40
    assert not any(inspect.iscoroutinefunction(getattr(AdminClient, name)) for name in blocking)
    awaited = {
        name: inspect.signature(member)
        for name, member in inspect.getmembers(aio.AdminClient, inspect.iscoroutinefunction)
        if not name.startswith("_") and name not in {"start", "shutdown"}
    }
    assert awaited == blocking
    for name, signature in blocking.items():
        assert next(iter(signature.parameters)) == "self"
        assert inspect.getdoc(getattr(AdminClient, name))


def calls_in(function: ast.AST, *, again: bool = False) -> Iterator[tuple[str, bool]]:
    """The calls of ``admin`` in a function, and whether each may be made many times."""
    for node in ast.iter_child_nodes(function):
        inside = again or isinstance(node, ast.Lambda | ast.FunctionDef)
        match node:
            case ast.Attribute(value=ast.Name(id="admin"), attr=name):
                yield name, again
        yield from calls_in(node, again=inside)


def test_every_call_has_a_test_in_which_an_answer_is_looked_at_twice() -> None:
    made: Counter[str] = Counter()
    twice: set[str] = set()
    for path in PROOFS:
        for function in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
            if isinstance(function, ast.FunctionDef):
                found = list(calls_in(function))
                counts = Counter(name for name, _ in found)
                twice |= {name for name, again in found if again or counts[name] > 1}
                made += counts
    calls = calls_of(AdminClient).keys()
    assert calls - made.keys() == set()
    assert calls - twice == MADE_ONCE


def test_an_event_loop_awaits_the_same_acts(
    rocketmq_broker: EmbeddedBroker, rocketmq_topic: str, rocketmq_group: str
) -> None:
    async def program() -> None:
        async with aio.AdminClient(namesrv_addr=rocketmq_broker.namesrv_addr) as admin:
            name = f"{rocketmq_topic}-made"
            assert await admin.route(name) == ()
            (place,) = await admin.ensure_topic(name, queues=3)
            settings, bounds = await asyncio.gather(admin.topic_settings(name), admin.bounds(name))
            assert settings[place.broker_name].write_queues == len(bounds) == 3
            await admin.create_group(rocketmq_group)
            moved = await admin.set_offsets(rocketmq_group, dict.fromkeys(bounds, 1))
            assert {one.after for one in moved.moves.values()} == {1}
            progress = await admin.group_progress(rocketmq_group)
            assert {one.committed for one in progress.queues.values()} == {1}
            with pytest.raises(NoRouteError, match="nowhere"):
                await admin.topic_settings("nowhere")
            await admin.delete_group(rocketmq_group)
            assert rocketmq_group not in await admin.group_names()

    asyncio.run(program())

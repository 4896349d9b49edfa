"""What an administrator asks of several brokers, of old ones, and of those that are not there."""

from __future__ import annotations

import asyncio
import inspect
import pickle
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, EmbeddedCluster
from rocketmq_py import (
    ClientClosedError,
    ConfigError,
    DefaultMQProducer,
    FlowControlError,
    IllegalStateError,
    Message,
    MessageQueue,
    MQBrokerException,
    MQClientException,
    NameServerUnavailableError,
    NoRouteError,
    NotStartedError,
    PermissionDeniedError,
    RemotingException,
    RequestNotSupportedError,
    UnsupportedOperationError,
    aio,
)
from rocketmq_py.admin import AdminClient, AdminConfig, GroupSettings, Policy, TopicMessageType
from rocketmq_py.administration import table
from rocketmq_py.administration.servers import finished
from rocketmq_py.administration.table import Row, Whom
from rocketmq_py.client.asking import Address, AnyOf
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.rocketmq_py.scripted import ScriptedServer

ROWS = {name: one for name, one in vars(table).items() if isinstance(one, Row)}


def test_a_topic_is_made_at_every_master_or_at_one() -> None:
    with (
        EmbeddedCluster(brokers=3) as cluster,
        AdminClient(namesrv_addr=cluster.namesrv_addr) as admin,
    ):
        names = [one.name for one in admin.brokers()]
        assert len(names) == 3
        assert [one.broker_name for one in admin.ensure_topic("All", queues=2)] == names
        assert set(admin.bounds("All")) == {
            MessageQueue("All", name, number) for name in names for number in range(2)
        }
        assert list(admin.create_topic("One", queues=1, at=names[1])) == [names[1]]
        assert list(admin.topic_settings("One")) == [names[1]]
        change = admin.alter_topic("All", write_queues=5, at=names[0])
        assert list(change) == [names[0]]
        counts = {name: one.write_queues for name, one in admin.topic_settings("All").items()}
        assert counts == {names[0]: 5, names[1]: 2, names[2]: 2}
        assert admin.ensure_topic("One", queues=1)
        assert list(admin.topic_settings("One")) == names


def test_a_broker_that_refuses_is_named_with_those_that_did_it() -> None:
    with (
        EmbeddedCluster(brokers=2) as cluster,
        AdminClient(namesrv_addr=cluster.namesrv_addr) as admin,
    ):
        first, second = (one.name for one in admin.brokers())
        code = RequestCode.UPDATE_AND_CREATE_TOPIC
        cluster[second].faults.on(code).respond(ResponseCode.SYSTEM_BUSY).always()
        with pytest.raises(FlowControlError) as told:
            admin.create_topic("T")
        assert told.value.address == cluster[second].addr
        assert told.value.__notes__ == [f"{first} did it, the others did not"]
        assert list(admin.topic_settings("T")) == [first]


def test_only_brokers_of_the_cluster_are_asked() -> None:
    with (
        EmbeddedBroker(topics=["T"]) as broker,
        AdminClient(namesrv_addr=broker.namesrv_addr, cluster="Other") as admin,
    ):
        assert admin.brokers() == ()
        assert admin.route("T") == ()
        with pytest.raises(MQClientException, match="of cluster Other"):
            admin.create_topic("U")


def test_an_address_needs_no_name_server_and_everything_else_says_so() -> None:
    with EmbeddedBroker() as broker, AdminClient() as admin:
        assert list(admin.broker_options(broker.addr)) == [broker.addr]
        with pytest.raises(NameServerUnavailableError, match="namesrv_addr"):
            admin.topic_names()
        with pytest.raises(ConfigError, match="host:port"):
            admin.broker_options("nowhere:port")


def test_a_name_server_that_is_silent_does_not_count_while_another_one_answers() -> None:
    dead = ScriptedServer()
    dead.close()
    with EmbeddedBroker(topics=["T"]) as broker:
        both = f"{dead.address};{broker.namesrv_addr}"
        with AdminClient(namesrv_addr=both, timeout_millis=2_000) as admin:
            assert admin.route("T") != ()
            assert "T" in admin.topic_names()
            with pytest.raises(RemotingException) as told:
                admin.put_key_value("N", "k", "v")  # a change is for all of them
            assert told.value.__notes__ == [f"{broker.namesrv_addr} did it, the others did not"]
        with (
            AdminClient(namesrv_addr=dead.address, timeout_millis=500) as admin,
            pytest.raises(NameServerUnavailableError, match="no name server answers"),
        ):
            admin.route("T")


def test_brokers_are_reached_where_the_mapper_says() -> None:
    with EmbeddedBroker(topics=["T"]) as broker:
        known = {"broker.example:10911": broker.addr}
        with AdminClient(
            namesrv_addr=broker.namesrv_addr, address_mapper=lambda _: "broker.example:10911"
        ) as admin:
            assert [one.master for one in admin.brokers()] == list(known)
            assert [one.addresses for one in admin.route("T")] == [{0: "broker.example:10911"}]
        with AdminClient(
            namesrv_addr=broker.namesrv_addr, address_mapper=lambda _: broker.addr
        ) as admin:
            sent = broker.send("T", b"x")
            assert admin.message("T", sent.offset_msg_id).body == b"x"


def test_a_name_server_that_refuses_is_heard() -> None:
    with closing(ScriptedServer()) as server:
        server.answer(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.NO_PERMISSION, "go away")
        with (
            AdminClient(namesrv_addr=server.address) as admin,
            pytest.raises(PermissionDeniedError, match="go away"),
        ):
            admin.route("T")


# --- old brokers ---------------------------------------------------------------------------


def test_a_broker_of_4_9_is_asked_in_the_ways_that_it_knows() -> None:
    with (
        EmbeddedBroker(profile="rocketmq-4.9") as broker,
        AdminClient(namesrv_addr=broker.namesrv_addr) as admin,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        admin.ensure_topic("T", queues=2)
        assert admin.topic_settings("T")["broker-a"].write_queues == 2
        sent = [producer.send(Message("T", b"%d" % number)) for number in range(4)]
        admin.create_group("G")
        queues = {one.message_queue: 1 for one in sent}
        admin.set_offsets("G", queues)
        assert admin.group_progress("G").lag == 2
        assert admin.skip_backlog("G", "T").moves.keys() == queues.keys()
        assert admin.group_progress("G").lag == 0
        admin.clone_offsets("G", "Other")
        assert admin.group_progress("Other").lag == 0
        assert len(admin.messages_by_time("T", datetime(2020, 1, 1, tzinfo=UTC), END)) == 4
        assert admin.broker_runtime()["broker-a"].timers_pending is None
        with pytest.raises(UnsupportedOperationError, match=r"message\.type.*4\.9\.4"):
            admin.ensure_topic("U", message_type=TopicMessageType.DELAY)
        assert admin.route("U") == ()
        for call in (admin.pending_timers, admin.timer_check_point, admin.policies):
            with pytest.raises(RequestNotSupportedError, match=r"4\.9\.4"):
                call()
        with pytest.raises(MQBrokerException) as told:
            admin.set_request_mode("T", "G", "POP")
        assert told.value.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


END = datetime(2090, 1, 1, tzinfo=UTC)


# --- what is refused -----------------------------------------------------------------------


def test_what_no_server_would_take_is_refused_before_anything_is_asked() -> None:
    with (
        EmbeddedBroker(topics=["T"]) as broker,
        AdminClient(namesrv_addr=broker.namesrv_addr) as admin,
    ):
        queue = MessageQueue("T", "broker-a", 0)
        refused: list[tuple[Any, str]] = [
            (lambda: admin.create_topic("no blanks"), "topic"),
            (lambda: admin.create_topic("U", queues=0), "queues"),
            (lambda: admin.alter_topic("T", read_queues=0), "queues"),
            (lambda: admin.create_group("no blanks"), "group"),
            (
                lambda: admin.create_group(
                    "G", GroupSettings(consume_timeout=timedelta(seconds=90))
                ),
                "whole minutes",
            ),
            (lambda: admin.set_offsets("G", {queue: -1}), "offset of"),
            (lambda: admin.reset_offsets("G", "T", "middle"), "'first', 'last'"),  # type: ignore[arg-type] # the mistake
            (lambda: admin.messages_by_key("T", "k", max_messages=0), "max_messages"),
            (lambda: admin.alter_broker({}), "an option at least"),
            (lambda: admin.alter_broker({"a=b": "c"}), "its name"),
            (lambda: admin.alter_broker({"#a": "c"}), "its name"),
            (lambda: admin.alter_broker({"a": "b\nc=d"}), "one line"),
            (lambda: admin.alter_topic("T", attributes={"a,b": "c"}), "no comma"),
            (lambda: admin.alter_topic("T", attributes={"a": ""}), "no comma"),
            (lambda: admin.ensure_topic("U", within=5), "timedelta"),  # type: ignore[arg-type] # the mistake
            (lambda: admin.set_request_mode("T", "G", "PUSH"), "PULL or POP"),
        ]
        for call, text in refused:
            with pytest.raises(ConfigError, match=text):
                call()
        with pytest.raises(TypeError, match="time zone"):
            admin.messages_by_time("T", datetime(2020, 1, 1), END)  # noqa: DTZ001 - the mistake
        changing = {one.code for one in ROWS.values() if one.changes}
        assert [one for one in broker.journal.requests() if one.code in changing] == []


def test_no_dry_run_changes_anything() -> None:
    """Every call that has ``dry_run`` asks only what the table says to change nothing."""
    broker_of = "broker-a"
    with (
        EmbeddedBroker(topics=["T"]) as broker,
        AdminClient(namesrv_addr=broker.namesrv_addr) as admin,
    ):
        queue = MessageQueue("T", broker_of, 0)
        admin.create_group("G")
        admin.set_offsets("G", {queue: 0})
        admin.create_user("u", "12345678")
        calls: dict[str, tuple[object, ...]] = {
            "create_topic": ("U",),
            "alter_topic": ("T",),
            "delete_topic": ("T",),
            "create_group": ("H",),
            "alter_group": ("G",),
            "delete_group": ("G",),
            "reset_offsets": ("G", "T", "last"),
            "skip_backlog": ("G", "T"),
            "set_offsets": ("G", {queue: 0}),
            "clone_offsets": ("G", "H"),
            "alter_broker": ({"transactionCheckMax": "9"},),
            "delete_user": ("u",),
            "delete_policies": ("u",),
            "alter_user": ("u",),
            "put_policies": ("u", [Policy("Topic:T", ("Pub",))]),
        }
        have = {
            name
            for name, member in vars(AdminClient).items()
            if inspect.isfunction(member) and "dry_run" in inspect.signature(member).parameters
        }
        assert have == set(calls)
        changing = {one.code for one in ROWS.values() if one.changes}
        changing.add(RequestCode.UPDATE_CONSUMER_OFFSET)
        before = len(broker.journal.requests())
        for name, arguments in calls.items():
            getattr(admin, name)(*arguments, dry_run=True)
        asked = broker.journal.requests()[before:]
        assert asked
        assert [one for one in asked if one.code in changing] == []


# --- the table and the two ways to run an act ------------------------------------------------


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_row_goes_only_to_whom_it_is_for(row: Row[Any]) -> None:
    right, wrong = Address("a:1"), AnyOf(("a:1",))
    if row.whom is Whom.ANY_NAME_SERVER:
        right, wrong = wrong, right  # type: ignore[assignment] # either of the two
    required = {} if row.header is None else {f.name: "1" for f in row.header.FIELDS}
    assert row.at(right, **required).code == row.code  # type: ignore[arg-type] # names of fields
    with pytest.raises(TypeError, match=row.code.name):
        row.at(wrong, **required)  # type: ignore[arg-type] # names of fields


def test_an_act_that_suspends_is_not_taken_for_a_result() -> None:
    with pytest.raises(RuntimeError, match="has suspended"):
        finished(asyncio.sleep(0))


def test_an_answer_that_cannot_be_read_is_an_error_that_names_the_body() -> None:
    with closing(ScriptedServer()) as server, AdminClient() as admin:
        server.on(
            RequestCode.GET_TIMER_METRICS,
            lambda request, _: request.answer(ResponseCode.SUCCESS, body=b'{"timingCount":[]}'),
        )
        with pytest.raises(ValueError, match="TimerCounts"):
            admin.pending_timers(server.address)


def test_an_ensured_topic_that_no_route_shows_is_an_error_in_bounded_time() -> None:
    with (
        EmbeddedBroker() as broker,
        AdminClient(namesrv_addr=broker.namesrv_addr) as admin,
    ):
        admin.ensure_topic("T", queues=1)
        admin.set_broker_writable("broker-a", writable=False)
        with pytest.raises(NoRouteError, match="writable queues at broker-a"):
            admin.ensure_topic("T", queues=1, within=timedelta(0))


def test_an_awaited_client_has_the_life_of_every_client() -> None:
    async def program(namesrv_addr: str) -> aio.AdminClient:
        admin = aio.AdminClient(namesrv_addr=namesrv_addr)
        assert "new" in repr(admin)
        with pytest.raises(NotStartedError):
            await admin.topic_names()
        async with admin:
            assert "T" in await admin.topic_names()
            with pytest.raises(MQClientException, match="starts once"):
                await admin.start()
        assert "closed" in repr(admin)
        with pytest.raises(ClientClosedError):
            await admin.topic_names()
        with pytest.raises(TypeError, match="AdminConfig"):
            pickle.dumps(admin)
        unused = aio.AdminClient(namesrv_addr=namesrv_addr)
        await unused.shutdown()
        with pytest.raises(ClientClosedError):
            await unused.start()
        return admin

    async def elsewhere(admin: aio.AdminClient) -> None:
        with pytest.raises(IllegalStateError, match="event loop"):
            await admin.topic_names()

    with EmbeddedBroker(topics=["T"]) as broker:
        asyncio.run(elsewhere(asyncio.run(program(broker.namesrv_addr))))


def test_the_settings_of_an_administrator_are_a_value_too() -> None:
    admin = AdminClient(namesrv_addr="a:1", timeout_millis=7, cluster="C")
    copy = pickle.loads(pickle.dumps(AdminConfig.of(admin)))  # noqa: S301 - our own bytes
    assert (copy.namesrv_addr, copy.timeout_millis, copy.cluster) == ("a:1", 7, "C")

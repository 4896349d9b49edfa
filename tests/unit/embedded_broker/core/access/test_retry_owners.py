"""Whose a retry topic is: of a group, of a group and a topic, or of several that share its name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedded_broker import EmbeddedBroker, PlainAccount, PlainAcl, VirtualClock
from embedded_broker.core.access.retry_owners import RetryOwners
from embedded_broker.core.guards import Resource, ResourceKind
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.profiles import find_profile
from embedded_broker.tables.consumers.groups import GroupTable
from embedded_broker.tables.offsets.table import OffsetTable
from rocketmq_py.protocol.codes import PullSysFlag, RequestCode
from tests.unit.embedded_broker.core.access.signed import SECRET
from tests.unit.embedded_broker.core.access.test_other_accounts import ANN, BOB, KINDS, MARK, World
from tests.unit.embedded_broker.wire_peer import pull_fields, send_fields

CLUSTER = Resource(ResourceKind.CLUSTER)


def group(name: str) -> Resource:
    return Resource(ResourceKind.GROUP, name)


def topic(name: str) -> Resource:
    return Resource(ResourceKind.TOPIC, name)


def owners(*, has_pop: bool = True, **options: bool) -> RetryOwners:
    """Knows a group `a_b_c` that consumes nothing, and what others have consumed."""
    config = BrokerConfig(options)
    groups = GroupTable(config, find_profile("rocketmq-5.x"), VirtualClock())
    offsets = OffsetTable()
    groups.find("a_b_c")
    offsets.commit("a_b", "c", 3, 0)
    offsets.commit("a", "%RETRY%a_b_c", 0, 0)
    offsets.commit("x", "y", 0, 0)
    for name, read in (("q_r", "s"), ("q", "r_s"), ("q_r_s", "%RETRY%q_r_s")):
        offsets.commit(name, read, 0, 0)
    return RetryOwners(config=config, groups=groups, offsets=offsets, has_pop=has_pop)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("%RETRY%G", [group("G")]),
        ("%RETRY%G_T", [group("G_T")]),
        ("%RETRY%x_y", [group("x"), topic("y")]),
        ("%RETRY%_y", [group("_y")]),
        ("%RETRY%x_", [group("x_")]),
        ("%RETRY%G+T", [group("G"), topic("T")]),
        ("%RETRY%G_x+T_y", [group("G_x"), topic("T_y")]),
        ("%RETRY%G+rmq_sys_wheel_timer", [group("G"), CLUSTER]),
        ("%RETRY%G+%RETRY%H", [group("G"), group("H")]),
        ("%RETRY%CID_RMQ_SYS_TRANS", [CLUSTER]),
        (
            "%RETRY%a_b_c",
            [group("a_b_c"), group("a"), topic("b_c"), group("a_b"), topic("c")],
        ),
    ],
)
def test_a_retry_topic_is_of_every_known_group_and_topic_that_it_may_name(
    name: str, expected: list[Resource]
) -> None:
    assert owners().of(name) == expected


def test_a_version_without_pop_knows_retry_topics_of_groups_only() -> None:
    assert owners(has_pop=False).of("%RETRY%x_y") == [group("x_y")]


def test_only_retry_topics_are_resolved_and_each_owner_is_named_once() -> None:
    about = [topic("%RETRY%x_y"), group("x"), topic("T_y"), CLUSTER]
    assert owners().resolved(about) == [group("x"), topic("y"), topic("T_y"), CLUSTER]
    assert owners().resolved(about[1:]) is not about
    assert owners().resolved(about[1:]) == about[1:]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [group("q_r_s"), group("q"), topic("r_s")]),
        ({"enableRetryTopicV2": True}, [group("q_r_s"), group("q"), topic("r_s")]),
        ({"enableRetryTopicV2": True, "retrieveMessageFromPopRetryTopicV1": False}, []),
    ],
)
def test_beside_a_pop_stand_those_whose_messages_come_back_under_the_same_name(
    options: dict[str, bool], expected: list[Resource]
) -> None:
    assert owners(**options).beside("q_r", "s") == expected
    assert owners(**options).beside("x", "y") == []


def test_a_group_that_merely_exists_stands_in_the_way_of_no_pop() -> None:
    assert owners().beside("a_b", "c") == [group("a"), topic("b_c")]


def account(name: str, topic: str, group: str) -> PlainAccount:
    return PlainAccount(
        access_key=name,
        secret_key=SECRET,
        topic_perms={topic: "PUB|SUB"},
        group_perms={group: "SUB"},
    )


@pytest.mark.parametrize("is_v2", [False, True])
def test_a_pop_does_not_get_what_another_group_of_a_like_name_did_not_ack(
    start_broker: Callable[..., EmbeddedBroker], is_v2: bool
) -> None:
    """The group `G` with the topic `X_Y` and the group `G_X` with `Y` share `%RETRY%G_X_Y`."""
    session = VirtualClock()
    broker = start_broker(
        acl=PlainAcl(accounts=[account(ANN, "X_Y", "G"), account(BOB, "Y", "G_X")]),
        tcp=False,
        topics=["X_Y", "Y"],
        session_clock=session,
        config={"enableRetryTopicV2": is_v2, "retrieveMessageFromPopRetryTopicV1": not is_v2},
    )
    world = World(broker, session)
    world.send(ANN, "X_Y")
    assert b"of ann" in world.pop(ANN, "G", "X_Y")
    world.send(BOB, "Y")
    if is_v2:
        assert MARK in world.pop(BOB, "G_X", "Y")
    else:
        assert world.pop(BOB, "G_X", "Y") == b""
    world.let_time_pass()
    for _ in range(3):
        assert MARK not in world.pop(ANN, "G", "X_Y")
    assert (b"of ann" in world.heard(BOB)) is False
    assert MARK not in world.heard(ANN)


def test_a_pull_that_waits_is_judged_again_when_there_is_a_message(
    start_broker: Callable[..., EmbeddedBroker],
) -> None:
    """When it came nobody had popped yet, and the retry topic was not known as Bob's."""
    session = VirtualClock()
    broker = start_broker(
        acl=KINDS["ACL 1, open but one"], tcp=False, topics=["Aa", "BB"], session_clock=session
    )
    world = World(broker, session)
    popped = "%RETRY%GB_BB"
    world.must(ANN, RequestCode.SEND_MESSAGE_V2, send_fields(popped), b"of ann")
    waiting = {
        "consumerGroup": "GA",
        "queueOffset": "1",
        "sysFlag": str(int(PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION)),
        "suspendTimeoutMillis": str(2**40),
    }
    answer = world.ask(ANN, RequestCode.PULL_MESSAGE, pull_fields(popped) | waiting)
    assert answer is None
    world.fill()
    world.let_time_pass()
    assert any(one.topic == popped and one.body == MARK for one in world.stored())
    assert MARK not in world.heard(ANN)
    remarks = [one.remark for one in world.peers[ANN].answers if one.remark]
    assert remarks[-1].endswith("No default permission for group:GB")

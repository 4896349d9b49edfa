"""Requests 50 to 53 change the accounts that other requests are judged by."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedded_broker import EmbeddedBroker, PlainAccount, PlainAcl
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.json_text import loads
from tests.unit.embedded_broker.core.access.signed import SECRET, ask
from tests.unit.embedded_broker.wire_peer import send_fields

ADMIN = PlainAccount(access_key="administrator", secret_key=SECRET, admin=True)
PUT, DELETE = RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, RequestCode.DELETE_ACL_CONFIG
WHITE, INFO = (
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO,
)


@pytest.fixture
def broker(start_broker: Callable[..., EmbeddedBroker]) -> EmbeddedBroker:
    return start_broker(
        acl=PlainAcl(accounts=[ADMIN]), profile="rocketmq-4.9", tcp=False, topics=["T", "U"]
    )


def put(broker: EmbeddedBroker, **fields: str) -> tuple[int, str | None]:
    given = {"accessKey": "someone1", "admin": "false", **fields}
    answer = ask(broker, PUT, given, key="administrator")
    return answer.code, answer.remark


def may_send(broker: EmbeddedBroker, topic: str = "T", **how: str) -> bool:
    return ask(broker, 310, send_fields(topic), b"body", **{"key": "someone1", **how}).code == 0


def test_an_account_may_send_from_the_moment_at_which_it_is_created(broker: EmbeddedBroker) -> None:
    assert not may_send(broker)
    assert put(broker, secretKey=SECRET, topicPerms="T=PUB|SUB,V=SUB") == (0, None)
    assert (may_send(broker), may_send(broker, "U")) == (True, False)


def test_what_a_change_does_not_name_stays(broker: EmbeddedBroker) -> None:
    put(broker, secretKey=SECRET, topicPerms="T=PUB")
    assert put(broker, defaultTopicPerm="PUB") == (0, None)
    assert (may_send(broker), may_send(broker, "U")) == (True, True)
    assert put(broker, topicPerms="T=DENY") == (0, None)
    assert (may_send(broker), may_send(broker, "U")) == (False, True)


def test_an_account_that_is_removed_may_nothing(broker: EmbeddedBroker) -> None:
    put(broker, secretKey=SECRET, defaultTopicPerm="PUB")
    assert may_send(broker)
    assert ask(broker, DELETE, {"accessKey": "someone1"}, key="administrator").code == 0
    assert not may_send(broker)
    again = ask(broker, DELETE, {"accessKey": "someone1"}, key="administrator")
    assert again.code == 210
    assert "The accesskey[someone1]" in (again.remark or "")


def test_addresses_need_no_account_once_they_are_white(broker: EmbeddedBroker) -> None:
    assert not may_send(broker, host="10.8.8.8", secret="wrong one")
    asked = {"globalWhiteAddrs": "10.8.8.*, 10.9.9.9"}
    assert ask(broker, WHITE, asked, key="administrator").code == 0
    assert may_send(broker, host="10.8.8.8", secret="wrong one")
    assert may_send(broker, host="10.9.9.9", secret="wrong one")
    bad = ask(broker, WHITE, {"globalWhiteAddrs": "10.8"}, key="administrator")
    assert (bad.code, may_send(broker, host="10.8.8.8")) == (211, True)
    other = {"globalWhiteAddrs": "10.8.8.8", "aclFileFullPath": "/etc/passwd"}
    assert ask(broker, WHITE, other, key="administrator").code == 211


def test_the_version_counts_changes(broker: EmbeddedBroker) -> None:
    def version() -> tuple[int, str]:
        answer = ask(broker, INFO, {}, key="administrator").ext_fields
        assert (answer["brokerName"], answer["clusterName"]) == ("broker-a", "DefaultCluster")
        return loads(answer["version"])["counter"], answer["allAclFileVersion"]

    assert version()[0] == 0
    put(broker, secretKey=SECRET)
    assert version()[0] == 1
    assert '"memory"' in version()[1]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"secretKey": "short"},
        {"secretKey": SECRET, "topicPerms": "T"},
        {"secretKey": SECRET, "topicPerms": "T=READ"},
        {"secretKey": SECRET, "defaultGroupPerm": "ALL"},
        {"secretKey": SECRET, "whiteRemoteAddress": "10.1"},
        {"accessKey": "short", "secretKey": SECRET},
    ],
)
def test_a_bad_account_is_209_and_changes_nothing(
    broker: EmbeddedBroker, fields: dict[str, str]
) -> None:
    code, remark = put(broker, **fields)
    assert code == 209
    assert SECRET not in (remark or "")
    assert not may_send(broker)


def test_without_access_control_there_is_nothing_to_change(
    start_broker: Callable[..., EmbeddedBroker],
) -> None:
    broker = start_broker(profile="rocketmq-4.9", tcp=False)
    assert ask(broker, PUT).code == 209
    assert ask(broker, DELETE).code == 210
    assert ask(broker, WHITE).code == 211
    assert ask(broker, INFO).code == 1


def test_5x_has_no_such_requests(start_broker: Callable[..., EmbeddedBroker]) -> None:
    broker = start_broker(tcp=False)
    assert {ask(broker, code).code for code in (PUT, DELETE, WHITE, INFO)} == {3}

"""Requests 3001 to 3010 change who may do what; the next request is judged by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from embedded_broker import AuthUser, EmbeddedBroker, UserAcl
from rocketmq_py.protocol.json_text import dumps, loads
from tests.unit.embedded_broker.core.access.signed import SECRET, ask
from tests.unit.embedded_broker.wire_peer import send_fields

EXCEPTION = "org.apache.rocketmq.auth.authorization.exception.AuthorizationException: "
USERS = UserAcl(
    users=[
        AuthUser(username="root", password=SECRET, superuser=True),
        AuthUser(username="admin", password=SECRET),
    ]
)


@pytest.fixture
def broker(start_broker: Callable[..., EmbeddedBroker]) -> EmbeddedBroker:
    return start_broker(acl=USERS, tcp=False, topics=["T", "U"])


def change(
    broker: EmbeddedBroker, code: int, fields: dict[str, str], body: Any = None, key: str = "root"
) -> tuple[int, str | None]:
    data = b"" if body is None else dumps(body)
    answer = ask(broker, code, fields, data, key=key)
    return answer.code, answer.remark


def shown(broker: EmbeddedBroker, code: int, **fields: str) -> Any:
    answer = ask(broker, code, fields, key="root")
    assert answer.code == 0, answer.remark
    return loads(answer.body) if answer.body else None


def may_send(broker: EmbeddedBroker, topic: str = "T", secret: str = SECRET) -> bool:
    return ask(broker, 310, send_fields(topic), b"b", key="bob", secret=secret).code == 0


def acl(*entries: tuple[str, list[str], str], kind: str | None = None) -> dict[str, Any]:
    made = [{"resource": r, "actions": a, "decision": d} for r, a, d in entries]
    return {"subject": "User:bob", "policies": [{"policyType": kind, "entries": made}]}


def create_bob(broker: EmbeddedBroker, **more: str) -> tuple[int, str | None]:
    return change(broker, 3001, {"username": "bob"}, {"password": SECRET, **more})


BOB = {"subject": "User:bob"}


def test_a_user_and_a_policy_are_made_and_count_at_once(broker: EmbeddedBroker) -> None:
    assert not may_send(broker)
    assert create_bob(broker) == (0, None)
    assert not may_send(broker)
    assert change(broker, 3006, BOB, acl(("Topic:T", ["Pub"], "Allow"))) == (0, None)
    assert (may_send(broker), may_send(broker, "U")) == (True, False)


def test_a_policy_about_the_same_resource_takes_the_place_of_the_old_one(
    broker: EmbeddedBroker,
) -> None:
    create_bob(broker)
    change(broker, 3006, BOB, acl(("Topic:T", ["Pub"], "Allow"), ("Topic:U", ["Pub"], "Allow")))
    assert change(broker, 3007, BOB, acl(("Topic:T", ["Pub"], "Deny"))) == (0, None)
    assert (may_send(broker), may_send(broker, "U")) == (False, True)
    assert change(broker, 3008, {**BOB, "resource": "Topic:T"}) == (0, None)
    change(broker, 3006, BOB, acl(("Topic:*", ["Pub"], "Allow")))
    assert may_send(broker)
    assert change(broker, 3008, BOB) == (0, None)
    assert not may_send(broker, "U")


def test_default_policies_count_where_no_other_fits(broker: EmbeddedBroker) -> None:
    create_bob(broker)
    change(broker, 3006, BOB, acl(("Topic:*", ["Pub"], "Allow"), kind="default"))
    assert may_send(broker)
    change(broker, 3006, BOB, acl(("Topic:T", ["Pub"], "Deny")))
    assert (may_send(broker), may_send(broker, "U")) == (False, True)
    change(broker, 3008, {**BOB, "policyType": "Custom", "resource": "Topic:T"})
    assert may_send(broker)


def test_a_user_is_changed_and_removed(broker: EmbeddedBroker) -> None:
    create_bob(broker, userType="Super")
    assert may_send(broker)
    bob = {"username": "bob"}
    assert change(broker, 3002, bob, {"password": "another secret"}) == (0, None)
    assert (may_send(broker), may_send(broker, secret="another secret")) == (False, True)
    assert change(broker, 3002, bob, {"userStatus": "disable"}) == (0, None)
    assert not may_send(broker, secret="another secret")
    change(broker, 3002, bob, {"userStatus": "enable", "userType": "normal"})
    assert not may_send(broker, secret="another secret")
    change(broker, 3006, BOB, acl(("Topic:T", ["Pub"], "Allow")))
    assert may_send(broker, secret="another secret")
    assert change(broker, 3003, bob) == (0, None)
    assert change(broker, 3003, bob) == (0, None)  # gone already
    create_bob(broker)
    assert not may_send(broker)  # its policies went with it


def test_only_a_super_user_touches_super_users(broker: EmbeddedBroker) -> None:
    body = {
        "subject": "User:admin",
        "policies": [
            {"entries": [{"resource": "Cluster:*", "actions": ["All"], "decision": "Allow"}]}
        ],
    }
    assert change(broker, 3006, {}, body) == (0, None)
    told = "The super user can only be create by super user"
    new = {"password": SECRET, "userType": "Super"}
    assert change(broker, 3001, {"username": "bob"}, new, "admin") == (1, told)
    told = "The super user can only be update by super user"
    assert change(broker, 3002, {"username": "admin"}, new, "admin") == (1, told)
    assert change(broker, 3002, {"username": "root"}, {"password": "x"}, "admin") == (16, told)
    assert change(broker, 3003, {"username": "root"}, None, "admin") == (16, told)
    assert change(broker, 3001, {"username": "bob"}, {"password": SECRET}, "admin") == (0, None)


def test_what_is_there_is_shown(broker: EmbeddedBroker) -> None:
    create_bob(broker)
    assert shown(broker, 3004, username="bob") == {
        "username": "bob",
        "password": SECRET,
        "userType": "Normal",
        "userStatus": "enable",
    }
    assert shown(broker, 3004, username="nobody") is None
    assert [user["username"] for user in shown(broker, 3005)] == ["admin", "bob", "root"]
    assert [user["username"] for user in shown(broker, 3005, filter="oo")] == ["root"]
    assert shown(broker, 3005, filter="none") is None

    assert shown(broker, 3009, subject="User:bob") is None
    entries = [("Topic:T*", ["Pub"], "Allow"), ("Group:G", ["Sub", "Get"], "Deny")]
    change(broker, 3006, BOB, acl(*entries))
    found = shown(broker, 3009, subject="User:bob")
    assert found["subject"] == "User:bob"
    (policy,) = found["policies"]
    assert policy["policyType"] == "Custom"
    assert [(e["resource"], e["actions"], e["decision"]) for e in policy["entries"]] == entries
    assert [one["subject"] for one in shown(broker, 3010)] == ["User:bob"]
    assert shown(broker, 3010, subjectFilter="root") is None
    (filtered,) = shown(broker, 3010, resourceFilter="Group")
    assert [one["resource"] for one in filtered["policies"][0]["entries"]] == ["Group:G"]


@pytest.mark.parametrize(
    ("code", "fields", "body", "answer"),
    [
        (3001, {}, {"password": "x"}, (29, "The username is blank")),
        (3001, {"username": "bob"}, {}, (16, "password can not be blank")),
        (3001, {"username": "root"}, {"password": "x"}, (16, "The user is existed")),
        (3002, {"username": "no"}, {"password": "x"}, (16, "The user is not exist")),
        (3004, {}, None, (29, "The username is blank")),
        (3006, BOB, {}, (1, f"{EXCEPTION}The body of acl is null")),
        (3006, BOB, {"policies": [{}]}, (16, "The policies is empty.")),
        (
            3006,
            {},
            acl(("Topic:T", ["Pub"], "Allow")),
            (16, "The subject of User:bob is not exist."),
        ),
        (3006, {}, acl(("Queue:T", ["Pub"], "Allow")), (16, "The resource is null.")),
        (3006, {}, acl(("Topic:T", [], "Allow")), (16, "The actions is empty.")),
        (3006, {}, acl(("Topic:T", ["Any"], "Allow")), (16, "The actions can not be Any.")),
        (3006, {}, acl(("Topic:T", ["Pub"], "?")), (16, "The decision is null or illegal.")),
        (3006, {"subject": "Role:x"}, {"policies": [1]}, (16, "The subject type is null.")),
        (3008, BOB, None, (16, "The subject is not exist.")),
        (3008, {"subject": "User:root"}, None, (16, "The acl is not exist.")),
        (3009, BOB, None, (16, "The subject is not exist.")),
    ],
)
def test_what_cannot_be_is_refused_in_the_words_of_the_original(
    broker: EmbeddedBroker,
    code: int,
    fields: dict[str, str],
    body: Any,
    answer: tuple[int, str],
) -> None:
    before = shown(broker, 3005), shown(broker, 3010)
    assert change(broker, code, fields, body) == answer
    assert (shown(broker, 3005), shown(broker, 3010)) == before


def test_a_bad_source_is_refused(broker: EmbeddedBroker) -> None:
    create_bob(broker)
    for ips, told in (([" "], "The source ip is empty."), (["10.1"], "The source ip is invalid.")):
        body = acl(("Topic:T", ["Pub"], "Allow"))
        body["policies"][0]["entries"][0]["sourceIps"] = ips
        assert change(broker, 3006, BOB, body) == (16, told)


def test_4_9_has_no_such_requests(start_broker: Callable[..., EmbeddedBroker]) -> None:
    broker = start_broker(profile="rocketmq-4.9", tcp=False)
    assert {ask(broker, code, {}).code for code in range(3001, 3011)} == {3}


def test_a_change_that_cannot_be_saved_says_so(broker: EmbeddedBroker) -> None:
    broker.faults.disk.fill_after(bytes=0)
    code, remark = create_bob(broker)
    broker.faults.disk.clear()
    assert code == 1
    assert "not saved" in (remark or "")

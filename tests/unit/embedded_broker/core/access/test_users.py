"""ACL 2: users sign, and policies say what each may do with what, from where."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embedded_broker import AuthPolicy, AuthUser, EmbeddedBroker, UserAcl
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.json_text import dumps, loads
from tests.unit.embedded_broker.core.access.signed import ALL_FORMS, SECRET, ask, everything
from tests.unit.embedded_broker.wire_peer import pull_fields, send_fields

HOST = "10.1.2.3"
USERS = UserAcl(
    users=[
        AuthUser(username="root", password=SECRET, superuser=True),
        AuthUser(username="alice", password=SECRET),
        AuthUser(username="nothing", password=SECRET),
        AuthUser(username="gone", password=SECRET, enabled=False),
    ],
    policies=[
        AuthPolicy(username="alice", resources=["Topic:T", "Group:G"], actions=["Pub", "Sub"]),
        AuthPolicy(username="nothing", resources=["*"], actions=["All"], decision="Deny"),
    ],
)


@pytest.fixture
def broker(start_broker: Callable[..., EmbeddedBroker]) -> EmbeddedBroker:
    return start_broker(acl=USERS, tcp=False, topics=["T", "Used", "orders-eu"])


def told(broker: EmbeddedBroker, code: int, *given: Any, **more: Any) -> str | None:
    """The words of a refusal of access control; None when the request passes."""
    answer = ask(broker, code, *given, **more)
    remark = answer.remark or ""
    judged = ("User:", "username ", "check signature", "Authorization failed")
    if answer.code == ResponseCode.NO_PERMISSION and remark.startswith(judged):
        return remark
    return None


@pytest.mark.case("W98")
@pytest.mark.parametrize(
    ("key", "secret", "words"),
    [
        (None, SECRET, "username cannot be null."),
        ("", SECRET, "username cannot be null."),
        ("stranger", SECRET, "User:stranger is not found."),
        ("gone", SECRET, "User:gone is disabled."),
        ("alice", "wrong secret", "check signature failed."),
    ],
)
def test_a_request_that_nobody_has_signed_is_refused_in_the_words_of_the_original(
    broker: EmbeddedBroker, key: str | None, secret: str, words: str
) -> None:
    for code in (310, 11, 17, 28):
        assert told(broker, code, key=key, secret=secret) == words


@pytest.mark.case("W98")
def test_a_user_needs_a_policy(broker: EmbeddedBroker) -> None:
    assert told(broker, 310, send_fields("T"), b"b", key="alice") is None
    assert told(broker, 310, send_fields("Used"), b"b", key="alice") == (
        "User:alice has no permission to access Topic:Used from 10.1.2.3, no matched policies."
    )
    assert told(broker, 17, key="alice") == (
        "User:alice has no permission to access Topic:Created from 10.1.2.3, no matched policies."
    )
    assert told(broker, 28, key="alice") == (
        "User:alice has no permission to access Cluster:DefaultCluster from 10.1.2.3, "
        "no matched policies."
    )
    assert ask(broker, 17, key="root").code == ResponseCode.SUCCESS


def test_a_pull_is_about_topic_and_group(broker: EmbeddedBroker) -> None:
    def pulled(topic: str, group: str) -> str | None:
        return told(broker, 11, pull_fields(topic, consumerGroup=group), key="alice")

    assert pulled("T", "G") is None
    assert pulled("%RETRY%G", "G") is None
    assert "Group:H" in (pulled("T", "H") or "")
    assert "Topic:Used" in (pulled("Used", "G") or "")


def decided(
    start_broker: Callable[..., EmbeddedBroker], *policies: AuthPolicy, topic: str = "orders-eu"
) -> bool:
    users = UserAcl(users=[AuthUser(username="alice", password=SECRET)], policies=policies)
    broker = start_broker(acl=users, tcp=False, topics=["orders-eu", "T"])
    return told(broker, 310, send_fields(topic), b"b", key="alice") is None


def rule(resource: str, decision: Any = "Allow", *ips: str, actions: Any = ("Pub",)) -> AuthPolicy:
    return AuthPolicy(
        username="alice",
        resources=[resource],
        actions=actions,
        decision=decision,
        source_ips=ips,
    )


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ([rule("Topic:orders-eu")], True),
        ([rule("Topic:orders*")], True),
        ([rule("Topic:*")], True),
        ([rule("*")], True),
        ([rule("topic:orders-eu", actions=["pub"])], True),
        ([rule("Topic:orders-us")], False),
        ([rule("Group:orders-eu")], False),
        ([rule("Topic:orders-eu", actions=["Sub"])], False),
        ([rule("Topic:orders-eu", actions=["All"])], True),
        ([rule("Topic:*"), rule("Topic:orders-eu", "Deny")], False),
        ([rule("Topic:orders-eu", "Deny"), rule("Topic:*")], False),
        ([rule("Topic:orders*", "Deny"), rule("Topic:orders-eu")], True),
        ([rule("Topic:orders-eu"), rule("Topic:orders*", "Deny")], True),
        ([rule("Topic:o*", "Deny"), rule("Topic:orders*")], True),
        ([rule("Topic:orders*"), rule("Topic:o*", "Deny")], True),
        ([rule("*", "Deny"), rule("Topic:o*")], True),
        ([rule("Topic:orders-eu", "Allow", HOST)], True),
        ([rule("Topic:orders-eu", "Allow", "10.1.0.0/16")], True),
        ([rule("Topic:orders-eu", "Allow", "192.168.0.0/16", "::1")], False),
        ([rule("Topic:orders-eu", "Deny", "192.168.0.0/16"), rule("Topic:*")], True),
    ],
)
def test_the_most_exact_entry_that_fits_decides(
    start_broker: Callable[..., EmbeddedBroker], rules: list[AuthPolicy], allowed: bool
) -> None:
    assert decided(start_broker, *rules) is allowed


def test_another_right_may_be_as_good(start_broker: Callable[..., EmbeddedBroker]) -> None:
    """An offset is read by who may consume, and by who may look."""
    for actions, allowed in ((["Sub"], True), (["Get"], True), (["Pub"], False)):
        policies = [rule("Topic:Used", actions=actions), rule("Group:consumers", actions=actions)]
        users = UserAcl(users=[AuthUser(username="alice", password=SECRET)], policies=policies)
        broker = start_broker(acl=users, tcp=False, topics=["Used"])
        assert (told(broker, 14, key="alice") is None) is allowed


@pytest.mark.parametrize("name", ["nothing", "alice"])
def test_an_account_that_may_do_nothing_gets_nothing(broker: EmbeddedBroker, name: str) -> None:
    """`alice` has rights, but none about what these requests are about."""
    before = everything(broker)
    passed = []
    for code in sorted(broker._parts().endpoint.handlers):
        if told(broker, code, key=name) is None:
            passed.append(code)
        if name == "nothing" and told(broker, code, {}, b"", key=name) is None:
            passed.append(code)
    # These name nothing: whoever has some right may end a transaction, see a message by its id.
    expected = [] if name == "nothing" else [33, 37]
    assert passed == expected
    assert everything(broker) == before


def test_nobody_gets_anything_without_an_account(broker: EmbeddedBroker) -> None:
    codes = broker._parts().endpoint.handlers
    assert {told(broker, code) for code in codes} == {"username cannot be null."}


def test_a_superuser_gets_everything(broker: EmbeddedBroker) -> None:
    for code in broker._parts().endpoint.handlers:
        assert told(broker, code, key="root") is None


def test_each_half_may_be_on_alone(start_broker: Callable[..., EmbeddedBroker]) -> None:
    only_signed = start_broker(
        acl=USERS, config={"authorizationEnabled": False}, tcp=False, topics=["Used"]
    )
    assert told(only_signed, 310, key="alice") is None
    assert told(only_signed, 310) == "username cannot be null."

    only_judged = start_broker(
        acl=USERS, config={"authenticationEnabled": False}, tcp=False, topics=["T"]
    )
    assert told(only_judged, 310, send_fields("T"), b"b", key="alice", secret="wrong one") is None
    assert told(only_judged, 310, key="alice") is not None
    assert told(only_judged, 310) == (
        "Authorization failed. Please verify your access rights and try again."
    )


def test_codes_on_a_white_list_are_for_everybody(
    start_broker: Callable[..., EmbeddedBroker],
) -> None:
    white = {"authenticationWhitelist": "28, 310", "authorizationWhitelist": "28"}
    broker = start_broker(acl=USERS, config=white, tcp=False, topics=["T"])
    assert told(broker, 28) is None
    assert told(broker, 310) is not None
    assert told(broker, 11) == "username cannot be null."


# -- where users come from ----------------------------------------------------------------------


def test_the_first_users_of_a_configuration_file(
    start_broker: Callable[..., EmbeddedBroker],
) -> None:
    broker = start_broker(
        tcp=False,
        topics=["Used"],
        config={
            "authenticationEnabled": True,
            "authorizationEnabled": True,
            "initAuthenticationUser": '{"username":"first","password":"12345678"}',
            "innerClientAuthenticationCredentials": '{"accessKey":"own","secretKey":"12345678"}',
        },
    )
    assert told(broker, 310, key="first") is None
    assert told(broker, 310, key="own") is None
    shown = ask(broker, RequestCode.GET_BROKER_CONFIG, key="first").body
    assert b"initAuthenticationUser=***" in shown
    assert SECRET.encode() not in shown
    assert SECRET not in repr(broker.config)


def test_users_and_policies_outlive_the_broker(
    start_broker: Callable[..., EmbeddedBroker], tmp_path: Path
) -> None:
    broker = start_broker(acl=USERS, store=tmp_path / "store", tcp=False, topics=["T", "Used"])
    user = dumps({"password": "another secret", "userType": "Normal"})
    policy = dumps(
        {"policies": [{"entries": [entry("Topic:Used", ["Pub"], "Allow")]}]},
    )
    assert ask(broker, 3001, {"username": "bob"}, user, key="root").code == 0
    assert ask(broker, 3006, {"subject": "User:bob"}, policy, key="root").code == 0
    assert ask(broker, 3003, {"username": "alice"}, key="root").code == 0
    before = ask(broker, 3010, {}, key="root").body

    broker.restart(crash=True)

    assert ask(broker, 310, key="bob", secret="another secret").code == 0
    assert loads(ask(broker, 3010, {}, key="root").body)[-1] == loads(before)[-1]


def entry(resource: str, actions: list[str], decision: str, ips: Any = None) -> dict[str, Any]:
    return {"resource": resource, "actions": actions, "decision": decision, "sourceIps": ips}


def test_words_that_mean_nothing_are_refused_in_code() -> None:
    user = AuthUser(username="alice", password=SECRET)
    for bad in (
        rule("Queue:T"),
        rule("Topic:"),
        rule("Topic:T", actions=["Any"]),
        rule("Topic:T", "Perhaps"),
        rule("Topic:T", "Allow", "10.1"),
    ):
        with pytest.raises(ConfigError):
            UserAcl(users=[user], policies=[bad])
    with pytest.raises(ConfigError, match="one of its users"):
        UserAcl(users=[], policies=[rule("Topic:T")])
    for text in ("alice", "[]", '{"username":"a"}', '{"username":"a","password":1}'):
        with pytest.raises(ConfigError) as refused:
            EmbeddedBroker(config={"initAuthenticationUser": text})
        assert text not in str(refused.value)
    assert SECRET not in repr(USERS)


def test_forms_of_every_code_are_known(broker: EmbeddedBroker) -> None:
    assert set(broker._parts().endpoint.handlers) <= set(map(int, ALL_FORMS))

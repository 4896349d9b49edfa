"""Plain accounts given in code are checked and keep their secrets; they need no PyYAML."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, PlainAccount, PlainAcl
from embedded_broker.tables.accounts.plain import PlainAccounts
from rocketmq_py.errors import ConfigError, how_to_install
from tests.needs import ROOT

SECRET = "12345678"


def account(key: str = "RocketMQ", **more: object) -> PlainAccount:
    return PlainAccount(access_key=key, secret_key=SECRET, **more)  # type: ignore[arg-type]


def test_no_text_shows_a_secret() -> None:
    accounts = PlainAccounts.of(PlainAcl(accounts=[account()]))
    assert SECRET not in repr(accounts.acl)
    assert SECRET not in repr(accounts)
    assert SECRET not in repr(accounts.find("RocketMQ"))


@pytest.mark.parametrize(
    "document",
    [
        {"accounts": [{"accessKey": "RocketMQ", "secretKey": "short"}]},
        {"accounts": [{"accessKey": "short", "secretKey": SECRET}]},
        {"accounts": ["RocketMQ"]},
        {"accounts": [["RocketMQ", SECRET]]},
        {"accounts": [{"accessKey": "RocketMQ", "secretKey": SECRET, "topicPerms": ["T"]}]},
    ],
)
def test_an_account_that_cannot_be_is_refused_without_its_secret(document: object) -> None:
    with pytest.raises(ConfigError) as refused:
        PlainAcl.from_document(document)  # type: ignore[arg-type]
    assert SECRET not in str(refused.value)


def test_a_permission_that_nobody_knows_is_refused_in_code_and_denies_in_a_file() -> None:
    with pytest.raises(ConfigError, match="default_topic_perm"):
        account(default_topic_perm="ANY")
    with pytest.raises(ConfigError, match="T=READ"):
        account(topic_perms={"T": "READ"})
    document = {"accessKey": "RocketMQ", "secretKey": SECRET, "topicPerms": ["T=READ"]}
    assert PlainAccount.from_document(document).topic_perms == {"T": "DENY"}


def test_a_key_stands_for_one_account() -> None:
    with pytest.raises(ConfigError, match="one account for each key"):
        PlainAccounts.of(PlainAcl(accounts=[account(), account()]))


def test_without_pyyaml_a_file_is_refused_with_the_way_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    monkeypatch.delitem(sys.modules, "embedded_broker.tables.accounts.plain_file", raising=False)
    path = tmp_path / "plain_acl.yml"
    path.write_text("accounts: []\n", encoding="utf-8")
    for given in ({"acl": path}, {"config": {"aclEnable": True, "plainAclFile": str(path)}}):
        with pytest.raises(ConfigError, match=r"plain_acl\.yml") as refused:
            EmbeddedBroker(**given)
        assert how_to_install("acl") in str(refused.value)


WITHOUT_A_FILE = """
import sys
from embedded_broker import AuthUser, EmbeddedBroker, PlainAccount, PlainAcl, UserAcl

account = PlainAccount(access_key="RocketMQ", secret_key="12345678", admin=True)
user = AuthUser(username="root", password="12345678", superuser=True)
for acl in (None, PlainAcl(accounts=[account]), UserAcl(users=[user])):
    with EmbeddedBroker(acl=acl, tcp=False, topics=["T"]) as broker:
        broker.send("T", b"x")
        print([message.body for message in broker.messages.in_topic("T")])
print("yaml" in sys.modules)
"""


def test_a_broker_without_such_a_file_does_not_import_pyyaml() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_FILE],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        cwd=ROOT,
    )
    assert done.stdout.splitlines() == ["[b'x']", "[b'x']", "[b'x']", "False"], done.stderr

"""Plain accounts come from a file or from code, follow the file, and keep their secrets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from embedded_broker import PlainAccount, PlainAcl
from embedded_broker.tables.accounts.plain import Permission, PlainAccounts
from rocketmq_py.errors import ConfigError
from tests.unit.embedded_broker.tables.accounts.test_yaml_text import ORIGINAL

SECRET = "12345678"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "plain_acl.yml"
    path.write_text(ORIGINAL, encoding="utf-8")
    return path


def account(key: str = "RocketMQ", **more: object) -> PlainAccount:
    return PlainAccount(access_key=key, secret_key=SECRET, **more)  # type: ignore[arg-type]


def touch_later(path: Path) -> None:
    """Let the file look changed, whatever the clock of the disk says."""
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1_000_000))


def test_the_file_of_the_original_says_who_may_do_what(file: Path) -> None:
    accounts = PlainAccounts.of(file)
    owned = accounts.find("RocketMQ")

    assert owned is not None
    assert owned.topics == {"topicA": Permission.DENY, "topicB": Permission.PUB | Permission.SUB}
    assert owned.default_topic == Permission.DENY
    assert owned.account.secret_key == SECRET
    assert accounts.is_white("192.168.0.7")
    assert not accounts.is_white("127.0.0.1")


def test_a_changed_file_counts_and_a_broken_one_changes_nothing(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    accounts = PlainAccounts.of(file)
    assert not accounts.reload()

    file.write_text(ORIGINAL.replace("RocketMQ", "Renamed1"), encoding="utf-8")
    touch_later(file)
    assert accounts.reload()
    assert accounts.find("RocketMQ") is None
    assert accounts.find("Renamed1") is not None

    file.write_text("accounts: [", encoding="utf-8")
    touch_later(file)
    assert not accounts.reload()
    assert accounts.find("Renamed1") is not None
    assert "the accounts stay as they were" in caplog.text

    file.unlink()
    assert not accounts.reload()
    assert accounts.find("Renamed1") is not None


def test_a_change_by_request_is_in_the_file_and_others_may_not_read_it(file: Path) -> None:
    accounts = PlainAccounts.of(file)
    accounts.put(account("another1", topic_perms={"T": "PUB"}))
    accounts.remove("rocketmq2")
    accounts.set_white(["10.0.0.1"])

    assert not accounts.reload()  # what was written by itself is no news
    again = PlainAccounts.of(file)
    assert again.acl == accounts.acl
    assert [one.access_key for one in again.acl.accounts] == ["RocketMQ", "another1"]
    assert file.stat().st_mode & 0o077 == 0
    assert "counter: 3" in file.read_text(encoding="utf-8")


def test_no_text_shows_a_secret(file: Path) -> None:
    accounts = PlainAccounts.of(file)
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


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("just words", "a file with accounts"),
        ("globalWhiteRemoteAddresses: 10.0.*.*", "globalWhiteRemoteAddresses"),
        ("globalWhiteRemoteAddresses:\n- [10.0.0.1]", "globalWhiteRemoteAddresses"),
        ("accounts:\n  accessKey: RocketMQ\n  secretKey: 12345678", "accounts"),
        (
            "accounts:\n- {accessKey: RocketMQ, secretKey: 12345678, topicPerms: T=PUB}",
            "topicPerms",
        ),
        (
            "accounts:\n- {accessKey: RocketMQ, secretKey: 12345678, groupPerms: {g: SUB}}",
            "groupPerms",
        ),
        ("accounts:\n- {accessKey: RocketMQ, secretKey: 12345678, admin: perhaps}", "admin"),
        ("accounts:\n- {accessKey: RocketMQ, secretKey: [12345678]}", "secretKey"),
    ],
)
def test_what_stands_in_a_wrong_place_is_refused_and_not_passed_over(
    tmp_path: Path, text: str, named: str
) -> None:
    """Permissions that nobody reads would be none, and an admin without any may do everything."""
    path = tmp_path / "plain_acl.yml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=named) as refused:
        PlainAcl.from_file(path)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "admin"),
    [("true", True), ("Yes", True), ("on", True), ("'true'", True), ("no", False), ("", False)],
)
def test_who_is_an_admin_is_said_in_the_words_of_yaml(
    tmp_path: Path, text: str, *, admin: bool
) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(
        f"accounts:\n- accessKey: RocketMQ\n  secretKey: {SECRET}\n  admin: {text}\n",
        encoding="utf-8",
    )
    assert PlainAcl.from_file(path).accounts[0].admin is admin


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


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yml"):
        PlainAccounts.of(tmp_path / "nowhere.yml")

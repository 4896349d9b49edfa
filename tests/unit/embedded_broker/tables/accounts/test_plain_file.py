"""A `plain_acl.yml` is read as RocketMQ means it, followed and written; what is odd is refused."""

from __future__ import annotations

import os
import stat
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from embedded_broker import PlainAccount, PlainAcl
from embedded_broker.tables.accounts.plain import Permission, PlainAccounts
from embedded_broker.tables.accounts.plain_file import FILE_MAX, read_document, write_document
from rocketmq_py.errors import ConfigError

SECRET = "12345678"
ORIGINAL = """\
# Licensed to somebody
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB|SUB

  - accessKey: rocketmq2   # an admin
    secretKey: "123#5678"
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
"""
"""The form of the file that RocketMQ 4.9 comes with."""
BY_A_TOOL = """\
accounts:
- accessKey: 'it''s me'
  secretKey: '12345678'
  topicPerms: [a=PUB, b=SUB]
  groupPerms: []
dataVersion:
- counter: 3
  timestamp: 1597565217000
"""
BY_HAND = """\
\ufeff--- # the accounts of one team
globalWhiteRemoteAddresses: ['10.1.2.3,10.1.2.4', "10.2.*.*"]
accounts:
- {accessKey: rocketmq2, secretKey: 'a # is no comment, it''s text', admin: True}
- "accessKey" : RocketMQ
  topicPerms: [
    topicA=DENY,   # nobody
    topicB=PUB|SUB, ]
  groupPerms: [ ]
  whiteRemoteAddress: Null
...
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "plain_acl.yml"
    path.write_text(ORIGINAL, encoding="utf-8")
    return path


def account(key: str = "RocketMQ", **more: object) -> PlainAccount:
    return PlainAccount(access_key=key, secret_key=SECRET, **more)  # type: ignore[arg-type]


def read(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "acl.yml"
    path.write_text(text, encoding="utf-8")
    return read_document(path)


def touch_later(path: Path) -> None:
    """Let the file look changed, whatever the clock of the disk says."""
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1_000_000))


def test_the_file_of_the_original_says_who_may_do_what(file: Path) -> None:
    accounts = PlainAccounts.of(file)
    owned = accounts.find("RocketMQ")

    assert owned is not None
    assert owned.topics == {
        "topicA": Permission.DENY,
        "topicB": Permission.PUB | Permission.SUB,
        "topicC": Permission.SUB,
    }
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


# -- YAML -------------------------------------------------------------------------------------


def test_the_form_of_the_file_that_the_original_comes_with(file: Path) -> None:
    assert read_document(file) == {
        "globalWhiteRemoteAddresses": ["10.10.103.*", "192.168.0.*"],
        "accounts": [
            {
                "accessKey": "RocketMQ",
                "secretKey": "12345678",
                "whiteRemoteAddress": None,
                "admin": "false",
                "defaultTopicPerm": "DENY",
                "defaultGroupPerm": "SUB",
                "topicPerms": ["topicA=DENY", "topicB=PUB|SUB", "topicC=SUB"],
                "groupPerms": ["groupA=DENY", "groupB=PUB|SUB"],
            },
            {
                "accessKey": "rocketmq2",
                "secretKey": "123#5678",
                "whiteRemoteAddress": "192.168.1.*",
                "admin": "true",
            },
        ],
    }


def test_the_form_in_which_its_tools_write_it(tmp_path: Path) -> None:
    assert read(tmp_path, BY_A_TOOL) == {
        "accounts": [
            {
                "accessKey": "it's me",
                "secretKey": "12345678",
                "topicPerms": ["a=PUB", "b=SUB"],
                "groupPerms": [],
            }
        ],
        "dataVersion": [{"counter": "3", "timestamp": "1597565217000"}],
    }


def test_the_forms_that_people_write_by_hand(tmp_path: Path) -> None:
    assert read(tmp_path, BY_HAND) == {
        "globalWhiteRemoteAddresses": ["10.1.2.3,10.1.2.4", "10.2.*.*"],
        "accounts": [
            {
                "accessKey": "rocketmq2",
                "secretKey": "a # is no comment, it's text",
                "admin": "True",
            },
            {
                "accessKey": "RocketMQ",
                "topicPerms": ["topicA=DENY", "topicB=PUB|SUB"],
                "groupPerms": [],
                "whiteRemoteAddress": None,
            },
        ],
    }


@pytest.mark.parametrize("text", ["", "---\n# nothing\n\n", "~", "null"])
def test_an_empty_file_says_nothing(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == {}


NO_TEXT_TO_OTHERS = """
12345678 01234567 0x123456 1_000_000 1234567.0 1e7 .inf 2026-01-01 12:30:45
on yes true False nULL null-key = <<
"""


@pytest.mark.parametrize("scalar", NO_TEXT_TO_OTHERS.split())
def test_a_scalar_is_text_as_it_is_written(tmp_path: Path, scalar: str) -> None:
    assert read(tmp_path, f"a: {scalar}\n{scalar}: b\n") == {"a": scalar, scalar: "b"}


def test_what_is_written_nowhere_or_as_null_is_nothing(tmp_path: Path) -> None:
    text = "a:\nb: ~\nc: null\nd: Null\ne: NULL\nf: ''\ng: 'null'\nh: \"~\"\n"
    nothing = dict.fromkeys("abcde")
    assert read(tmp_path, text) == {**nothing, "f": "", "g": "null", "h": "~"}


def test_a_character_beyond_16_bits_may_be_escaped_as_java_and_json_do(tmp_path: Path) -> None:
    assert read(tmp_path, 'a: "\\ud83d\\ude00"\n') == {"a": "\U0001f600"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\na: 2\n", 2),
        ("a: 1\n'a': 2\n", 2),
        ("a: {x: 1, x: 2}\n", 1),
        ("? [a]\n: b\n", 1),
        ("a: 1\nb: &anchor x\n", 2),
        ("a: 1\nb: *alias\n", 2),
        ("a: &a [x]\nb: [*a, *a]\n", 1),
        ("a: 1\nb: !tag x\n", 2),
        ("a: !!python/object/apply:os.getcwd []\n", 1),
        ("a: !other!tag x\n", 1),
        ("%YAML 1.1\n---\na: 1\n", 1),
        ("a: 1\n---\nb: 2\n", 2),
        ("a: 1\n...\nb: 2\n", 3),
        ("- " * 40 + "x\n", 1),
        ("a: " + "[" * 40 + "]" * 40 + "\n", 1),
        ("[" * 100_000, 1),
        ("a:\n\t- 1\n", 2),
        ("a: [1,\n", 2),
        ("a: 'open\n", 2),
        ("a: [x,\n  'y\n", 3),
        ('a: "bad\\q"\n', 1),
        ('a: 1\nb: "\\UFFFFFFFF"\n', 2),
        ('a: 1\nb: "\\U00110000"\n', 2),
        ("a: 1\nb: \x07\n", 2),
        ("a: 1\n  b: 2\n", 2),
        ("a:\n    - 1\n  - 2\n", 3),
        ("a: 'x' 'y'\n", 1),
        ("a: x: y\n", 1),
        ("a: - x\n", 1),
        ("a: @x\n", 1),
        ("a: [x] y\n", 1),
        ("a: [x}\n", 1),
        ("a: {x]\n", 1),
    ],
)
def test_what_is_no_yaml_or_too_much_of_it_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int
) -> None:
    with pytest.raises(ConfigError, match=rf"acl\.yml line {line}'"):
        read(tmp_path, text)


def test_an_error_says_where_it_began(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="a quoted scalar that begins in line 1, found unexpected"
    ):
        read(tmp_path, "a: 'open\n\n\n")


@pytest.mark.parametrize(
    "entry",
    [
        "secretKey: *hush-hush",
        "secretKey: &hush-hush",
        "secretKey: &hush-hush x\n  other: &hush-hush y",
        "secretKey: !hush-hush",
        "secretKey: !hush-hush!x",
        "secretKey: !<hush-hush",
        "secretKey: !%zzhush-hush",
        "secretKey: @hush-hush",
        "secretKey: %hush-hush",
        "secretKey: 'hush-hush",
        'secretKey: "hush-hush\\q"',
        'secretKey: "hush-hush\\U00110000"',
        "secretKey: hush-hush: x",
        "secretKey: hush-hush\x07",
        "secretKey: [hush-hush",
        "secretKey: {hush-hush]",
        "secretKey: [hush-hush]",
        "hush-hush: a\n  hush-hush: b",
        "? [hush-hush]\n  : x",
    ],
)
def test_no_error_shows_what_may_be_a_secret(tmp_path: Path, entry: str) -> None:
    path = tmp_path / "acl.yml"
    path.write_text(f"accounts:\n- accessKey: RocketMQ\n  {entry}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        PlainAcl.from_file(path)
    assert "hush-hush" not in "".join(traceback.format_exception(refused.value))


def test_a_large_file_is_refused_unread(tmp_path: Path) -> None:
    assert read(tmp_path, "#" * FILE_MAX) == {}
    for large in ("#" * (FILE_MAX + 1), "#" * FILE_MAX + "\u00e9"):
        with pytest.raises(ConfigError, match=rf"acl\.yml.*at most {FILE_MAX} bytes"):
            read(tmp_path, large)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yml"):
        PlainAccounts.of(tmp_path / "nowhere.yml")


@given(st.text(st.characters(codec="utf-8"), max_size=60) | st.text("ab:-[]{}&*!|>'\"%@?#,\\ \n"))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yml"
    path.write_bytes(text.encode())
    with suppress(ConfigError):
        assert isinstance(read_document(path), dict)


# -- written ----------------------------------------------------------------------------------


def test_reading_and_writing_keep_every_account(file: Path) -> None:
    before = PlainAcl.from_file(file)
    assert len(before.accounts) == 2
    accounts = PlainAccounts.of(file)
    accounts.set_white([*before.global_white_remote_addresses, "10.0.0.1"])
    after = PlainAcl.from_file(file)
    assert after.accounts == before.accounts
    assert after.global_white_remote_addresses == ("10.10.103.*", "192.168.0.*", "10.0.0.1")


def test_a_written_file_means_the_same_to_any_reader_of_yaml(tmp_path: Path) -> None:
    """RocketMQ's reader knows types of scalars: what looks like one is quoted."""
    path = tmp_path / "plain_acl.yml"
    path.write_text("accounts: []", encoding="utf-8")
    looks = ["12345678", "01234567", "2026-01-01", "1234567.0", "0x123456", "~~~~~~~", "*a*b*c*d*"]
    words = [
        "a secret of many words " * 20,
        "ein Schl\u00fcssel",
        "with\nlines\n",
        "\U0001f600" * 7,
    ]
    accounts = PlainAccounts.of(path)
    for number, secret in enumerate(looks + words):
        accounts.put(PlainAccount(access_key=f"account{number}", secret_key=secret))
    text = path.read_text(encoding="ascii")
    found = [one["secretKey"] for one in yaml.safe_load(text)["accounts"]]
    assert found == looks + words
    assert [one.secret_key for one in PlainAcl.from_file(path).accounts] == found
    assert words[0].strip() in text


def test_a_file_is_replaced_as_a_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text("old", encoding="utf-8")
    path.chmod(0o644)
    opened = path.open(encoding="utf-8")
    with opened:
        write_document(path, {"accounts": []})
        assert opened.read() == "old"
    assert read_document(path) == {"accounts": []}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_change_that_cannot_be_written_is_not_in_force(file: Path) -> None:
    accounts = PlainAccounts.of(file)
    huge = PlainAccount(access_key="another1", secret_key=SECRET * (FILE_MAX // 8))
    with pytest.raises(ConfigError, match=f"at most {FILE_MAX} bytes") as refused:
        accounts.put(huge)
    assert SECRET not in str(refused.value)
    assert (accounts.find("another1"), accounts.counter) == (None, 0)
    assert file.read_text(encoding="utf-8") == ORIGINAL

    file.unlink()
    file.parent.rmdir()
    with pytest.raises(FileNotFoundError):
        accounts.remove("RocketMQ")
    assert accounts.find("RocketMQ") is not None


SCALARS = st.none() | st.text(st.characters(codec="utf-8"), max_size=20)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), DOCUMENTS, min_size=1))
def test_what_is_written_reads_back(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yml"
    write_document(path, document)
    assert read_document(path) == document

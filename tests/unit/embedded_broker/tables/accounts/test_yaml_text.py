"""The YAML that access control files are made of is read as it is meant, anything else refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_broker.tables.accounts.yaml_text import read_yaml, write_yaml
from rocketmq_py.errors import ConfigError

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
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY

  - accessKey: rocketmq2   # an admin
    secretKey: "123#5678"
    admin: true
"""
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


def test_the_form_of_the_file_that_the_original_comes_with() -> None:
    assert read_yaml(ORIGINAL, "acl.yml") == {
        "globalWhiteRemoteAddresses": ["10.10.103.*", "192.168.0.*"],
        "accounts": [
            {
                "accessKey": "RocketMQ",
                "secretKey": "12345678",
                "whiteRemoteAddress": None,
                "admin": False,
                "topicPerms": ["topicA=DENY", "topicB=PUB|SUB"],
                "groupPerms": ["groupA=DENY"],
            },
            {"accessKey": "rocketmq2", "secretKey": "123#5678", "admin": True},
        ],
    }


def test_the_form_in_which_its_tools_write_it() -> None:
    assert read_yaml(BY_A_TOOL, "acl.yml") == {
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


def test_the_forms_that_people_write_by_hand() -> None:
    assert read_yaml(BY_HAND, "acl.yml") == {
        "globalWhiteRemoteAddresses": ["10.1.2.3,10.1.2.4", "10.2.*.*"],
        "accounts": [
            {
                "accessKey": "rocketmq2",
                "secretKey": "a # is no comment, it's text",
                "admin": True,
            },
            {
                "accessKey": "RocketMQ",
                "topicPerms": ["topicA=DENY", "topicB=PUB|SUB"],
                "groupPerms": [],
                "whiteRemoteAddress": None,
            },
        ],
    }


def test_an_empty_file_says_nothing() -> None:
    assert read_yaml("---\n# nothing\n\n", "acl.yml") is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\na: 2\n", 2),
        ("a:\n\t- 1\n", 2),
        ("a: &anchor x\n", 1),
        ("a: *alias\n", 1),
        ("a: |\n  text\n", 1),
        ("a: [1,\n", 1),
        ("a: 'open\n", 1),
        ('a: "bad\\q"\n', 1),
        ("a: 1\n  b: 2\n", 2),
        ("a:\n    - 1\n  - 2\n", 3),
        ("just words\nand more\n", 2),
        ("- " * 40 + "x\n", 1),
        ("a: " + "[" * 40 + "]" * 40 + "\n", 1),
        ("a: 1\n---\nb: 2\n", 2),
        ("a: 1\n...\nb: 2\n", 3),
        ("a: 'x' 'y'\n", 1),
        ("a: x: y\n", 1),
        ("a: - x\n", 1),
        ("a: [x] y\n", 1),
        ("a: [x}\n", 1),
        ("a: {x]\n", 1),
        ("a: {x}\n", 1),
        ("a: {x: }\n", 1),
        ("a: {x: 1, x: 2}\n", 1),
        ("a: [x: 1]\n", 1),
        ("a: ['x' y]\n", 1),
        ("a: [x,\n  'y\n", 1),
        ("? a\n: b\n", 1),
    ],
)
def test_what_it_does_not_understand_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(ConfigError, match=f"acl.yml.*line {line}\\b"):
        read_yaml(text, "acl.yml")


SCALARS = st.none() | st.booleans() | st.text(st.characters(codec="utf-8"), max_size=20)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), DOCUMENTS, min_size=1))
def test_what_is_written_reads_back(document: dict[str, Any]) -> None:
    assert read_yaml(write_yaml(document), "acl.yml") == document

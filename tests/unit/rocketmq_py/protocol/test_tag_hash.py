"""Tag hashes are Java's ``String.hashCode``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_py.protocol.tag_hash import java_hash, tags_code


@pytest.mark.case("W46")
@pytest.mark.parametrize(
    ("tags", "code"),
    [
        ("TagA", 2598919),
        ("标签", 857175),
        ("polygenelubricants", -2147483648),
        ("tt", 3712),
        ("Aa", 2112),
        ("BB", 2112),
    ],
)
def test_a_tag_has_the_code_that_java_gives_it(tags: str, code: int) -> None:
    assert code == tags_code(tags)


@pytest.mark.case("F17")
@pytest.mark.parametrize(
    ("topic", "code"), [("TopicTest", -1902610879), ("中文", 646394), (None, 0), ("", 0)]
)
def test_a_topic_hash_is_the_java_hash_and_none_gives_zero(topic: str | None, code: int) -> None:
    assert code == java_hash(topic)


@pytest.mark.parametrize("tags", [None, ""])
def test_an_absent_tag_has_code_zero(tags: str | None) -> None:
    assert tags_code(tags) == 0


def test_a_long_tag_has_the_same_code_as_its_plain_hash() -> None:
    tags = "TagA||" * 100
    assert java_hash(tags) == tags_code(tags)


def test_a_character_beyond_the_basic_plane_counts_as_two_units() -> None:
    high, low = 0xD83D, 0xDE00
    assert high * 31 + low == java_hash("\N{GRINNING FACE}")


def by_the_definition(text: str) -> int:
    """Java's sum over UTF-16 units, written out."""
    wide = text.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(wide[at : at + 2]) for at in range(0, len(wide), 2)]
    total = sum(unit * 31 ** (len(units) - 1 - at) for at, unit in enumerate(units))
    return int((total + 2**31) % 2**32 - 2**31)


@given(st.text(st.characters(), max_size=200))
def test_the_hash_of_any_text_is_the_sum_of_the_definition(text: str) -> None:
    assert by_the_definition(text) == java_hash(text)
    assert by_the_definition(text) == tags_code(text)

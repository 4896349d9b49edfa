"""Offsets as text, and the ranges that two of them mean."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_py import MessageQueue
from spark_connector.errors import OptionError
from spark_connector.options.positions import Positions, user_positions
from spark_connector.planning.stream_offset import StreamOffset

POSITIONS = st.dictionaries(
    st.sampled_from("TU"),
    st.dictionaries(
        st.sampled_from(["b-1", "b-2"]),
        st.dictionaries(st.integers(0, 12), st.integers(0, 1 << 62), min_size=1),
        min_size=1,
    ),
).map(lambda nested: user_positions("x", nested, low=0) if nested else {})


def at(*offsets: int) -> Positions:
    return {MessageQueue("T", "b", number): offset for number, offset in enumerate(offsets)}


def test_the_written_forms() -> None:
    first = StreamOffset(at(100), is_initial=True)
    later = StreamOffset(at(102), lower=at(100))
    compact = {"sort_keys": True, "separators": (",", ":")}
    assert json.dumps(first.to_json(), **compact) == (  # type: ignore[arg-type]
        '{"init":1,"topics":{"T":{"b":{"0":100}}},"v":1}'
    )
    assert json.dumps(later.to_json(), **compact) == (  # type: ignore[arg-type]
        '{"from":{"T":{"b":{"0":100}}},"topics":{"T":{"b":{"0":102}}},"v":1}'
    )


@given(POSITIONS, POSITIONS, POSITIONS, st.booleans())
def test_what_is_written_is_read_back(
    topics: Positions, lower: Positions, reset: Positions, is_initial: bool
) -> None:
    offset = StreamOffset(topics, {} if is_initial else lower, reset, is_initial)
    assert StreamOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


@pytest.mark.case("SP61")
def test_another_version_is_refused_and_key_order_means_nothing() -> None:
    with pytest.raises(OptionError, match="version 2, this connector"):
        StreamOffset.from_json({"v": 2, "topics": {}})
    one = {"v": 1, "topics": {"T": {"b": {"1": 5, "0": 4}}}}
    assert StreamOffset.from_json(one).to_json() == StreamOffset(at(4, 5)).to_json()


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (StreamOffset(at(3)), StreamOffset(at(5)), [(0, 3, 5)]),
        # known queues keep their own start, whatever the end says
        (StreamOffset(at(3)), StreamOffset(at(5), lower=at(1)), [(0, 3, 5)]),
        # the first end knows better than a first offset that was asked for twice
        (
            StreamOffset(at(105), is_initial=True),
            StreamOffset(at(102), lower=at(100)),
            [(0, 100, 102)],
        ),
        (
            StreamOffset(at(110), is_initial=True),
            StreamOffset(at(102), lower=at(100)),
            [(0, 100, 102)],
        ),
        # a new queue begins where the end says
        (
            StreamOffset(at(3)),
            StreamOffset(at(3, 9), lower={MessageQueue("T", "b", 1): 7}),
            [(1, 7, 9)],
        ),
        # a queue that began anew
        (StreamOffset(at(50)), StreamOffset(at(4), reset=at(1)), [(0, 1, 4)]),
        # no step back
        (StreamOffset(at(5)), StreamOffset(at(3)), []),
    ],
)
def test_two_offsets_alone_decide_what_is_read(
    start: StreamOffset, end: StreamOffset, expected: list[tuple[int, int, int]]
) -> None:
    assert [(one.queue_id, one.start, one.until) for one in start.ranges(end)] == expected

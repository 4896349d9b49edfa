"""Offsets as text, and the ranges that two of them mean."""

from __future__ import annotations

import json
from collections.abc import Callable

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

SINCE = st.none() | st.integers(0, 1 << 42)


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


@given(POSITIONS, POSITIONS, POSITIONS, st.booleans(), SINCE)
def test_what_is_written_is_read_back(
    topics: Positions, lower: Positions, reset: Positions, is_initial: bool, since_ms: int | None
) -> None:
    offset = StreamOffset(topics, {} if is_initial else lower, reset, is_initial, since_ms)
    assert StreamOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


@pytest.mark.case("SP61")
def test_another_version_is_refused_and_key_order_means_nothing() -> None:
    with pytest.raises(OptionError, match="version 3, this connector"):
        StreamOffset.from_json({"v": 3, "topics": {}})
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


def many(offset_of: Callable[[int], int], queues: int = 1_200) -> Positions:
    return {
        MessageQueue("T", f"b-{number % 3}", number // 3): offset_of(number)
        for number in range(queues)
    }


@pytest.mark.case("SP61")
@given(st.data())
def test_offsets_of_many_queues_are_packed_and_read_back(data: st.DataObject) -> None:
    step = data.draw(st.integers(0, 1 << 50))
    news = data.draw(st.lists(st.sampled_from([0, 3, 255, 256]), min_size=1, max_size=9))
    lower = many(lambda number: number * step)
    topics = {
        queue: offset + news[number % len(news)]
        for number, (queue, offset) in enumerate((lower | {MessageQueue("U", "b", 7): 5}).items())
    }
    since_ms = data.draw(SINCE)
    for offset in (
        StreamOffset(topics, lower, {MessageQueue("T", "b-1", 1): 0}, since_ms=since_ms),
        StreamOffset(topics, lower={MessageQueue("T", "b-1", 2): 9}, since_ms=since_ms),
        StreamOffset(topics, is_initial=True, since_ms=since_ms),
    ):
        text = json.dumps(offset.to_json())
        back = StreamOffset.from_json(json.loads(text))
        assert back == offset
        assert json.dumps(back.to_json()) == text
        assert '"v": 2' in text


def test_offsets_of_ten_thousand_queues_are_short() -> None:
    begin = many(lambda number: 10**9 + 977_777 * number % 10**8, 10_000)
    later = {queue: offset + queue.queue_id % 1_000 for queue, offset in begin.items()}
    first = StreamOffset(later, lower=begin)
    assert len(json.dumps(first.to_json())) < 100_000
    assert len(json.dumps(StreamOffset(later).to_json())) < 60_000


@pytest.mark.case("SP61")
@pytest.mark.parametrize(
    "text", ["", "5", "5/2/AA==", "x/1/AA==", "0/9/AAAAAAAAAAAA", "from/1/AAAA", "-9/1/AA==", 7]
)
def test_packed_offsets_that_nobody_wrote_are_refused(text: object) -> None:
    with pytest.raises(OptionError, match="topic 'T', broker 'b' holds"):
        StreamOffset.from_json({"v": 2, "topics": {"T": {"b": text}}})


@pytest.mark.case("SP61")
def test_a_checkpoint_of_few_queues_goes_on_when_they_have_become_many() -> None:
    old = StreamOffset.from_json({"v": 1, "topics": {"T": {"b-0": {"0": 5}}}})
    end = StreamOffset.from_json(StreamOffset(many(lambda _: 6), lower=many(lambda _: 6)).to_json())
    (one,) = old.ranges(end)
    assert (one.broker_name, one.queue_id, one.start, one.until) == ("b-0", 0, 5, 6)

"""The rows of a batch become requests by a calculation that asks nobody."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketmq_py import MessageQueue
from rocketmq_py.protocol.message_codec import decode_batch
from rocketmq_py.protocol.properties import decode_properties
from rocketmq_py.raw import MessageIds
from spark_connector.options.write_options import write_options
from spark_connector.writing.encoding import Encoded, Encoder
from spark_connector.writing.queue_choice import Places
from spark_connector.writing.requests import Request, batch_bodies, requests
from spark_connector.writing.write_columns import check_columns

FIXED = MessageQueue("T", "broker-a", 1)


def encode(columns: dict[str, pa.Array]) -> Encoded:
    options = write_options({"nameServer": "h:1", "topic": "T"}, streaming=False)
    batch = pa.RecordBatch.from_pydict(columns)
    encoder = Encoder(options, check_columns(batch.schema, options), MessageIds())
    return encoder.encode(batch, 1_700_000_000_000)


def made(encoded: Encoded, places: Places, **given: str) -> list[Request]:
    options = write_options({"nameServer": "h:1", "topic": "T"} | given, streaming=False)
    return list(requests(encoded, places, options))


def rows_of(found: list[Request]) -> list[tuple[bool, list[int]]]:
    return [(one.batch, list(one.rows)) for one in found]


def test_rows_are_spread_over_the_queues_and_those_with_a_delay_go_alone() -> None:
    columns = {
        "body": pa.array([b"%d" % number for number in range(6)]),
        "delay_ms": pa.array([None, 5_000, None, None, None, 5_000]),
    }
    found = made(encode(columns), Places({"T": 2}))
    assert rows_of(found) == [(True, [0, 2]), (True, [3, 4]), (False, [1]), (False, [5])]
    assert found[2].bodies == [b"1"]
    assert decode_properties(found[2].properties[0])["TIMER_DELAY_MS"] == "5000"


def test_messages_of_their_own_leave_together_as_far_as_their_headers_are_equal() -> None:
    columns = {
        "body": pa.array([b"%d" % number for number in range(9)]),
        "flag": pa.array([0, 0, 0, 0, 0, 0, 0, 7, 7]),
    }
    encoded = encode(columns)
    found = made(encoded, Places({"T": 1}), batchSend="false", maxInFlight="6")
    assert rows_of(found) == [(False, [0, 1, 2]), (False, [3, 4, 5]), (False, [6]), (False, [7, 8])]
    assert [one.flag for one in found] == [0, 0, 0, 7]
    assert [len(one) for one in found] == [3, 3, 1, 2]
    few = made(encoded, Places({"T": 4}), batchSend="false")
    assert rows_of(few)[:2] == [(False, [0, 1, 2]), (False, [3, 4, 5])]  # every queue gets some
    tight = made(encoded, Places({"T": 1}), batchSend="false", compression="zlib", compressOver="0")
    assert {one.sys_flag for one in tight} != {0}


def test_a_part_of_a_request_has_its_own_rows_and_the_fate_of_the_whole() -> None:
    whole = Request("T", [b"a", b"b", b"c"], (4, 5, 6), None, ["1", "2", "3"], attempt=2)
    part = whole.part([0, 2])
    assert (part.bodies, part.rows, part.properties) == ([b"a", b"c"], [4, 6], ["1", "3"])
    assert (part.attempt, part.size, part.rows_of(1)) == (2, 2, [6])
    assert whole.part([0, 1, 2]) is whole


def test_rows_of_a_fixed_queue_keep_their_order_whether_alone_or_not() -> None:
    columns = {
        "body": pa.array([b"%d" % number for number in range(6)]),
        "delay_ms": pa.array([None, None, 5_000, None, 5_000, None]),
    }
    lanes = dict.fromkeys((0, 1, 2, 3, 4), FIXED)
    found = made(encode(columns), Places({"T": 4}, lanes))
    fixed = [one for one in found if one.lane == FIXED]
    assert rows_of(fixed) == [(True, [0, 1]), (False, [2]), (True, [3]), (False, [4])]
    assert rows_of([one for one in found if one.lane is None]) == [(True, [5])]


def test_rows_with_a_problem_are_in_no_request() -> None:
    encoded = encode({"body": pa.array([b"a", None, b"c"])})
    assert rows_of(made(encoded, Places({"T": 1}))) == [(True, [0, 2])]


@pytest.mark.parametrize("given", [{"batchSend": "false"}, {"topic": "%RETRY%g"}])
def test_without_batches_every_row_goes_alone(given: dict[str, str]) -> None:
    topics = pa.array([given.get("topic", "T")] * 2)
    options = write_options({"nameServer": "h:1"}, streaming=False)
    batch = pa.RecordBatch.from_pydict({"body": pa.array([b"a", b"b"]), "topic": topics})
    encoder = Encoder(options, check_columns(batch.schema, options), MessageIds())
    found = made(encoder.encode(batch, 0), Places({topics[0].as_py(): 4}), **given)
    assert rows_of(found) == [(False, [0]), (False, [1])]


@pytest.mark.case("SP70")
@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.binary(min_size=1, max_size=40),
            st.dictionaries(
                st.text("abc", min_size=1),
                st.text("äx 9", min_size=1).filter(str.strip),
                max_size=3,
            ),
        ),
        min_size=1,
        max_size=20,
    ),
    st.integers(60, 400),
    st.integers(1, 5),
)
def test_batches_hold_every_row_once_in_order(
    rows: list[tuple[bytes, dict[str, str]]], bytes_max: int, parts_min: int
) -> None:
    encoded = encode(
        {
            "body": pa.array([body for body, _ in rows]),
            "properties": pa.array(
                [list(one.items()) for _, one in rows], pa.map_("string", "string")
            ),
            "flag": pa.array(range(len(rows))),
        }
    )
    parts = list(batch_bodies(encoded, np.arange(len(rows)), bytes_max, parts_min))
    assert [row for numbers, _ in parts for row in numbers] == list(range(len(rows)))
    assert max(len(numbers) for numbers, _ in parts) <= -(-len(rows) // parts_min)
    for numbers, body in parts:
        assert len(body) <= bytes_max or len(numbers) == 1
        for row, (flag, stored, text) in zip(numbers, decode_batch(body), strict=True):
            found = decode_properties(text)
            found.pop("UNIQ_KEY")
            assert (flag, stored, found) == (row, *rows[row])

"""Rows become message bodies and properties, read back with the protocol's own codec."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from rocketmq_py.protocol.delay_doubts import doubts
from rocketmq_py.protocol.properties import decode_properties
from rocketmq_py.raw import MessageIds, RawMessages
from spark_connector.errors import SchemaError
from spark_connector.options.write_options import write_options
from spark_connector.writing.encoding import BODY_SIZE_MAX, Encoded, Encoder
from spark_connector.writing.write_columns import check_columns

NOW = 1_700_000_000_000
DAY_MS = 86_400_000
PAIRS = pa.map_("string", "string")


def encode(
    columns: dict[str, pa.Array],
    *,
    now_ms: int = NOW,
    dedupe: str | None = None,
    first_row: int = 0,
    **options: object,
) -> Encoded:
    given = {"nameServer": "h:1", "topic": "T"} | {key: str(one) for key, one in options.items()}
    if "topic" in columns:
        del given["topic"]
    chosen = write_options(given, streaming=False)
    batch = pa.RecordBatch.from_pydict(columns)
    encoder = Encoder(chosen, check_columns(batch.schema, chosen), MessageIds())
    return encoder.encode(batch, now_ms, dedupe=dedupe, first_row=first_row)


def properties(encoded: Encoded) -> list[dict[str, str]]:
    return [decode_properties(text) for text in encoded.properties.to_pylist()]


def without_id(encoded: Encoded) -> list[dict[str, str]]:
    return [
        {name: value for name, value in one.items() if name != "UNIQ_KEY"}
        for one in properties(encoded)
    ]


@pytest.mark.case("SP24")
def test_keys_tags_properties_and_flag_are_written() -> None:
    encoded = encode(
        {
            "value": pa.array(["a", "b"], pa.large_string()),
            "key": pa.array([["k1", "k2"], None]),
            "tags": pa.array(["t", None]),
            "flag": pa.array([7, None], pa.int32()),
            "headers": pa.array([[("x", "1"), ("y", "é")], None], pa.map_("string", "string")),
        }
    )
    assert without_id(encoded) == [{"KEYS": "k1 k2", "TAGS": "t", "x": "1", "y": "é"}, {}]
    assert (encoded.bodies.to_pylist(), encoded.flags.tolist()) == ([b"a", b"b"], [7, 0])
    assert encoded.problems == {}


def test_ids_are_unique_and_a_given_one_is_kept() -> None:
    body = pa.array([b"x"] * 70_000)
    ids = [one["UNIQ_KEY"] for one in properties(encode({"body": body}))]
    assert (len(set(ids)), {len(one) for one in ids}) == (70_000, {32})
    kept = encode({"body": body[:2], "message_id": pa.array(["mine", None])})
    assert properties(kept)[0]["UNIQ_KEY"] == "mine"
    assert len(properties(kept)[1]["UNIQ_KEY"]) == 32


@pytest.mark.case("SP27")
def test_an_id_of_the_user_is_checked_and_a_blank_one_is_made() -> None:
    given = pa.array(["mine", " ", None, "a\x01b"])
    encoded = encode({"body": pa.array([b"x"] * 4), "message_id": given})
    assert encoded.problems == {3: "message_id holds U+0000 to U+0002"}
    ids = [one["UNIQ_KEY"] for one in properties(encoded)[:3]]
    assert (ids[0], len(ids[1]), len(ids[2])) == ("mine", 32, 32)


@pytest.mark.case("SP23")
def test_the_alias_of_kafka_for_queues_says_how_it_is_switched_on() -> None:
    columns = {"body": pa.array([b"x"]), "partition": pa.array([1])}
    with pytest.raises(SchemaError, match="unknown column partition: usePartition=true"):
        encode(columns)
    found = encode(columns, usePartition="true").queue_ids
    assert found is not None
    assert found.to_pylist() == [1]


@pytest.mark.case("SP24")
def test_nulls_among_keys_leave_the_other_keys() -> None:
    keys = pa.array([["a", None, "b"], [None], None, ["c"]], pa.list_(pa.string()))
    encoded = encode({"body": pa.array([b"x"] * 4), "keys": keys})
    assert [one.get("KEYS") for one in properties(encoded)] == ["a b", None, None, "c"]


@pytest.mark.case("SP23")
@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.struct([("a", pa.int64())]), pa.list_(pa.string())], ids=str
)
def test_extra_columns_without_a_text_are_refused_when_the_write_is_planned(
    kind: pa.DataType,
) -> None:
    columns = {"body": pa.array([b"x"]), "more": pa.nulls(1, kind)}
    with pytest.raises(SchemaError, match=r"column more of type .* has no text form"):
        encode(columns, extraColumns="properties")
    assert len(encode(columns, extraColumns="ignore")) == 1


@pytest.mark.case("SP27")
def test_rows_that_cannot_be_messages_are_named_with_the_reason() -> None:
    big = b"x" * (BODY_SIZE_MAX + 1)
    encoded = encode(
        {
            "body": pa.array([None, b"", big, b"ok", b"x", b"x", b"x"]),
            "tags": pa.array([None, None, None, "t", "a|b", "c\x01", None]),
            "properties": pa.array([None] * 6 + [[("KEYS", "v")]], pa.map_("string", "string")),
        }
    )
    assert {row: why.split(":")[0][:25] for row, why in encoded.problems.items()} == {
        0: "body is null",
        1: "body is empty",
        2: "body is over 4194304 byte",
        4: "tags holds a vertical bar",
        5: "tags holds U+0000 to U+00",
        6: "properties holds a name t",
    }


@pytest.mark.case("SP24")
@pytest.mark.parametrize(
    "kind",
    [
        pa.map_("string", "string"),
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])),
    ],
    ids=["map", "pairs"],
)
def test_a_part_of_a_batch_has_the_properties_of_its_own_rows(kind: pa.DataType) -> None:
    cells = pa.array([[("a", "0")], [("a", "1"), ("b", "1")], None, [("a", "3")]], PAIRS)
    if not pa.types.is_map(kind):
        lists = [
            row and [{"key": name, "value": value} for name, value in row]
            for row in cells.to_pylist()
        ]
        cells = pa.array(lists, kind)
    encoded = encode({"body": pa.array([b"x"] * 4)[1:], "properties": cells[1:]})
    assert without_id(encoded) == [{"a": "1", "b": "1"}, {}, {"a": "3"}]


@pytest.mark.parametrize("name", ["UNIQ_KEY", "TIMER_DELAY_MS", "__STARTDELIVERTIME"])
def test_a_reserved_name_or_a_delay_in_the_properties_makes_the_row_invalid(name: str) -> None:
    entries = pa.array([[(name, str(NOW)), ("a", "1")], [("a", "2")]], PAIRS)
    encoded = encode({"body": pa.array([b"x", b"y"]), "properties": entries})
    assert list(encoded.problems) == [0]
    assert "reservedProperties=drop" in encoded.problems[0]
    columns = {"body": pa.array([b"x"]), name: pa.array(["1"])}
    with pytest.raises(SchemaError, match=f"{name} has a name that RocketMQ reserves"):
        encode(columns, extraColumns="properties")


def test_reserved_names_can_be_dropped() -> None:
    entries = pa.array([[("KEYS", "v"), ("a", "1"), ("__STARTDELIVERTIME", "7")]], PAIRS)
    encoded = encode({"body": pa.array([b"x"]), "properties": entries}, reservedProperties="drop")
    assert (without_id(encoded), encoded.problems) == ([{"a": "1"}], {})


@pytest.mark.parametrize(
    ("name", "value"),
    [("", "v"), (" ", "v"), ("n", ""), ("n", "a\x02"), ("n", None), ("n\x01", "v")],
)
def test_a_property_that_cannot_be_stored_makes_the_row_invalid(
    name: str, value: str | None
) -> None:
    entries = pa.array([[(name, value)], []], pa.map_("string", "string"))
    assert set(encode({"body": pa.array([b"x"] * 2), "properties": entries}).problems) == {0}


@pytest.mark.case("SP23")
def test_the_option_wins_over_the_topic_column_and_one_of_them_is_needed() -> None:
    body, topic = pa.array([b"x"]), pa.array(["FromColumn"])
    assert encode({"body": body, "topic": topic}).topics.to_pylist() == ["FromColumn"]
    chosen = write_options({"nameServer": "h:1", "topic": "O"}, streaming=False)
    batch = pa.RecordBatch.from_pydict({"body": body, "topic": topic})
    encoder = Encoder(chosen, check_columns(batch.schema, chosen), MessageIds())
    assert encoder.encode(batch, NOW).topics.to_pylist() == ["O"]
    nothing = write_options({"nameServer": "h:1"}, streaming=False)
    with pytest.raises(SchemaError, match="option topic, or a column topic"):
        check_columns(pa.schema([("body", pa.binary())]), nothing)


# --- delays --------------------------------------------------------------------------------------


@pytest.mark.case("SP35")
def test_every_type_of_a_delay_column_says_the_same() -> None:
    moment = datetime.fromtimestamp(NOW / 1000 + 5, UTC)
    for cells in (
        pa.array([moment], pa.timestamp("us", tz="Asia/Shanghai")),
        pa.array([NOW + 5000], pa.int64()),
    ):
        assert without_id(encode({"body": pa.array([b"x"]), "deliver_at": cells})) == [
            {"TIMER_DELIVER_MS": str(NOW + 5000)}
        ]
    for cells in (
        pa.array([timedelta(seconds=5)], pa.duration("us")),
        pa.array([5000], pa.int32()),
    ):
        assert without_id(encode({"body": pa.array([b"x"]), "delay_ms": cells})) == [
            {"TIMER_DELAY_MS": "5000"}
        ]


@pytest.mark.case("SP31")
def test_start_deliver_time_is_kept_and_translated() -> None:
    columns = {"body": pa.array([b"x"]), "start_deliver_time": pa.array([NOW])}
    text = str(NOW)
    both = {"__STARTDELIVERTIME": text, "TIMER_DELIVER_MS": text}
    assert without_id(encode(dict(columns))) == [both]
    only = encode(dict(columns), translateStartDeliverTime="never")
    assert without_id(only) == [{"__STARTDELIVERTIME": text}]


@pytest.mark.case("SP32")
def test_two_delays_of_a_row_contradict_each_other_unless_the_first_wins() -> None:
    columns = {
        "body": pa.array([b"x"] * 3),
        "delay_ms": pa.array([5, 5, None]),
        "deliver_at": pa.array([NOW, None, None]),
    }
    encoded = encode(dict(columns))
    assert list(encoded.problems) == [0]
    assert encoded.delayed.tolist()[1:] == [True, False]
    first = encode(dict(columns), delayConflict="first")
    assert (first.problems, without_id(first)[0]) == ({}, {"TIMER_DELIVER_MS": str(NOW)})


@pytest.mark.case("SP32")
def test_a_delay_that_does_not_count_is_not_checked() -> None:
    columns = {
        "body": pa.array(["a", "b"]),
        "deliver_at": pa.array([NOW + 5, None], pa.int64()),
        "delay_ms": pa.array([400 * DAY_MS, 7], pa.int64()),
    }
    encoded = encode(columns, delayConflict="first")
    assert encoded.problems == {}
    assert without_id(encoded) == [
        {"TIMER_DELIVER_MS": str(NOW + 5)},
        {"TIMER_DELAY_MS": "7"},
    ]


LEVELS = {"body": pa.array(["a"] * 5), "delay_level": pa.array([-1, 0, 18, 19, None])}


def test_a_level_that_will_not_be_kept_is_refused_or_sent_as_it_is_by_the_policy() -> None:
    assert list(encode(dict(LEVELS)).problems) == [0, 3]
    for policy in ("warn", "as_java"):
        encoded = encode(dict(LEVELS), delayPolicy=policy)
        assert encoded.problems == {}
        assert [one.get("DELAY") for one in properties(encoded)] == ["-1", None, "18", "19", None]
        assert encoded.alone.tolist() == [True, False, True, True, False]


@pytest.mark.parametrize("column", ["deliver_at", "start_deliver_time"])
def test_an_instant_in_seconds_is_refused_unless_the_policy_lets_it_pass(column: str) -> None:
    columns = {"body": pa.array(["a", "b"]), column: pa.array([1_900_000_000, 0], pa.int64())}
    (problem,) = encode(dict(columns)).problems.values()
    assert "milliseconds" in problem
    assert encode(dict(columns), delayPolicy="warn").problems == {}


@pytest.mark.parametrize("column", ["deliver_at", "start_deliver_time", "delay_ms", "delay_level"])
def test_a_strict_encoder_refuses_what_the_client_would_of_what_it_writes(column: str) -> None:
    every = sorted({n for one in RawMessages.UNKEPT_DELAYS.values() for n in _around(one)})
    columns = {"body": pa.array(["a"] * len(every)), column: pa.array(every, pa.int64())}
    strict = encode(dict(columns), maxDelayMs="0")
    written = properties(encode(dict(columns), maxDelayMs="0", delayPolicy="as_java"))
    doubtful = [row for row, one in enumerate(written) if doubts(one)]
    assert sorted(strict.problems) == doubtful
    assert (len(doubtful) > 0) is (column != "delay_ms")
    assert all("delayPolicy" in why for why in strict.problems.values())


def _around(ranges: Iterable[tuple[int, int, str, str]]) -> Iterator[int]:
    for first, last, _reason, _advice in ranges:
        for edge in (first, last):
            yield from (n for n in (edge - 1, edge, edge + 1) if -(1 << 63) <= n < 1 << 63)


@pytest.mark.parametrize(
    "columns",
    [
        {"TIMER_DELAY_SECS": pa.array([None, "5"])},
        {"properties": pa.array([[("a", "1")], [("TIMER_DELAY_SECS", "5")]], PAIRS)},
    ],
    ids=["a column", "a property"],
)
def test_a_misspelt_delay_is_refused_or_sent_alone_to_be_told_or_sent_as_any(
    columns: dict[str, pa.Array],
) -> None:
    columns = {"body": pa.array(["a", "b"]), **columns}
    strict = encode(dict(columns), extraColumns="properties")
    assert list(strict.problems) == [1]
    assert "did you mean TIMER_DELAY_SEC" in strict.problems[1]
    for policy, alone in (("warn", [False, True]), ("as_java", [False, False])):
        sent = encode(dict(columns), extraColumns="properties", delayPolicy=policy)
        assert sent.problems == {}
        assert sent.alone.tolist() == alone
        assert not sent.delayed.any()


def test_an_extra_column_cannot_be_a_property_that_rocketmq_reserves() -> None:
    columns = {"body": pa.array(["a"]), "DELAY": pa.array(["3"]), "mine": pa.array(["1"])}
    with pytest.raises(SchemaError, match="DELAY has a name that RocketMQ reserves"):
        encode(columns, extraColumns="properties")
    dropped = encode(columns, extraColumns="properties", reservedProperties="drop")
    assert without_id(dropped) == [{"mine": "1"}]


def test_a_dedupe_id_replaces_the_one_that_the_message_came_with() -> None:
    old = pa.array([[("DEDUPE_ID", "old"), ("mine", "1")]], pa.map_("string", "string"))
    columns = {"body": pa.array(["a"]), "properties": old}
    assert without_id(encode(columns)) == [{"DEDUPE_ID": "old", "mine": "1"}]
    encoded = encode(columns | {"dedupe_key": pa.array(["new"])})
    assert encoded.properties.to_pylist()[0].count(b"DEDUPE_ID") == 1
    assert without_id(encoded) == [{"DEDUPE_ID": "new", "mine": "1"}]


# --- generated ids of messages -------------------------------------------------------------------


def dedupe_ids(
    columns: dict[str, pa.Array], *, now_ms: int = NOW, first_row: int = 0, **options: object
) -> list[str]:
    encoded = encode(columns, now_ms=now_ms, dedupe="q-7-0", first_row=first_row, **options)
    assert encoded.problems == {}
    return [one["DEDUPE_ID"] for one in properties(encoded)]


ONE = {"body": pa.array([b"pay now"])}


@pytest.mark.case("SP60")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"delay_ms": pa.array([3_600_000])}, {"delay_ms": pa.array([86_400_000])}),
        ({"delay_ms": pa.array([5])}, {}),
        ({"deliver_at": pa.array([NOW + 1])}, {"deliver_at": pa.array([NOW + 2])}),
        ({"delay_level": pa.array([3])}, {"delay_level": pa.array([4])}),
        ({"delay_level": pa.array([3])}, {"delay_ms": pa.array([3])}),
        ({"tags": pa.array(["a"])}, {"tags": pa.array(["b"])}),
        ({"keys": pa.array(["a"])}, {"keys": pa.array(["b"])}),
        ({"keys": pa.array(["a"])}, {"tags": pa.array(["a"])}),
        ({"sharding_key": pa.array(["a"])}, {"sharding_key": pa.array(["b"])}),
        ({"message_id": pa.array(["a"])}, {"message_id": pa.array(["b"])}),
        ({"queue_id": pa.array([0])}, {"queue_id": pa.array([1])}),
        ({"flag": pa.array([0])}, {"flag": pa.array([1])}),
        (
            {"properties": pa.array([[("a", "1")]], PAIRS)},
            {"properties": pa.array([[("a", "2")]], PAIRS)},
        ),
        ({"topic": pa.array(["T1"])}, {"topic": pa.array(["T2"])}),
        ({"body": pa.array([b"pay now "])}, {}),
    ],
)
def test_another_message_in_the_same_place_of_another_write_has_another_dedupe_id(
    one: dict[str, pa.Array], other: dict[str, pa.Array]
) -> None:
    assert dedupe_ids(ONE | one) != dedupe_ids(ONE | other)


@pytest.mark.case("SP60")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"delayMs": 5_000}, {"delayMs": 6_000}),
        ({"tags": "a"}, {"tags": "b"}),
        ({"deliverAt": "2023-11-14T22:13:21Z"}, {"deliverAt": "2023-11-14T22:13:22Z"}),
    ],
)
def test_what_options_say_about_every_message_counts_for_its_dedupe_id(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert dedupe_ids(dict(ONE), **one) != dedupe_ids(dict(ONE), **other)


@pytest.mark.case("SP40", "SP60")
def test_a_repeated_batch_has_the_dedupe_ids_that_it_had() -> None:
    count = 300
    columns = {
        "body": pa.array([b"%d" % number for number in range(count)]),
        "keys": pa.array([None if number % 3 else f"k{number}" for number in range(count)]),
        "delay_ms": pa.array([None if number % 2 else number for number in range(count)]),
        "properties": pa.array([[("n", str(number))] for number in range(count)], PAIRS),
    }
    first = dedupe_ids(columns)
    assert dedupe_ids(columns, now_ms=NOW + DAY_MS) == first  # other ids, another time
    assert [one.rsplit("-", 1)[0] for one in first] == [f"q-7-0-{n}" for n in range(count)]
    assert {len(one.rsplit("-", 1)[1]) for one in first} == {8}
    # As if Spark had cut the rows otherwise: slices of arrays, with other offsets.
    cut = {name: cells[100:] for name, cells in columns.items()}
    assert dedupe_ids(cut, first_row=100) == first[100:]


@pytest.mark.case("SP33")
def test_a_delay_beyond_the_limit_is_found_before_anything_is_sent() -> None:
    far = {"body": pa.array([b"x"] * 2), "delay_ms": pa.array([3 * DAY_MS + 1, 3 * DAY_MS])}
    assert list(encode(dict(far)).problems) == [0]
    assert "maxDelayMs" in encode(dict(far)).problems[0]
    assert encode(dict(far), maxDelayMs=0).problems == {}
    late = pa.array([NOW + 3 * DAY_MS + 60_001, NOW + 3 * DAY_MS + 60_000])
    assert list(encode({"body": pa.array([b"x"] * 2), "deliver_at": late}).problems) == [0]


@pytest.mark.case("SP33")
def test_the_clock_of_a_worker_may_be_off_by_as_much_as_is_said() -> None:
    late = {"body": pa.array([b"x"]), "deliver_at": pa.array([NOW + 1_005])}
    assert list(encode(dict(late), maxDelayMs=1_000, clockToleranceMs=4).problems) == [0]
    assert encode(dict(late), maxDelayMs=1_000, clockToleranceMs=5).problems == {}


@pytest.mark.case("SP29")
def test_rows_without_a_time_get_that_of_the_option() -> None:
    columns = {"body": pa.array([b"x"] * 2), "delay_ms": pa.array([None, 5])}
    encoded = encode(columns, deliverAt="2023-11-14T22:13:21Z")
    assert without_id(encoded) == [{"TIMER_DELIVER_MS": str(NOW + 1_000)}, {"TIMER_DELAY_MS": "5"}]


def test_zero_and_below_is_at_once_and_levels_have_a_range() -> None:
    body = pa.array([b"x"] * 2)
    assert encode({"body": body, "delay_ms": pa.array([0, -5])}).delayed.tolist() == [False] * 2
    levels = encode({"body": body, "delay_level": pa.array([3, 19])})
    assert (without_id(levels)[0], list(levels.problems)) == ({"DELAY": "3"}, [1])


def test_an_option_delays_rows_without_a_delay_of_their_own() -> None:
    columns = {"body": pa.array([b"x"] * 2), "deliver_at": pa.array([None, NOW])}
    assert without_id(encode(columns, delayMs=9)) == [
        {"TIMER_DELAY_MS": "9"},
        {"TIMER_DELIVER_MS": str(NOW)},
    ]


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(SchemaError, match="cannot be timestamp"):
        encode({"body": pa.array([b"x"]), "deliver_at": pa.array([0], pa.timestamp("us"))})


# --- columns -----------------------------------------------------------------------------------


def test_unknown_columns_are_errors_properties_or_dropped() -> None:
    columns = {"body": pa.array([b"x"]), "bdy": pa.array([42])}
    with pytest.raises(SchemaError, match="unknown column bdy: did you mean body"):
        encode(dict(columns))
    with pytest.raises(SchemaError, match=r"to drop them$"):
        encode(dict(columns))
    assert without_id(encode(dict(columns), extraColumns="properties")) == [{"bdy": "42"}]
    assert without_id(encode(dict(columns), extraColumns="ignore")) == [{}]


@pytest.mark.parametrize("name", ["offset", "storeTimestamp", "property.shop"])
def test_a_column_that_only_a_read_has_leads_to_for_write(name: str) -> None:
    with pytest.raises(SchemaError, match=f"column {name}.*or use spark_connector.for_write"):
        encode({"body": pa.array([b"x"]), name: pa.array([1])})


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"tags": pa.array(["t"])}, "needs a column body"),
        ({"body": pa.array([1])}, "cannot be int64"),
        ({"body": pa.array([b"x"]), "value": pa.array([b"x"])}, "another body column"),
        (
            {"body": pa.array([b"x"]), "sharding_key": pa.array(["a"]), "queue_id": pa.array([1])},
            "exclude each other",
        ),
        ({"body": pa.array([b"x"]), "broker_name": pa.array(["b"])}, "needs queue_id"),
    ],
)
def test_a_schema_that_cannot_be_written_is_refused(
    columns: dict[str, pa.Array], error: str
) -> None:
    with pytest.raises(SchemaError, match=error):
        encode(columns)

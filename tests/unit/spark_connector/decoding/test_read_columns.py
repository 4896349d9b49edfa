"""Which columns a read gives, and what is said about others."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_connector.decoding.read_columns import ddl_of, projection
from spark_connector.errors import SchemaError


def test_the_usual_columns_and_chosen_ones() -> None:
    assert ddl_of(()).startswith("`topic` STRING, `broker_name` STRING, `queue_id` INT, `offset`")
    assert ddl_of((), include_headers=True).endswith("`properties` MAP<STRING, STRING>")
    assert ddl_of(["value", "KEY"]) == "`value` BINARY, `KEY` STRING"


def test_chosen_properties_are_fields_of_one_column() -> None:
    chosen = ["property.userId", "offset", "Property.my-region", "property.a`b"]
    fields = "`userId`: STRING, `my-region`: STRING, `a``b`: STRING"
    assert ddl_of(chosen) == f"`property` STRUCT<{fields}>, `offset` BIGINT"
    kind = pa.struct([("userId", pa.string()), ("b", pa.string())])
    (column,) = projection(pa.schema([("Property", kind)]))
    assert [one.property_names for one in column.parts] == [("userId",), ("b",)]


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (pa.string(), r"must be struct<NAME:string>"),
        (pa.struct([("a", pa.int32())]), "field a of column property must be string"),
        (pa.struct([pa.field("a", pa.string(), nullable=False)]), "NOT NULL"),
        (pa.struct([]), "needs the names of properties"),
    ],
)
def test_a_column_of_properties_has_texts_that_may_be_missing(
    kind: pa.DataType, error: str
) -> None:
    with pytest.raises(SchemaError, match=error):
        projection(pa.schema([("property", kind)]))


def test_a_column_of_properties_needs_names() -> None:
    with pytest.raises(SchemaError, match=r"ask for property\.NAME"):
        ddl_of(["property"])


def test_names_of_kafka_and_of_the_old_connector_are_known() -> None:
    schema = pa.schema([("queueOffset", pa.int64()), ("value", pa.string()), ("KEY", pa.string())])
    assert [(one.name, one.source) for one in projection(schema)] == [
        ("queueOffset", "offset"),
        ("value", "body"),
        ("KEY", "keys"),
    ]


def test_property_names_keep_their_case() -> None:
    (column,) = projection(pa.schema([("property.userId", pa.string())]))
    assert column.property_names == ("userId",)


@pytest.mark.parametrize(
    ("name", "kind", "error"),
    [
        ("offzet", pa.int64(), "did you mean offset"),
        ("offset", pa.string(), "cannot be string: it must be bigint"),
        ("body", pa.int32(), "it must be binary or string"),
        ("store_timestamp", pa.timestamp("us"), "it must be timestamp or bigint"),
        ("properties", pa.map_(pa.string(), pa.int32()), "cannot be map"),
    ],
)
def test_what_cannot_be_read_is_named(name: str, kind: pa.DataType, error: str) -> None:
    with pytest.raises(SchemaError, match=error):
        projection(pa.schema([(name, kind)]))

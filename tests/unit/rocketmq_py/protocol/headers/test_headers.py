"""The base of all headers, and every header class by its table."""

from __future__ import annotations

import importlib
import pickle

import pytest

from rocketmq_py.errors import HeaderError
from rocketmq_py.protocol.headers import (
    Field,
    Flag,
    Header,
    Int32,
    Int64,
    ShortNamedHeader,
    Text,
    optional,
    read_flag,
    read_int32,
    read_int64,
    required,
)

FAMILIES = ("admin", "client", "consume", "send")

CLASSES = [
    cls
    for family in FAMILIES
    for cls in vars(importlib.import_module(f"rocketmq_py.protocol.headers.{family}")).values()
    if isinstance(cls, type) and issubclass(cls, Header) and cls.FIELDS
]

SAMPLES = {"Text": ("text", "text"), "Int32": (7, "7"), "Int64": (-9, "-9"), "Flag": (True, "true")}


def full_ext(cls: type[Header]) -> dict[str, str]:
    return {f.wire: SAMPLES[f.kind][1] for f in cls.FIELDS}


class Sample(ShortNamedHeader):
    name: Text = required("name", short="a")
    size: Int32 = required("size", short="b")
    at: Int64 | None = optional("at", short="c")
    on: Flag = optional("isOn", default=False)


def test_the_body_of_a_class_becomes_its_table() -> None:
    assert (
        Field("name", "name", "a", "Text", required=True, default=None),
        Field("size", "size", "b", "Int32", required=True, default=None),
        Field("at", "at", "c", "Int64", required=False, default=None),
        Field("on", "isOn", None, "Flag", required=False, default=False),
    ) == Sample.FIELDS


def test_a_header_is_made_read_and_written_by_its_table() -> None:
    header = Sample(name="n", size=3)

    assert (header.name, header.size, header.at, header.on) == ("n", 3, None, False)
    assert header.to_ext() == {"name": "n", "size": "3", "isOn": "false"}
    assert header.to_ext_v2() == {"a": "n", "b": "3"}
    assert Sample.from_ext({"name": "n", "size": "3", "unknown": "x"}) == header
    assert Sample.from_ext_v2({"a": "n", "b": "3", "c": "5"}) == Sample(name="n", size=3, at=5)


def test_each_method_may_be_the_first_one_called() -> None:
    def fresh() -> type[ShortNamedHeader]:
        class Fresh(ShortNamedHeader):
            name: Text = required("name", short="a")

        return Fresh

    assert fresh().from_ext({"name": "n"}).to_ext() == {"name": "n"}
    assert fresh().from_ext_v2({"a": "n"}).to_ext_v2() == {"a": "n"}
    bare = object.__new__(fresh())
    with pytest.raises(AttributeError):
        bare.to_ext()
    bare = object.__new__(fresh())
    with pytest.raises(AttributeError):
        bare.to_ext_v2()


def test_headers_are_values() -> None:
    header = Sample(name="n", size=3)

    assert header == Sample(name="n", size=3)
    assert header != Sample(name="m", size=3)
    assert header != "n"
    assert repr(header) == "Sample(name='n', size=3, at=None, on=False)"
    with pytest.raises(TypeError):
        hash(header)


def test_a_header_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        Sample(name="n", size=3).other = 1  # type: ignore[attr-defined] # this is the point


def test_a_header_cannot_extend_another_one() -> None:
    with pytest.raises(TypeError, match="one table"):
        type("Longer", (Sample,), {})


def test_an_unknown_keyword_is_refused() -> None:
    with pytest.raises(TypeError):
        Sample(name="n", size=3, other=1)  # type: ignore[call-arg] # this is the point


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_header_reads_back_what_it_writes(cls: type[Header]) -> None:
    ext = full_ext(cls)

    header = cls.from_ext(ext)

    assert header.to_ext() == ext
    assert [SAMPLES[f.kind][0] for f in cls.FIELDS] == [getattr(header, f.name) for f in cls.FIELDS]
    assert cls(**{f.name: SAMPLES[f.kind][0] for f in cls.FIELDS}) == header
    assert pickle.loads(pickle.dumps(header)) == header  # noqa: S301 - our own bytes


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_header_reads_without_its_optional_fields(cls: type[Header]) -> None:
    ext = {f.wire: SAMPLES[f.kind][1] for f in cls.FIELDS if f.required}

    header = cls.from_ext(ext)

    for f in cls.FIELDS:
        if not f.required:
            assert getattr(header, f.name) == f.default


@pytest.mark.case("W20")
@pytest.mark.parametrize(
    ("cls", "field"),
    [(cls, f) for cls in CLASSES for f in cls.FIELDS if f.required],
    ids=lambda part: part.wire if isinstance(part, Field) else part.__name__,
)
def test_a_missing_required_field_is_named(cls: type[Header], field: Field) -> None:
    ext = full_ext(cls)
    del ext[field.wire]

    with pytest.raises(HeaderError) as caught:
        cls.from_ext(ext)

    assert caught.value.field == field.wire
    assert "required" in str(caught.value)


@pytest.mark.parametrize(
    ("cls", "field"),
    [(cls, f) for cls in CLASSES for f in cls.FIELDS if f.kind in {"Int32", "Int64"}],
    ids=lambda part: part.wire if isinstance(part, Field) else part.__name__,
)
def test_a_number_that_is_none_is_named_with_its_value(cls: type[Header], field: Field) -> None:
    with pytest.raises(HeaderError) as caught:
        cls.from_ext(full_ext(cls) | {field.wire: "seven"})

    assert (caught.value.field, caught.value.value) == (field.wire, "seven")


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_no_header_has_one_wire_name_twice(cls: type[Header]) -> None:
    names = [f.wire for f in cls.FIELDS] + [f.short for f in cls.FIELDS if f.short]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("text", ["0", "-1", "+5", "007", "2147483647", "-2147483648"])
def test_numbers_read_as_java_reads_them(text: str) -> None:
    assert int(text) == read_int32(text) == read_int64(text)


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1_000", "1.0", "0x1", "2147483648", "1" * 5000])
def test_what_java_refuses_as_int_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"integer|invalid literal|digits"):
        read_int32(text)


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "1_0"])
def test_what_java_refuses_as_long_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="64-bit"):
        read_int64(text)
    assert read_int64(str(2**63 - 1)) == 2**63 - 1


def test_everything_but_true_is_false() -> None:
    assert [read_flag(text) for text in ("true", "TRUE", "false", "1", "")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_a_method_that_was_bound_before_its_class_was_compiled_does_not_compile_it_again() -> None:
    class Bound(Header):
        topic: Text = required("topic")

    read = Bound.from_ext
    assert read({"topic": "T"}).topic == "T"
    compiled = Bound.__dict__["from_ext"]
    assert read({"topic": "U"}).topic == "U"
    assert Bound.__dict__["from_ext"] is compiled

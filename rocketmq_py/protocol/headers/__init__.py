"""How a typed header and the extra fields of a command become each other: one table per header.

A header class is a table. Each line of its body is one field: name, type, then its name on the
wire and, where there is one, its short name::

    class SendMessageResponseHeader(Header):
        msg_id: Text = required("msgId")
        queue_id: Int32 = required("queueId")
        transaction_id: Text | None = optional("transactionId")

Codec, documentation and tests read `FIELDS`, made from those lines. The conversions are compiled
from the table when a class is used for the first time, so that importing a family costs next to
nothing and a field costs no loop. Leniency follows `RemotingCommand.decodeCommandCustomHeader`:
unknown fields are ignored. A required field that is missing is always an error here, though some
headers of the original only log it. Must not know request codes; those are in `codes`, the
families in the modules beside this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NamedTuple, Self, dataclass_transform

from rocketmq_py.errors import HeaderError

Text = str
Int32 = int
Int64 = int
Flag = bool


class Field(NamedTuple):
    """One line of a header's table.

    `kind` is Text, Int32, Int64 or Flag. `default` is what an absent optional field reads as: None
    or a literal.
    """

    name: str
    wire: str
    short: str | None
    kind: str
    required: bool
    default: object


# Any: the value stands for the annotated type, which only the class body knows.
def required(wire: str, *, short: str | None = None) -> Any:
    """Declare a field without which the header cannot be read or made."""
    return Field("", wire, short, "", required=True, default=None)


def optional(wire: str, *, short: str | None = None, default: object = None) -> Any:
    """Declare a field that may be absent; None is left out when written."""
    return Field("", wire, short, "", required=False, default=default)


class _Table(type):
    """Turns the lines of a header's body into `FIELDS` and slots."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _Table:
        if any(getattr(base, "FIELDS", ()) for base in bases):
            raise TypeError(f"{name}: a header is one table, it cannot extend another header")
        fields: list[Field] = []
        for attribute, kind in namespace.get("__annotations__", {}).items():
            line = namespace.get(attribute)
            if isinstance(line, Field):
                del namespace[attribute]
                fields.append(line._replace(name=attribute, kind=kind.partition(" ")[0]))
        namespace["FIELDS"] = tuple(fields)
        namespace["__slots__"] = tuple(f.name for f in fields)
        return super().__new__(mcs, name, bases, namespace)


@dataclass_transform(kw_only_default=True, field_specifiers=(required,))
class Header(metaclass=_Table):
    """Base of all headers; made with keyword arguments, compared by value.

    >>> from rocketmq_py.protocol.headers.client import GetRouteInfoRequestHeader
    >>> header = GetRouteInfoRequestHeader(topic="T")
    >>> header.to_ext()
    {'topic': 'T'}
    >>> GetRouteInfoRequestHeader.from_ext({"topic": "T"}) == header
    True
    """

    FIELDS: ClassVar[tuple[Field, ...]]

    # The four methods below replace themselves by compiled ones of the class on their first call.

    def __init__(self, **values: object) -> None:
        _compile(type(self))
        self.__init__(**values)  # type: ignore[misc] # the compiled one takes over

    @classmethod
    def from_ext(cls, ext: Mapping[str, str]) -> Self:
        """Read the fields by their long names; raises `HeaderError` naming the field."""
        _compile(cls)
        return cls.from_ext(ext)

    def to_ext(self) -> dict[str, str]:
        """Write the fields under their long names; what is None is left out."""
        _compile(type(self))
        return self.to_ext()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, f.name) == getattr(other, f.name) for f in self.FIELDS)

    __hash__ = None  # type: ignore[assignment] # headers are mutable values

    def __repr__(self) -> str:
        values = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in self.FIELDS)
        return f"{type(self).__name__}({values})"


class ShortNamedHeader(Header):
    """Base of headers that also travel under one-letter names (requests 310, 320, 325)."""

    @classmethod
    def from_ext_v2(cls, ext: Mapping[str, str]) -> Self:
        """Read the fields by their short names; raises `HeaderError` naming the field."""
        _compile(cls)
        return cls.from_ext_v2(ext)

    def to_ext_v2(self) -> dict[str, str]:
        """Write the fields under their short names; what is None is left out."""
        _compile(type(self))
        return self.to_ext_v2()


# --- values --------------------------------------------------------------------------------


def read_int32(text: str) -> int:
    """Read a number as `Integer.parseInt` does; raises `ValueError`."""
    value = int(text)
    if -0x8000_0000 <= value <= 0x7FFF_FFFF and text.lstrip("+-").isdigit():
        return value
    raise ValueError("is no 32-bit integer")


def read_int64(text: str) -> int:
    """Read a number as `Long.parseLong` does; raises `ValueError`."""
    value = int(text)
    if -(1 << 63) <= value < 1 << 63 and text.lstrip("+-").isdigit():
        return value
    raise ValueError("is no 64-bit integer")


def read_flag(text: str) -> bool:
    """Read a truth value as `Boolean.parseBoolean` does: whatever is not `true` is false."""
    return text == "true" or text.lower() == "true"


class _Kind(NamedTuple):
    """How values of one kind are read and written; the last two are Python expressions.

    In `reading` the first `{}` stands for the value and `text` for it behind that.
    """

    read: Callable[[str], object]
    reason: str
    reading: str
    writing: str


_SMALL: Final = {str(number): number for number in range(64)}
"""Queue numbers, flags, counts: nearly every number of a hot request is looked up here."""

_READ_INT32: Final = "small[text] if (text := {}) in small else read_int32(text)"
_READ_INT64: Final = (
    "int(text) if (text := {}).isdecimal() and text.isascii() and len(text) < 19"
    " else read_int64(text)"
)
_READ_FLAG: Final = "(text := {}) == 'true' or (text != 'false' and read_flag(text))"

_KINDS: Final = {
    "Text": _Kind(str, "is no text", "{}", "{}"),
    "Int32": _Kind(read_int32, "is no 32-bit integer", _READ_INT32, "str({})"),
    "Int64": _Kind(read_int64, "is no 64-bit integer", _READ_INT64, "str({})"),
    "Flag": _Kind(read_flag, "is no truth value", _READ_FLAG, "('true' if {} else 'false')"),
}


# --- compilation ---------------------------------------------------------------------------


def _compile(cls: type[Header]) -> None:
    """Make the methods of one class out of its table.

    Building source text from a table that holds only names written in this package is what attrs
    and dataclasses do as well; nothing from outside gets into it. Once for each class: a method
    that was bound before its class was compiled comes here with every call.
    """
    if "from_ext" in cls.__dict__:
        return
    short_named = issubclass(cls, ShortNamedHeader)
    source = [
        *_init_source(cls.FIELDS),
        *_read_source("from_ext", {f: f.wire for f in cls.FIELDS}),
        *_write_source("to_ext", {f: f.wire for f in cls.FIELDS}),
    ]
    if short_named:
        names = {f: f.short for f in cls.FIELDS}
        source += _read_source("from_ext_v2", names)
        source += _write_source("to_ext_v2", names)
    namespace: dict[str, Any] = {
        "new": object.__new__,
        "explain": _explain,
        "small": _SMALL,
        "read_int32": read_int32,
        "read_int64": read_int64,
        "read_flag": read_flag,
    }
    code = compile("\n".join(source), f"<table of {cls.__name__}>", "exec")
    exec(code, namespace)  # noqa: S102 - see the docstring
    for name in ("__init__", "to_ext", "to_ext_v2"):
        if name in namespace:
            setattr(cls, name, namespace[name])
    for name in ("from_ext", "from_ext_v2"):
        if name in namespace:
            setattr(cls, name, classmethod(namespace[name]))


def _init_source(fields: tuple[Field, ...]) -> list[str]:
    parameters = [f.name if f.required else f"{f.name}={f.default!r}" for f in fields]
    star = "*, " if fields else ""
    return [
        f"def __init__(self, {star}{', '.join(parameters)}):",
        "  pass",
        *(f"  self.{f.name} = {f.name}" for f in fields),
    ]


def _read_source(method: str, names: Mapping[Field, str | None]) -> list[str]:
    """Read every field in a straight line; look for the culprit only after a failure."""
    lines = [f"def {method}(cls, ext):", "  self = new(cls)", "  get = ext.get", "  try:"]
    for f, wire in names.items():
        reading = _KINDS[f.kind].reading
        if wire is None:
            lines.append(f"    self.{f.name} = {f.default!r}")
        elif f.required:
            lines.append(f"    self.{f.name} = {reading.format(f'ext[{wire!r}]')}")
        else:
            read = reading.format("value")
            lines += [
                f"    value = get({wire!r})",
                f"    self.{f.name} = {f.default!r} if value is None else ({read})",
            ]
    lines += [
        "  except (KeyError, ValueError) as error:",
        f"    raise explain(cls, ext, {method.endswith('v2')}) from error",
        "  return self",
    ]
    return lines


def _write_source(method: str, names: Mapping[Field, str | None]) -> list[str]:
    lines = [f"def {method}(self):", "  ext = {"]
    for f, wire in names.items():
        if f.required and wire is not None:
            lines.append(f"    {wire!r}: {_KINDS[f.kind].writing.format(f'self.{f.name}')},")
    lines.append("  }")
    for f, wire in names.items():
        if not f.required and wire is not None:
            lines += [
                f"  value = self.{f.name}",
                f"  if value is not None: ext[{wire!r}] = {_KINDS[f.kind].writing.format('value')}",
            ]
    lines.append("  return ext")
    return lines


def _explain(cls: type[Header], ext: Mapping[str, str], short_names: bool) -> HeaderError:
    """Find the field that could not be read; the name in the error is the long one."""
    for f in cls.FIELDS:
        value = ext.get((f.short if short_names else f.wire) or "")
        if value is None:
            if f.required:
                return HeaderError(f.wire, None, "is required")
            continue
        kind = _KINDS[f.kind]
        try:
            kind.read(value)
        except ValueError:
            return HeaderError(f.wire, value, kind.reason)
    return HeaderError(cls.__name__, None, "cannot be read")

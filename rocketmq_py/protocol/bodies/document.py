"""How an attrs class and a JSON document become each other: the class body is the table.

A field ``read_queue_nums: int = 0`` is ``readQueueNums`` in the document; `wire` names it where
Java's name does not follow that rule. What is missing, null or unknown is taken as Java's fastjson
takes it: defaults stay, unknown names are ignored, numbers may be quoted. None is left out when
written, so a field whose default is not None reads back as its default. Must not know any body;
the families are the modules beside this one.
"""

from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, Self, cast, get_args, get_origin, get_type_hints

from attrs import define, fields

from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.lenient_json import DEPTH_MAX, dumps_fastjson, loads_lenient

_INT64_END: Final = 1 << 63
_DIGITS_MAX: Final = 20

# Any, all through this module: a document holds anything until its reader has looked at it.
_Reader = Callable[[Any], Any]


def wire(name: str) -> dict[str, str]:
    """Metadata of a field whose name in the document is not its own name in camel case."""
    return {"wire": name}


def ordinals(*names: str) -> dict[str, tuple[str, ...]]:
    """Metadata of a field that holds one of these names, or a number that counts them from 0.

    Java writes the name of an enumeration's member, C++ its number.
    """
    return {"ordinals": names}


class MessageQueueKey(NamedTuple):
    """A queue as documents name it; in tables it is the key."""

    topic: str
    broker_name: str
    queue_id: int


@define
class Document:
    """Base of all bodies."""

    def encode(self, standard: bool = False) -> bytes:
        """Write the body: Java's dialect with bare keys, or standard JSON with quoted ones."""
        return dumps_fastjson(self.to_document(), dialect="standard" if standard else "fastjson")

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Read a body, in whichever dialect; raises `BodyError` naming body and field."""
        return cls.from_document(loads_lenient(body))

    def to_document(self) -> dict[str, Any]:
        """Give the body as plain dicts and lists, under the names of the wire."""
        return {line.wire: _plain(getattr(self, line.name)) for line in _table(type(self))}

    @classmethod
    def from_document(cls, document: object) -> Self:
        """Read the body from plain dicts and lists."""
        if not isinstance(document, dict):
            raise BodyError(cls.__name__, f"is no JSON object but {type(document).__name__}")
        values: dict[str, Any] = {}
        for line in _table(cls):
            given = document.get(line.wire)
            if given is None:
                continue
            try:
                values[line.name] = line.read(given)
            except BodyError as error:
                raise BodyError(cls.__name__, f"field {line.wire}: {error}") from error
            except ValueError as error:
                raise BodyError(cls.__name__, f"field {line.wire} {error}") from error
        return cls(**values)


class _Line(NamedTuple):
    name: str
    wire: str
    read: _Reader


_TABLES: dict[type, tuple[_Line, ...]] = {}


def _table(cls: type) -> tuple[_Line, ...]:
    """Make the table of a class out of its annotations, once."""
    table = _TABLES.get(cls)
    if table is None:
        kinds = get_type_hints(cls)
        table = tuple(
            _Line(
                f.name,
                f.metadata.get("wire") or _camel_case(f.name),
                _reader_of(kinds[f.name], f.metadata),
            )
            for f in fields(cls)
        )
        _TABLES[cls] = table
    return table


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _plain(value: Any) -> Any:
    """Make a value writable: documents become dicts, sets become ordered lists."""
    if isinstance(value, Document):
        return value.to_document()
    if isinstance(value, MessageQueueKey):
        return dict(_plain_key(value))
    if isinstance(value, dict):
        return {_plain_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _plain_key(key: Any) -> Any:
    if isinstance(key, MessageQueueKey):
        return (
            ("brokerName", key.broker_name),
            ("queueId", key.queue_id),
            ("topic", key.topic),
        )
    return key


# --- readers, one per kind of annotation ---------------------------------------------------


class _Mismatch(ValueError):  # noqa: N818 - never leaves this module
    """A value is of another kind than the table says."""

    def __init__(self, kind: str, value: object) -> None:
        shown = repr(value)
        super().__init__(f"is no {kind} but {shown if len(shown) <= 60 else shown[:60] + '...'}")


def _reader(kind: Any) -> _Reader:
    """Choose the function that reads a value of the annotated kind."""
    if kind in _PLAIN_READERS:
        return _PLAIN_READERS[kind]
    if isinstance(kind, type) and issubclass(kind, Document):
        return kind.from_document
    origin = get_origin(kind)
    inner = get_args(kind)
    if origin is UnionType:
        (present,) = (option for option in inner if option is not NoneType)
        return _reader(present)
    if origin is dict:
        return _mapping_reader(_reader(inner[0]), _reader(inner[1]))
    if origin in {list, frozenset}:
        return _list_reader(cast("type[list[Any]]", origin), _reader(inner[0]))
    raise TypeError(f"no reader for {kind!r}")


def _reader_of(kind: Any, metadata: Mapping[str, Any]) -> _Reader:
    names = metadata.get("ordinals")
    return _ordinal_reader(names) if names else _reader(kind)


def _ordinal_reader(names: tuple[str, ...]) -> _Reader:
    def read(value: Any) -> str:
        if not isinstance(value, int) or isinstance(value, bool):
            return _read_text(value)
        if 0 <= value < len(names):
            return names[value]
        raise _Mismatch(f"number of one of {', '.join(names)}", value)

    return read


def _read_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise _Mismatch("text", value)


def _read_number(value: Any) -> int:
    number = value
    if isinstance(value, str):
        if len(value) <= _DIGITS_MAX and value.lstrip("-").isdigit():
            number = int(value)
    elif isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        number = int(value)
    if isinstance(number, int) and -_INT64_END <= number < _INT64_END:
        return number
    raise _Mismatch("64-bit integer", value)


def _read_fraction(value: Any) -> float:
    if isinstance(value, str | int | float):
        return float(value)
    raise _Mismatch("number", value)


def _read_flag(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() == "true" or value == "1"
    if isinstance(value, bool | int):
        return bool(value)
    raise _Mismatch("truth value", value)


def _read_anything(value: Any) -> Any:
    """Take a value as it is, unless it is so deep that nobody could write it again."""
    level = [value]
    for _ in range(DEPTH_MAX):
        inner = [one for one in level if isinstance(one, (dict, list))]
        if not inner:
            return value
        level = [item for one in inner for item in (one.values() if isinstance(one, dict) else one)]
    raise _Mismatch(f"value of less than {DEPTH_MAX} levels", "[...")


def _read_queue(value: Any) -> MessageQueueKey:
    """Read a queue from an object, a key that is an object, or the text of an object."""
    document = loads_lenient(value) if isinstance(value, str) else value
    if isinstance(document, tuple):
        document = dict(document)
    if not isinstance(document, dict):
        raise _Mismatch("message queue", value)
    return MessageQueueKey(
        _read_text(document.get("topic", "")),
        _read_text(document.get("brokerName", "")),
        _read_number(document.get("queueId", 0)),
    )


def _mapping_reader(read_key: _Reader, read_value: _Reader) -> _Reader:
    def read(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise _Mismatch("object", value)
        return {read_key(key): read_value(item) for key, item in value.items() if item is not None}

    return read


def _list_reader(make: type[list[Any]], read_item: _Reader) -> _Reader:
    def read(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _Mismatch("array", value)
        return make([read_item(item) for item in value])

    return read


_PLAIN_READERS: dict[Any, _Reader] = {
    str: _read_text,
    int: _read_number,
    float: _read_fraction,
    bool: _read_flag,
    Any: _read_anything,
    MessageQueueKey: _read_queue,
}

"""The records of a message trace, and their text on the wire: both directions, for every version.

A trace message holds records, each ended by U+0002. The fields of a record are separated by U+0001;
the first one names its type. Facts: ``TraceDataEncoder``, ``TraceType`` and ``ConsumeReturnType``
of the original. What a message does not have, such as tags, is written as ``null``, as Java does:
its reader fails when the last field of a record is empty. Must not know who makes or sends records.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

from attrs import frozen

from rocketmq_py.errors import BodyError
from rocketmq_py.send_result import LocalTransactionState

FIELD_END: Final = "\x01"
RECORD_END: Final = "\x02"
NOTHING: Final = "null"
SHOWN_MAX: Final = 100
"""Characters of a field that an error shows."""
DIGITS_MAX: Final = 20


class MessageKind(IntEnum):
    """What kind of message was sent (``MessageType`` of the original)."""

    NORMAL = 0
    HALF = 1
    COMMIT = 2
    DELAY = 3
    ORDER = 4


class ConsumeEnd(IntEnum):
    """How a call of a listener ended (``ConsumeReturnType`` of the original)."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURNNULL = 3
    FAILED = 4


@frozen(kw_only=True)
class Pub:
    """A message was sent; ``timestamp`` in epoch milliseconds is when the attempt began.

    ``success``: the broker answered SEND_OK. ``store_host`` is the address that was sent to,
    ``body_length`` in bytes. Only some old clients tell their own ``client_host``.
    """

    timestamp: int
    region: str
    group: str
    topic: str
    msg_id: str
    tags: str | None
    keys: tuple[str, ...]
    store_host: str
    body_length: int
    cost_ms: int
    kind: MessageKind
    offset_msg_id: str | None
    success: bool
    client_host: str | None = None


@frozen(kw_only=True)
class SubBefore:
    """A listener got a message; ``request_id`` names its call, ``retry_times`` is 0 at first."""

    timestamp: int
    region: str
    group: str
    request_id: str
    msg_id: str
    retry_times: int
    keys: tuple[str, ...]


@frozen(kw_only=True)
class SubAfter:
    """A listener call has ended; ``cost_ms`` is its time, divided by the number of its messages.

    None stands for what old clients, and those of a vendor's cloud, do not tell.
    """

    request_id: str
    msg_id: str
    cost_ms: int
    success: bool
    keys: tuple[str, ...]
    end: ConsumeEnd | None = None
    timestamp: int | None = None
    group: str | None = None


@frozen(kw_only=True)
class EndTransaction:
    """A producer told the broker what became of a transaction; ``from_check``: it was asked."""

    timestamp: int
    region: str
    group: str
    topic: str
    msg_id: str
    tags: str | None
    keys: tuple[str, ...]
    store_host: str
    kind: MessageKind
    transaction_id: str | None
    state: LocalTransactionState
    from_check: bool


@frozen(kw_only=True)
class Recall:
    """A timer message was taken back; ``success``: the broker did it."""

    timestamp: int
    region: str
    group: str
    topic: str
    msg_id: str
    success: bool


TraceRecord: TypeAlias = Pub | SubBefore | SubAfter | EndTransaction | Recall
"""One record of a trace."""


# --- the form on the wire ---------------------------------------------------------------------


class _Codec(NamedTuple):
    """How a value of one type is written and read."""

    write: Callable[[Any], str]  # Any: each field of a record has a type of its own
    read: Callable[[str], Any]


def _clean(text: str) -> str:
    """Replace separators: a message of another client may have them in keys and tags."""
    return text.replace(FIELD_END, " ").replace(RECORD_END, " ")


def _flag_of(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f"neither true nor false: {text[:SHOWN_MAX]!r}")
    return text == "true"


def _number_of(text: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= DIGITS_MAX):
        raise ValueError(f"no number of up to {DIGITS_MAX} digits: {text[:SHOWN_MAX]!r}")
    return int(text)


_TEXT: Final = _Codec(_clean, str)
_TEXT_OR_NONE: Final = _Codec(
    lambda text: _clean(text) if text else NOTHING,
    lambda text: None if text in {"", NOTHING} else text,
)
_KEYS: Final = _Codec(
    lambda keys: _clean(" ".join(keys)) or NOTHING,
    lambda text: () if text == NOTHING else tuple(text.split()),
)
_NUMBER: Final = _Codec(str, _number_of)
_FLAG: Final = _Codec(lambda value: "true" if value else "false", _flag_of)
_KIND: Final = _Codec(lambda kind: str(int(kind)), lambda text: MessageKind(_number_of(text)))
_END: Final = _Codec(lambda end: str(int(end)), lambda text: ConsumeEnd(_number_of(text)))
_STATE: Final = _Codec(lambda state: state.value, LocalTransactionState)


class _Form(NamedTuple):
    """The fields of a type in their order.

    A record has ``least`` of them at least: old versions end earlier, and what a newer version adds
    is passed over. ``gap`` is missing in the version that is one shorter.
    """

    kind: type
    fields: tuple[tuple[str, _Codec], ...]
    least: int
    gap: str | None = None


_HEAD: Final = (("timestamp", _NUMBER), ("region", _TEXT), ("group", _TEXT))
_MESSAGE: Final = (
    *(("topic", _TEXT), ("msg_id", _TEXT), ("tags", _TEXT_OR_NONE), ("keys", _KEYS)),
    ("store_host", _TEXT),
)

_FORMS: Final[dict[str, _Form]] = {
    "Pub": _Form(
        Pub,
        (
            *_HEAD,
            *_MESSAGE,
            *(("body_length", _NUMBER), ("cost_ms", _NUMBER), ("kind", _KIND)),
            *(("offset_msg_id", _TEXT_OR_NONE), ("success", _FLAG)),
            ("client_host", _TEXT),
        ),
        least=13,
        gap="offset_msg_id",
    ),
    "SubBefore": _Form(
        SubBefore,
        (
            *_HEAD,
            *(("request_id", _TEXT), ("msg_id", _TEXT), ("retry_times", _NUMBER), ("keys", _KEYS)),
        ),
        least=7,
    ),
    "SubAfter": _Form(
        SubAfter,
        (
            *(("request_id", _TEXT), ("msg_id", _TEXT), ("cost_ms", _NUMBER), ("success", _FLAG)),
            *(("keys", _KEYS), ("end", _END), ("timestamp", _NUMBER), ("group", _TEXT)),
        ),
        least=5,
    ),
    "EndTransaction": _Form(
        EndTransaction,
        (
            *_HEAD,
            *_MESSAGE,
            *(("kind", _KIND), ("transaction_id", _TEXT_OR_NONE), ("state", _STATE)),
            ("from_check", _FLAG),
        ),
        least=12,
    ),
    "Recall": _Form(
        Recall, (*_HEAD, ("topic", _TEXT), ("msg_id", _TEXT), ("success", _FLAG)), least=6
    ),
}
_NAME_OF: Final = {form.kind: name for name, form in _FORMS.items()}


def write_record(record: TraceRecord) -> bytes:
    """Write one record, its end included; it ends before the first optional field that is None."""
    name = _NAME_OF[type(record)]
    form = _FORMS[name]
    parts = [name]
    for number, (field, codec) in enumerate(form.fields):
        value = getattr(record, field)
        if value is None and number >= form.least:
            break
        parts.append(codec.write(value))
    return (FIELD_END.join(parts) + RECORD_END).encode(errors="replace")


def read_records(body: bytes) -> list[TraceRecord]:
    """Read the records in the body of a trace message, of any version and any client.

    Types that are not known are passed over. A tag, or an only key, ``null`` cannot be told from
    none. Raises a `RemotingCommandException` for a body, or a record in it, that cannot be read.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise BodyError("trace", f"no UTF-8: {error.reason}", error.start) from error
    found: list[TraceRecord] = []
    for number, line in enumerate(text.split(RECORD_END), 1):
        name, *values = line.split(FIELD_END)
        form = _FORMS.get(name)
        if form is not None:
            found.append(_read(name, form, values, number))
    return found


def _read(name: str, form: _Form, values: list[str], number: int) -> TraceRecord:
    where = f"record {number}, {name}"
    fields = form.fields
    if form.gap is not None and len(values) == form.least - 1:
        fields = tuple(field for field in fields if field[0] != form.gap)
        found: dict[str, Any] = {form.gap: None}  # Any: each field has a type of its own
    elif len(values) < form.least:
        raise BodyError("trace", f"{where} has {len(values)} fields, not {form.least} or more")
    else:
        found = {}
    for (field, codec), value in zip(fields, values, strict=False):
        try:
            found[field] = codec.read(value)
        except ValueError as error:
            raise BodyError("trace", f"{where}, field {field}: {error}") from error
    record: TraceRecord = form.kind(**found)
    return record

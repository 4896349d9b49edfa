"""How one stored record becomes the values of a row, by the client's own codec.

The slow path, for records that cannot be decoded together and for machines without numpy; what
it gives is what `decoder.py` must give too. Must not know Arrow buffers or the network.
"""

import json

from rocketmq_py import BodyTooLargeError, ClientConfig, MessageExt, RemotingCommandException
from rocketmq_py.raw import RawMessages
from spark_connector.decoding.read_columns import DELIVER_NAMES, MS_MAX, TRANSACTION_MARK, Column

RECORD_SIZE_MIN = 91
PLACE_SIZE = 28
"""So many bytes of a record say of which queue it is, and at which offset."""
SYS_FLAG_AT = 36
COMPRESSED = 1
"""The bit of a `sys_flag` whose body is compressed."""
DIGITS_MAX = 18
"""Of a number that fits into 64 bits whatever its digits are."""
LEVEL_DIGITS_MAX = 9
"""The same for a column of 32 bits."""
_BODY_SIZE_MAX = ClientConfig(namesrv_addr="").decompressed_body_max_bytes
LARGER_BODIES = "; option rocketmq.decompressedBodyMaxBytes says how many"
_ATTRIBUTES = {
    "broker_name": "broker_name",
    "queue_id": "queue_id",
    "offset": "queue_offset",
    "message_id": "msg_id",
    "flag": "flag",
    "sys_flag": "sys_flag",
    "reconsume_times": "reconsume_times",
    "store_size": "store_size",
    "commit_log_offset": "commit_log_offset",
    "offset_msg_id": "offset_msg_id",
    "born_host": "born_host",
    "store_host": "store_host",
}


def decode_row(
    raw: bytes | memoryview,
    at: int,
    topic: str,
    broker_name: str,
    *,
    check_crc: bool,
    with_body: bool = True,
    body_size_max: int = _BODY_SIZE_MAX,
) -> MessageExt:
    """Decode the record at an offset; an error names topic and broker."""
    try:
        _require_single(raw, at)
        return RawMessages.decode(
            raw,
            at,
            broker_name,
            check_crc=check_crc,
            with_body=with_body,
            body_size_max=body_size_max,
        )
    except RemotingCommandException as error:
        hint = LARGER_BODIES if isinstance(error, BodyTooLargeError) else ""
        where = f"topic {topic}, broker {broker_name}, record at byte {at} of a pull"
        if at + PLACE_SIZE <= len(raw):
            queue, offset = place_of(raw, at)
            where = f"topic {topic}, broker {broker_name}, queue {queue}, offset {offset}"
        raise RemotingCommandException(
            f"{where} cannot be decoded: {error}{hint}; mode=PERMISSIVE and mode=DROPMALFORMED "
            "go on"
        ) from None


def place_of(raw: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return queue and offset of the record at an offset, whatever else is wrong with it."""
    queue = int.from_bytes(raw[at + 12 : at + 16], signed=True)
    return queue, int.from_bytes(raw[at + 20 : at + 28], signed=True)


def _require_single(raw: bytes | memoryview, at: int) -> None:
    """Refuse a batch: those that can be taken apart have been."""
    if is_wrapped(raw, at):
        raise RemotingCommandException(
            "its sysFlag says batch (192), but its body is none, or longer than a frame"
        )


def is_wrapped(raw: bytes | memoryview, at: int) -> bool:
    """Say whether the record at an offset holds several messages."""
    flags = int.from_bytes(raw[at + SYS_FLAG_AT : at + SYS_FLAG_AT + 4])
    return flags & RawMessages.WRAPPED == RawMessages.WRAPPED


def salvaged(raw: bytes | memoryview, at: int, broker_name: str) -> MessageExt | None:
    """Decode what can be of a record that `decode_row` refused: all but its body, or nothing."""
    try:
        return RawMessages.decode(raw, at, broker_name, with_body=False)
    except RemotingCommandException:
        return None


def salvaged_value(
    column: Column, message: MessageExt | None, topic: str, broker_name: str, place: tuple[int, int]
) -> object:
    """Give the value of a column of a record that cannot be decoded whole, None for what is not."""
    known: dict[str, object] = {"topic": topic, "broker_name": broker_name}
    known |= {"queue_id": place[0], "offset": place[1]}
    if column.source in known:
        return known[column.source]
    if message is None or column.source in {"body", "queue_size_left"}:
        return None
    return value_of(column, message, topic, 0, strict_text=False)


def value_of(
    column: Column, message: MessageExt, topic: str, max_offset: int, *, strict_text: bool
) -> object:
    """Give the value of one column, as Arrow's builder takes it."""
    source = column.source
    attribute = _ATTRIBUTES.get(source)
    if attribute is not None:
        return getattr(message, attribute)
    names = column.property_names
    if names:
        return _first(message.properties, names)
    if column.parts:
        return {one.name: _first(message.properties, one.property_names) for one in column.parts}
    match source:
        case "topic":
            return topic
        case "body_crc":
            return message.body_crc
        case "queue_size_left":
            return max(0, max_offset - 1 - message.queue_offset)
        case "body":
            return _body(column, message, strict_text=strict_text)
        case "born_timestamp":
            return _moment(column, message.born_timestamp)
        case "store_timestamp":
            return _moment(column, message.store_timestamp)
        case "transaction_id":
            marked = message.properties.get(TRANSACTION_MARK, "").lower() == "true"
            return message.properties.get("UNIQ_KEY") if marked else None
        case "deliver_at":
            return _moment(column, _number(_first(message.properties, DELIVER_NAMES)))
        case "delay_level":
            return _number(message.properties.get("DELAY"), LEVEL_DIGITS_MAX)
        case _:
            return _properties(column, message.properties)


def _body(column: Column, message: MessageExt, *, strict_text: bool) -> bytes | str:
    if column.kind == "binary":
        return message.body
    if not strict_text:
        return message.body.decode("utf-8", "replace")
    try:
        return message.body.decode("utf-8")
    except UnicodeDecodeError:
        raise RemotingCommandException(
            f"the body at broker {message.broker_name}, queue {message.queue_id}, offset "
            f"{message.queue_offset} is no UTF-8: ask for body as binary, or set "
            "bodyCharsetErrors=replace"
        ) from None


def _moment(column: Column, milliseconds: int | None) -> int | None:
    if milliseconds is None or column.kind == "int64":
        return milliseconds
    bounded = max(-MS_MAX, min(milliseconds, MS_MAX))
    return bounded * 1_000  # a timestamp[us] is built from its number


def _first(properties: dict[str, str], names: tuple[str, ...]) -> str | None:
    return next((properties[name] for name in names if name in properties), None)


def _number(text: str | None, digits_max: int = DIGITS_MAX) -> int | None:
    if text is None:
        return None
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= digits_max):
        return None
    return int(text)


def _properties(column: Column, properties: dict[str, str]) -> object:
    if column.kind == "map":
        return list(properties.items())
    if column.kind == "list":
        return [{"key": name, "value": value} for name, value in properties.items()]
    return json.dumps(properties, ensure_ascii=False, separators=(",", ":"))

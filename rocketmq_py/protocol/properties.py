"""Which names message properties have, and how they lie in bytes.

A message's properties are one text, ``name U+0001 value U+0002 name U+0001 value U+0002 ...``, in
UTF-8, at most 32,767 bytes. There is no escaping. This module must not know what the properties
mean: delay is in `delay`, the rest in the code that acts on it. Codec as in
``org.apache.rocketmq.common.message.MessageDecoder``, names as in ``MessageConst``.
"""

import re
from collections.abc import Mapping
from typing import Final

from rocketmq_py.errors import BodyError

PROPERTIES_SIZE_MAX: Final = 32_767
"""Bytes of the encoded text; its length field has 15 usable bits."""

_NAME_VALUE_SEPARATOR = "\x01"
_PROPERTY_SEPARATOR = "\x02"
_FORBIDDEN_IN_USER_TEXT = ("\x00", _NAME_VALUE_SEPARATOR, _PROPERTY_SEPARATOR)


class Prop:
    """The property names that RocketMQ gives a meaning, and our own ones of the timer."""

    # What a sender says about the message.
    KEYS: Final = "KEYS"
    TAGS: Final = "TAGS"
    WAIT: Final = "WAIT"
    BUYER_ID: Final = "BUYER_ID"
    INSTANCE_ID: Final = "INSTANCE_ID"
    SHARDING_KEY: Final = "__SHARDINGKEY"
    UNIQ_KEY: Final = "UNIQ_KEY"
    EXTEND_UNIQ_INFO: Final = "EXTEND_UNIQ_INFO"
    TRACE_CONTEXT: Final = "TRACE_CONTEXT"
    PGROUP: Final = "PGROUP"

    # Delay: `rocketmq_py.protocol.delay` tells what they mean.
    DELAY: Final = "DELAY"
    TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
    TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
    TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
    START_DELIVER_TIME: Final = "__STARTDELIVERTIME"
    TIMER_OUT_MS: Final = "TIMER_OUT_MS"
    TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
    TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
    TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
    TIMER_DEL_UNIQKEY: Final = "TIMER_DEL_UNIQKEY"
    TIMER_DELAY_LEVEL: Final = "TIMER_DELAY_LEVEL"
    # Ours, written by the embedded broker's timer only.
    TIMER_SRC_OFFSET: Final = "TIMER_SRC_OFFSET"
    TIMER_DUE_MS: Final = "TIMER_DUE_MS"
    TIMER_ROOT_OFFSET: Final = "TIMER_ROOT_OFFSET"
    TIMER_DEL_OFFSET: Final = "TIMER_DEL_OFFSET"

    # Where the message really belongs, and what happened to it.
    REAL_TOPIC: Final = "REAL_TOPIC"
    REAL_QID: Final = "REAL_QID"
    RETRY_TOPIC: Final = "RETRY_TOPIC"
    ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
    RECONSUME_TIME: Final = "RECONSUME_TIME"
    MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
    DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
    DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
    BORN_HOST: Final = "__BORNHOST"
    BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
    CLUSTER: Final = "CLUSTER"
    MSG_REGION: Final = "MSG_REGION"
    TRACE_ON: Final = "TRACE_ON"
    CRC32: Final = "__CRC32#"
    MIN_OFFSET: Final = "MIN_OFFSET"
    MAX_OFFSET: Final = "MAX_OFFSET"
    CONSUME_START_TIME: Final = "CONSUME_START_TIME"
    DUP_INFO: Final = "DUP_INFO"
    FORWARD_QUEUE_ID: Final = "PROPERTY_FORWARD_QUEUE_ID"
    REDIRECT: Final = "REDIRECT"
    TRANSFER_FLAG: Final = "TRANSFER_FLAG"
    CORRECTION_FLAG: Final = "CORRECTION_FLAG"
    MQ2_FLAG: Final = "MQ2_FLAG"

    # Transactions.
    TRAN_MSG: Final = "TRAN_MSG"
    TRANSACTION_ID: Final = "__transactionId__"
    TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
    TRAN_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
    CHECK_IMMUNITY_TIME_IN_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
    TRAN_SRC_OFFSET: Final = "TRAN_SRC_OFFSET"
    """Written by the embedded broker only; a real one ignores it."""

    # Request and reply.
    CORRELATION_ID: Final = "CORRELATION_ID"
    REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
    TTL: Final = "TTL"
    MSG_TYPE: Final = "MSG_TYPE"
    ARRIVE_TIME: Final = "ARRIVE_TIME"
    PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"

    # Pop, inner batches, multi dispatch.
    POP_CK: Final = "POP_CK"
    POP_CK_OFFSET: Final = "POP_CK_OFFSET"
    FIRST_POP_TIME: Final = "1ST_POP_TIME"
    INNER_NUM: Final = "INNER_NUM"
    INNER_BASE: Final = "INNER_BASE"
    INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
    INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"


REPLY: Final = "reply"
"""The MSG_TYPE of a reply to a request."""

OWN_TIMER_PROPERTIES: Final = frozenset(
    {Prop.TIMER_SRC_OFFSET, Prop.TIMER_DUE_MS, Prop.TIMER_ROOT_OFFSET, Prop.TIMER_DEL_OFFSET}
)
"""Names that only the embedded broker's timer writes; a real broker ignores them."""

KNOWN: Final = frozenset(value for name, value in vars(Prop).items() if not name.startswith("_"))
"""Every name of `Prop`."""

RESERVED: Final = KNOWN - {
    Prop.SHARDING_KEY,
    Prop.TRACE_CONTEXT,
    Prop.START_DELIVER_TIME,
    Prop.FORWARD_QUEUE_ID,
    Prop.REDIRECT,
    Prop.TRANSACTION_ID,
    Prop.TRANSACTION_CHECK_TIMES,
    Prop.CHECK_IMMUNITY_TIME_IN_SECONDS,
    Prop.TRAN_SRC_OFFSET,
    Prop.INNER_NUM,
    Prop.INNER_BASE,
    Prop.INNER_MULTI_DISPATCH,
}
"""Names that a user property may not have: ``MessageConst.STRING_HASH_SET`` and our timer's."""

_is_unique_key: Final = re.compile(r"[!-+\--~]{1,255}").fullmatch


def decode_properties(text: str | bytes) -> dict[str, str]:
    r"""Read a properties text; never fails.

    An item without a name or without a value is left out, the first U+0001 separates, the last
    of two equal names counts, a missing or repeated U+0002 does not matter, and bytes that are
    no UTF-8 become U+FFFD: all as ``MessageDecoder.string2messageProperties`` does.

    >>> decode_properties(b"TAGS\x01a\x02empty\x01\x02KEYS\x01k1 k2")
    {'TAGS': 'a', 'KEYS': 'k1 k2'}
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    properties: dict[str, str] = {}
    for item in text.split("\x02"):
        name, _, value = item.partition("\x01")
        if value and name:
            properties[name] = value
    return properties


def encode_properties(properties: Mapping[str, str]) -> bytes:
    r"""Write a properties text, every item ended by U+0002 as 5.x clients do.

    `decode_properties` gives the same mapping back, except that it leaves out empty values. The
    length is not limited here, because the broker has its own answer to it
    (`PROPERTIES_SIZE_MAX`). A value may hold U+0001, since every reader splits at the first one;
    what a *user* may write is stricter: `user_text_problem`. Raises BodyError for what no reader
    could get back: an empty name, a separator in a name, U+0002 in a value, a lone surrogate.

    >>> encode_properties({"TAGS": "a"})
    b'TAGS\x01a\x02'
    """
    if not properties:
        return b""
    text = "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])
    count = len(properties)
    if text.count("\x02") != count or text.count("\x01") != count or "" in properties:
        _refuse_what_cannot_be_read_back(properties)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BodyError("properties", f"no UTF-8: {error.reason}", error.start) from error


def encode_user_properties(properties: Mapping[str, str]) -> bytes:
    """Write the properties that a client sends: `encode_properties` with a user's limits.

    Raises BodyError also for U+0001 in a value and for U+0000 anywhere, which `user_text_problem`
    refuses in single properties but a program can still put into the mapping itself.
    """
    encoded = encode_properties(properties)
    if b"\0" in encoded or encoded.count(b"\1") != len(properties):
        for name, value in properties.items():
            if "\x00" in name or "\x00" in value or _NAME_VALUE_SEPARATOR in value:
                reason = f"{name[:40]!r} holds U+0000 or U+0001, which cannot be stored"
                raise BodyError("properties", reason)
    return encoded


def user_text_problem(name: str, value: str) -> str | None:
    """Say why a user may not write this property, or None when it is fine.

    Blank names and values are refused as Java does; U+0001 and U+0002 because there is no
    escaping; U+0000 because recovery takes a zero byte in properties for a torn record; a lone
    surrogate because it is no text. Reserved names are another question: `RESERVED`.

    >>> user_text_problem("a", "b") is None, user_text_problem(" ", "b")
    (True, 'the name is blank')
    """
    if not name.strip():
        return "the name is blank"
    if not value.strip():
        return "the value is blank"
    for what, text in (("name", name), ("value", value)):
        for character in _FORBIDDEN_IN_USER_TEXT:
            if character in text:
                return f"the {what} holds U+{ord(character):04X}, which cannot be stored"
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            return f"the {what} holds half of a surrogate pair, which is no text"
    return None


def unique_key_problem(unique_key: str) -> str | None:
    """Say why a program may not give a message this id, or None when it is fine.

    Recall handles separate it by a blank and the ids of a batch by commas, so it holds neither.

    >>> unique_key_problem("order-42"), unique_key_problem("order 42")
    (None, "must have 1 to 255 visible ASCII characters but no comma, not 'order 42'")
    """
    if _is_unique_key(unique_key):
        return None
    shown = f"{len(unique_key)} characters" if len(unique_key) > 255 else repr(unique_key)
    return f"must have 1 to 255 visible ASCII characters but no comma, not {shown}"


def _refuse_what_cannot_be_read_back(properties: Mapping[str, str]) -> None:
    for name, value in properties.items():
        if not name:
            raise BodyError("properties", f"empty name before the value {value[:40]!r}")
        if _NAME_VALUE_SEPARATOR in name or _PROPERTY_SEPARATOR in name:
            raise BodyError("properties", f"the name {name[:40]!r} holds a separator")
        if _PROPERTY_SEPARATOR in value:
            raise BodyError("properties", f"the value of {name[:40]!r} holds U+0002")

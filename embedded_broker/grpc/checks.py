"""Checks of a gRPC call: names, sizes, and how far ahead a delivery may be.

After the proxy's validators (GrpcValidator, SendMessageActivity), in their words where a client
shows them. Must not know: protobuf, brokers. Read on: ``incoming.py``, which asks in the order of
the original.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from embedded_broker.grpc.status import Rejected
from rocketmq_py.protocol.names import (
    GROUP_LENGTH_MAX_V4,
    group_problem,
    is_system_group,
    is_system_topic,
    topic_problem,
)
from rocketmq_py.protocol.properties import RESERVED
from rocketmq_py.protocol.rpc import RpcStatus

BODY_MAX: Final = 4 * 1024 * 1024
PROPERTIES_MAX: Final = 128
"""User properties of a message."""
PROPERTIES_SIZE_MAX: Final = 16 * 1024
"""Characters of user properties, tag and keys together, as UTF-8."""
GROUP_SIZE_END: Final = 64
"""A message group has fewer bytes."""
RECOVERY_MAX_MS: Final = 3_600_000
INVISIBLE_MIN_MS: Final = 10_000
INVISIBLE_MAX_MS: Final = 12 * 3_600_000
_CONTROLS: Final = frozenset(map(chr, (*range(0x20), *range(0x7F, 0xA0))))


def check_topic(name: str) -> None:
    """Refuse what no client may name as a topic."""
    problem = topic_problem(name)
    if problem is None and is_system_topic(name):
        problem = f"The topic[{name}] is conflict with system topic."
    if problem is not None:
        raise Rejected(RpcStatus.ILLEGAL_TOPIC, problem)


def check_group(name: str) -> None:
    """Refuse what no client may name as a consumer group."""
    problem = group_problem(name, length_max=GROUP_LENGTH_MAX_V4)
    if problem is None and is_system_group(name):
        problem = f"The group[{name}] is conflict with system group."
    if problem is not None:
        raise Rejected(RpcStatus.ILLEGAL_CONSUMER_GROUP, problem)


def check_body(size: int) -> None:
    """Refuse an empty body, and one that is too long."""
    if not size:
        raise Rejected(RpcStatus.MESSAGE_BODY_EMPTY, "message body cannot be empty")
    if size > BODY_MAX:
        told = f"message body cannot exceed the max {BODY_MAX}, it has {size} bytes"
        raise Rejected(RpcStatus.MESSAGE_BODY_TOO_LARGE, told)


def check_properties(given: Mapping[str, str], tag: str, keys: Iterable[str]) -> None:
    """Refuse properties that are too many or too long, reserved names and control characters."""
    if len(given) > PROPERTIES_MAX:
        told = f"too many user properties, max: {PROPERTIES_MAX}, there are {len(given)}"
        raise Rejected(RpcStatus.MESSAGE_PROPERTIES_TOO_LARGE, told)
    for name, value in given.items():
        if name in RESERVED:
            told = f"property is used by system: {name}"
            raise Rejected(RpcStatus.ILLEGAL_MESSAGE_PROPERTY_KEY, told)
        for what, text in (("key", name), ("value", value)):
            if not _CONTROLS.isdisjoint(text):
                told = f"the {what} of property {name!r} cannot contain a control character"
                raise Rejected(RpcStatus.ILLEGAL_MESSAGE_PROPERTY_KEY, told)
    keys = list(keys)
    if tag:
        _check_text(RpcStatus.ILLEGAL_MESSAGE_TAG, "tag", tag)
        if "|" in tag:
            raise Rejected(RpcStatus.ILLEGAL_MESSAGE_TAG, "tag cannot contain |")
    for key in keys:
        _check_text(RpcStatus.ILLEGAL_MESSAGE_KEY, "key", key)
    texts = (*given, *given.values(), tag, *keys)
    size = sum(len(text.encode()) for text in texts)
    if size > PROPERTIES_SIZE_MAX:
        told = f"message properties have {size} bytes, at most {PROPERTIES_SIZE_MAX} are possible"
        raise Rejected(RpcStatus.MESSAGE_PROPERTIES_TOO_LARGE, told)


def check_message_group(group: str) -> None:
    """Refuse a message group that is blank or too long."""
    _check_text(RpcStatus.ILLEGAL_MESSAGE_GROUP, "message group", group)
    size = len(group.encode())
    if size >= GROUP_SIZE_END:
        told = f"message group has {size} bytes, {GROUP_SIZE_END - 1} at most are possible"
        raise Rejected(RpcStatus.ILLEGAL_MESSAGE_GROUP, told)


def check_message_id(text: str) -> None:
    """Refuse an id that is blank, or could not be stored."""
    _check_text(RpcStatus.ILLEGAL_MESSAGE_ID, "message id", text)


def check_recovery(recovery_ms: int) -> None:
    """Refuse a time after which a producer is to be asked about its transaction."""
    if not 0 <= recovery_ms <= RECOVERY_MAX_MS:
        told = f"orphaned_transaction_recovery_duration is {recovery_ms} ms: 0 to {RECOVERY_MAX_MS}"
        raise Rejected(RpcStatus.BAD_REQUEST, told)


def check_delivery(deliver_at_ms: int, now_ms: int, longest_ms: int) -> None:
    """Refuse a time of delivery that is too far ahead; the past is none."""
    if longest_ms > 0 and deliver_at_ms - now_ms > longest_ms:
        told = (
            f"the max delay time of message is too large, max is {longest_ms} ms "
            f"(maxDelayTimeMills), this is {deliver_at_ms - now_ms} ms"
        )
        raise Rejected(RpcStatus.ILLEGAL_DELIVERY_TIME, told)


def check_invisible(invisible_ms: int, least_ms: int = INVISIBLE_MIN_MS) -> None:
    """Refuse a time for which a message is to be hidden."""
    if not least_ms <= invisible_ms <= INVISIBLE_MAX_MS:
        told = f"invisible duration is {invisible_ms} ms: {least_ms} to {INVISIBLE_MAX_MS}"
        raise Rejected(RpcStatus.ILLEGAL_INVISIBLE_TIME, told)


def _check_text(code: RpcStatus, what: str, text: str) -> None:
    if not text or text.isspace():
        raise Rejected(code, f"{what} cannot be blank")
    if not _CONTROLS.isdisjoint(text):
        raise Rejected(code, f"{what} cannot contain a control character")

"""Protobuf messages of clients, read as values of the broker.

Answers: names, times and messages of a call. Times that no clock has are refused here. Must not
know: brokers, answers. Read on: ``outgoing.py`` for the way back, ``checks.py`` for what is
refused.
"""

import zlib
from typing import Any, Final

from attrs import frozen

from embedded_broker.core.send_values import Incoming, Terms
from embedded_broker.grpc.checks import (
    check_body,
    check_group,
    check_message_group,
    check_message_id,
    check_properties,
    check_recovery,
    check_topic,
)
from embedded_broker.grpc.schema import Encoding, FilterType, MessageType
from embedded_broker.grpc.status import BAD_VALUE, Rejected
from embedded_broker.settings.grpc import NamespaceMode
from rocketmq_py.protocol.bodies.heartbeat import ALL_TAGS, SQL92, TAG
from rocketmq_py.protocol.names import with_namespace
from rocketmq_py.protocol.properties import Prop, encode_properties
from rocketmq_py.protocol.rpc import RpcStatus
from rocketmq_py.protocol.sysflag import COMPRESSED, TRANSACTION_PREPARED

TIME_MIN_MS: Final = -62_135_596_800_000
"""The begin of the year 1, where protobuf's times begin."""
TIME_MAX_MS: Final = 253_402_300_800_000
"""The end of the year 9999, where protobuf's times end."""
NANOS_MAX: Final = 999_999_999
INFLATED_MAX: Final = 32 * 1024 * 1024
_GZIP_OR_ZLIB: Final = 47


# Any: messages of protobuf are made at run time; what is read of them is typed from here on.
def milliseconds(value: Any, what: str, *, is_strict: bool = False) -> int:
    """Read a Timestamp or Duration; one out of range is refused, and a negative one, too.

    ``is_strict``: a negative one is for others to judge.
    """
    found: int = value.seconds * 1000 + value.nanos // 1_000_000
    least_ms, least_ns = (TIME_MIN_MS, -NANOS_MAX) if is_strict else (0, 0)
    if not least_ms <= found < TIME_MAX_MS or not least_ns <= value.nanos <= NANOS_MAX:
        bounds = f"{least_ms // 1000} to {TIME_MAX_MS // 1000} s"
        raise Rejected(BAD_VALUE, f"{what} is {value.seconds} s and {value.nanos} ns: {bounds}")
    return found


@frozen
class Names:
    """How a topic or group of a client is called in the broker."""

    _mode: NamespaceMode = "ignore"

    def topic(self, resource: Any) -> str:
        """Give the name of a topic; refuses what is none."""
        name: str = resource.name
        check_topic(name)
        return self._with_namespace(resource, name)

    def group(self, resource: Any) -> str:
        """Give the name of a consumer group; refuses what is none."""
        name: str = resource.name
        check_group(name)
        return self._with_namespace(resource, name)

    def _with_namespace(self, resource: Any, name: str) -> str:
        namespace: str = resource.resource_namespace
        if self._mode == "ignore" or not namespace:
            return name
        check_topic(namespace)
        return with_namespace(namespace, name)


def expression_of(filter_expression: Any) -> tuple[str, str]:
    """Give the type and the text of a filter; an empty one lets every message pass."""
    kind = SQL92 if filter_expression.type == FilterType.SQL else TAG
    text: str = filter_expression.expression
    return kind, text or ALL_TAGS


@frozen(kw_only=True)
class Sent:
    """A message that a client sends, checked as far as that needs no broker."""

    topic: str
    message_id: str
    body: bytes
    properties: dict[str, str]
    born_ms: int
    sys_flag: int
    deliver_at_ms: int | None
    message_group: str

    @property
    def is_half(self) -> bool:
        """Whether it begins a transaction."""
        return Prop.TRAN_MSG in self.properties

    def incoming(self, queue_id: int) -> Incoming:
        """Give the message as it is stored in a queue."""
        text = encode_properties(self.properties).decode()
        terms = Terms(queue_id=queue_id, sys_flag=self.sys_flag)
        return Incoming(self.topic, self.body, text, self.born_ms, terms)


def sent_message(message: Any, topic: str, peer_host: str, *, is_strict: bool = False) -> Sent:
    """Read a message that is sent to a topic; refuses, in the order of the original.

    ``is_strict``: nothing is refused that RocketMQ's proxy 5.3.3 takes.
    """
    said = message.system_properties
    body: bytes = message.body
    check_body(len(body))
    user: dict[str, str] = dict(message.user_properties)
    keys: list[str] = list(said.keys)
    check_properties(user, said.tag, keys)
    check_message_id(said.message_id)
    properties = user | {Prop.UNIQ_KEY: said.message_id, Prop.PGROUP: topic}
    if said.tag:
        properties[Prop.TAGS] = said.tag
    if keys:
        properties[Prop.KEYS] = " ".join(keys)
    if said.HasField("orphaned_transaction_recovery_duration"):
        recovery_ms = milliseconds(said.orphaned_transaction_recovery_duration, "recovery duration")
        check_recovery(recovery_ms)
        properties[Prop.CHECK_IMMUNITY_TIME_IN_SECONDS] = str(recovery_ms // 1000)
    deliver_at_ms = None
    if said.HasField("delivery_timestamp"):
        deliver_at_ms = milliseconds(
            said.delivery_timestamp, "delivery_timestamp", is_strict=is_strict
        )
        properties[Prop.TIMER_DELIVER_MS] = str(deliver_at_ms)
    group: str = said.message_group
    if said.HasField("message_group"):
        check_message_group(group)
        properties[Prop.SHARDING_KEY] = group
    if not is_strict and (
        said.HasField("lite_topic") or said.HasField("priority") or said.message_type in _MISSING
    ):
        told = "messages of type LITE and PRIORITY are not supported by this broker"
        raise Rejected(RpcStatus.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, told)
    sys_flag = 0
    if said.message_type == MessageType.TRANSACTION:
        properties[Prop.TRAN_MSG] = "true"
        sys_flag |= TRANSACTION_PREPARED
    if said.body_encoding == Encoding.GZIP:
        if not is_strict:
            _check_inflates(body)
        sys_flag |= COMPRESSED
    born_ms = milliseconds(said.born_timestamp, "born_timestamp", is_strict=is_strict)
    properties[Prop.RECONSUME_TIME] = str(said.delivery_attempt)
    properties[Prop.BORN_HOST] = said.born_host or peer_host
    properties[Prop.BORN_TIMESTAMP] = str(born_ms)
    if said.trace_context:
        properties[Prop.TRACE_CONTEXT] = said.trace_context
    return Sent(
        topic=topic,
        message_id=said.message_id,
        body=body,
        properties=properties,
        born_ms=born_ms,
        sys_flag=sys_flag,
        deliver_at_ms=deliver_at_ms,
        message_group=group,
    )


_MISSING: Final = frozenset({MessageType.LITE, MessageType.PRIORITY})


def _check_inflates(body: bytes) -> None:
    """Refuse a body that says it is compressed, and is not, or becomes too long."""
    stream = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        inflated = len(stream.decompress(body, INFLATED_MAX + 1))
    except zlib.error as error:
        raise Rejected(RpcStatus.MESSAGE_CORRUPTED, f"the body is not GZIP: {error}") from error
    if inflated > INFLATED_MAX or not stream.eof:
        told = f"the body does not inflate to at most {INFLATED_MAX} bytes"
        raise Rejected(RpcStatus.MESSAGE_CORRUPTED, told)

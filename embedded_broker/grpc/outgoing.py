"""Values of the broker, written as protobuf messages.

Answers: how a stored message, a time, a queue and a retry policy are told to a client. Must not
know: who asked, brokers. Read on: ``incoming.py`` for the way here.
"""

from collections.abc import Mapping
from hashlib import md5
from typing import Any, Final

from attrs import define, field

from embedded_broker.core.retry_policies import Growing, RetryPolicy
from embedded_broker.grpc.descriptors import Messages
from embedded_broker.grpc.incoming import INFLATED_MAX
from embedded_broker.grpc.schema import DigestType, Encoding, MessageType, Permission
from embedded_broker.tables.topics import message_types
from rocketmq_py.errors import DelayValueError, RocketMQError
from rocketmq_py.protocol.bodies.topics import QueueData, TopicConfig
from rocketmq_py.protocol.codes import PERM_READ, PERM_WRITE
from rocketmq_py.protocol.delay import parse_number
from rocketmq_py.protocol.handles import unpack_host
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.pop_handles import Receipt
from rocketmq_py.protocol.properties import RESERVED, Prop
from rocketmq_py.protocol.rpc import RpcStatus
from rocketmq_py.protocol.sysflag import COMPRESSED, CompressionType, compression_number

_TIMES: Final = (Prop.TIMER_DELIVER_MS, Prop.START_DELIVER_TIME, Prop.TIMER_OUT_MS)
"""What says when a message was to be delivered, the first that is there."""
_INFLATABLE: Final = frozenset({CompressionType.UNSPECIFIED, CompressionType.ZLIB})
_ACCEPTED: Final[Mapping[str, tuple[MessageType, ...]]] = {
    message_types.NORMAL: (MessageType.NORMAL,),
    message_types.FIFO: (MessageType.FIFO,),
    message_types.DELAY: (MessageType.DELAY,),
    message_types.TRANSACTION: (MessageType.TRANSACTION,),
    message_types.MIXED: (
        MessageType.NORMAL,
        MessageType.FIFO,
        MessageType.DELAY,
        MessageType.TRANSACTION,
    ),
}


def accepted_types(topic: TopicConfig) -> tuple[MessageType, ...]:
    """Give the kinds of messages that a topic takes; none is told of a type that is unknown."""
    said = (topic.attributes or {}).get(message_types.ATTRIBUTE, message_types.NORMAL)
    return _ACCEPTED.get(said, (MessageType.MESSAGE_TYPE_UNSPECIFIED,))


def permissions(data: QueueData) -> list[Permission]:
    """Give what may be done with each queue of a topic, in the order of their numbers.

    As the proxy has it: those that can only be read or written come first.
    """
    reads, writes = data.read_queue_nums, data.write_queue_nums
    may_read, may_write = data.perm & PERM_READ, data.perm & PERM_WRITE
    if may_read and may_write:
        both = min(reads, writes)
        return [
            *[Permission.READ] * (reads - both),
            *[Permission.WRITE] * (writes - both),
            *[Permission.READ_WRITE] * both,
        ]
    if may_read:
        return [Permission.READ] * reads
    if may_write:
        return [Permission.WRITE] * writes
    return [Permission.NONE] * max(1, reads, writes)


def delivery_ms(properties: Mapping[str, str]) -> int | None:
    """Give when a message was to be delivered; None for one that was not delayed."""
    for name in _TIMES:
        if name in properties:
            try:
                return max(parse_number(properties[name], name), 0)
            except DelayValueError:
                return None
    return None


@define(eq=False)
class Outgoing:
    """Makes messages of protobuf."""

    v2: Messages
    _kinds: Mapping[str, MessageType] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._kinds = {name: MessageType[name] for name in _ACCEPTED if name != "MIXED"}

    # Any: as in `incoming.py`.
    def status(self, code: RpcStatus, text: str | None = None) -> Any:
        """Make a status; without a text the code's name stands there."""
        return self.v2.Status(code=code, message=code.name if text is None else text)

    def ok(self) -> Any:
        """Make the status of what went well."""
        return self.status(RpcStatus.OK)

    def set_time(self, message: Any, ms: int) -> None:
        """Write milliseconds into a Timestamp or Duration, which is there then."""
        message.SetInParent()
        message.seconds, message.nanos = ms // 1000, ms % 1000 * 1_000_000

    def message(
        self,
        record: MessageRecord,
        topic: str,
        namespace: str = "",
        receipt: Receipt | None = None,
    ) -> Any:
        """Tell a stored message; with a receipt as a consumer gets it."""
        made = self.v2.Message()
        made.topic.name, made.topic.resource_namespace = topic, namespace
        properties = record.properties
        for name, value in properties.items():
            if name not in RESERVED:
                made.user_properties[name] = value
        made.body, encoding = _body_of(record)
        said = made.system_properties
        said.body_digest.type = DigestType.MD5
        said.body_digest.checksum = md5(made.body, usedforsecurity=False).hexdigest().upper()
        said.body_encoding = encoding
        kind = message_types.message_type(properties, start_deliver=True)
        said.message_type = self._kinds[kind]
        said.message_id = record.msg_id
        if Prop.TAGS in properties:
            said.tag = properties[Prop.TAGS]
        said.keys.extend(key for key in properties.get(Prop.KEYS, "").split(" ") if key)
        if Prop.SHARDING_KEY in properties:
            said.message_group = properties[Prop.SHARDING_KEY]
        if Prop.TRACE_CONTEXT in properties:
            said.trace_context = properties[Prop.TRACE_CONTEXT]
        self.set_time(said.born_timestamp, max(record.born_timestamp, 0))
        said.born_host = properties.get(Prop.BORN_HOST) or _host(record.born_host)
        self.set_time(said.store_timestamp, max(record.store_timestamp, 0))
        said.store_host = _host(record.store_host)
        at_ms = delivery_ms(properties)
        if at_ms is not None:
            self.set_time(said.delivery_timestamp, at_ms)
        immunity = properties.get(Prop.CHECK_IMMUNITY_TIME_IN_SECONDS, "")
        if immunity.isascii() and immunity.isdecimal():
            self.set_time(said.orphaned_transaction_recovery_duration, int(immunity[:9]) * 1000)
        said.queue_id, said.queue_offset = record.queue_id, record.queue_offset
        said.delivery_attempt = record.reconsume_times + 1
        if Prop.DLQ_ORIGIN_TOPIC in properties and Prop.DLQ_ORIGIN_MESSAGE_ID in properties:
            said.dead_letter_queue.topic = properties[Prop.DLQ_ORIGIN_TOPIC]
            said.dead_letter_queue.message_id = properties[Prop.DLQ_ORIGIN_MESSAGE_ID]
        if receipt is not None:
            said.receipt_handle = receipt.text()
            self.set_time(said.invisible_duration, receipt.handle.invisible_ms)
        return made

    def backoff(self, policy: RetryPolicy, max_attempts: int) -> Any:
        """Tell when a group wants a failed message again."""
        made = self.v2.RetryPolicy(max_attempts=max_attempts)
        if isinstance(policy, Growing):
            growing = made.exponential_backoff
            self.set_time(growing.initial, policy.initial_ms)
            self.set_time(growing.max, policy.max_ms)
            growing.multiplier = policy.multiplier
        else:
            for wait_ms in policy.waits_ms:
                self.set_time(made.customized_backoff.next.add(), wait_ms)
        return made


def _body_of(record: MessageRecord) -> tuple[bytes, Encoding]:
    """Give a body that gRPC clients can read, and how it is written.

    They know no other compression than that of zlib: what remoting clients sent in another one is
    told uncompressed, if it can be.
    """
    if not record.sys_flag & COMPRESSED:
        return record.body, Encoding.IDENTITY
    if compression_number(record.sys_flag) not in _INFLATABLE:
        try:
            return record.unpacked_body(INFLATED_MAX), Encoding.IDENTITY
        except RocketMQError:
            pass
    return record.body, Encoding.GZIP


def _host(packed: bytes) -> str:
    host, port = unpack_host(packed)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

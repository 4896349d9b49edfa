"""Table of the messages and enumerations of RocketMQ's gRPC protocol.

Answers: which fields a message has, with number and type; which calls there are. Facts of
``definition.proto`` and ``service.proto`` of apache/rocketmq-apis. Must not know: protobuf, what
a field means. Read on: ``descriptors.py``, which makes classes of it.

A field is ``name:number type``. ``?`` behind the number: it is known whether the field is set;
``*``: repeated. Of the fields in braces one at most is set. Types are ``str``, ``bytes``, ``bool``,
``i32``, ``i64``, ``float``, ``texts`` (a map of texts), an enumeration or a message.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from rocketmq_py.protocol.rpc import Rpc, RpcStatus

PACKAGE: Final = "apache.rocketmq.v2"


class TransactionResolution(IntEnum):
    """How a transaction ends."""

    TRANSACTION_RESOLUTION_UNSPECIFIED = 0
    COMMIT = 1
    ROLLBACK = 2


class TransactionSource(IntEnum):
    """Who began the end of a transaction."""

    SOURCE_UNSPECIFIED = 0
    SOURCE_CLIENT = 1
    SOURCE_SERVER_CHECK = 2


class Permission(IntEnum):
    """What may be done with a queue."""

    PERMISSION_UNSPECIFIED = 0
    NONE = 1
    READ = 2
    WRITE = 3
    READ_WRITE = 4


class FilterType(IntEnum):
    """By what messages are chosen."""

    FILTER_TYPE_UNSPECIFIED = 0
    TAG = 1
    SQL = 2


class AddressScheme(IntEnum):
    """How hosts are named."""

    ADDRESS_SCHEME_UNSPECIFIED = 0
    IPv4 = 1
    IPv6 = 2
    DOMAIN_NAME = 3


class MessageType(IntEnum):
    """The kind of a message."""

    MESSAGE_TYPE_UNSPECIFIED = 0
    NORMAL = 1
    FIFO = 2
    DELAY = 3
    TRANSACTION = 4
    LITE = 5
    PRIORITY = 6


class DigestType(IntEnum):
    """How a checksum is made."""

    DIGEST_TYPE_UNSPECIFIED = 0
    CRC32 = 1
    MD5 = 2
    SHA1 = 3


class Encoding(IntEnum):
    """How a body is written."""

    ENCODING_UNSPECIFIED = 0
    IDENTITY = 1
    GZIP = 2


class ClientType(IntEnum):
    """What a client does."""

    CLIENT_TYPE_UNSPECIFIED = 0
    PRODUCER = 1
    PUSH_CONSUMER = 2
    SIMPLE_CONSUMER = 3
    PULL_CONSUMER = 4
    LITE_PUSH_CONSUMER = 5
    LITE_SIMPLE_CONSUMER = 6


class Language(IntEnum):
    """In which language a client is written."""

    LANGUAGE_UNSPECIFIED = 0
    JAVA = 1
    CPP = 2
    DOT_NET = 3
    GOLANG = 4
    RUST = 5
    PYTHON = 6
    PHP = 7
    NODE_JS = 8
    RUBY = 9
    OBJECTIVE_C = 10
    DART = 11
    KOTLIN = 12


ENUMS: Final[dict[str, type[IntEnum]]] = {
    one.__name__: one
    for one in (
        TransactionResolution,
        TransactionSource,
        Permission,
        FilterType,
        AddressScheme,
        MessageType,
        DigestType,
        Encoding,
        ClientType,
        Language,
    )
} | {"Code": RpcStatus}
"""Name to values."""

MESSAGES: Final[dict[str, str]] = {
    # -- definition.proto
    "FilterExpression": "type:1 FilterType, expression:2 str",
    "RetryPolicy": "max_attempts:1 i32, strategy{exponential_backoff:2 ExponentialBackoff, "
    "customized_backoff:3 CustomizedBackoff}",
    "ExponentialBackoff": "initial:1 Duration, max:2 Duration, multiplier:3 float",
    "CustomizedBackoff": "next:1* Duration",
    "Resource": "resource_namespace:1 str, name:2 str",
    "SubscriptionEntry": "topic:1 Resource, expression:2 FilterExpression",
    "Address": "host:1 str, port:2 i32",
    "Endpoints": "scheme:1 AddressScheme, addresses:2* Address",
    "Broker": "name:1 str, id:2 i32, endpoints:3 Endpoints",
    "MessageQueue": "topic:1 Resource, id:2 i32, permission:3 Permission, broker:4 Broker, "
    "accept_message_types:5* MessageType",
    "Digest": "type:1 DigestType, checksum:2 str",
    "SystemProperties": "tag:1? str, keys:2* str, message_id:3 str, body_digest:4 Digest, "
    "body_encoding:5 Encoding, message_type:6 MessageType, born_timestamp:7 Timestamp, "
    "born_host:8 str, store_timestamp:9? Timestamp, store_host:10 str, "
    "delivery_timestamp:11? Timestamp, receipt_handle:12? str, queue_id:13 i32, "
    "queue_offset:14? i64, invisible_duration:15? Duration, delivery_attempt:16? i32, "
    "message_group:17? str, trace_context:18? str, "
    "orphaned_transaction_recovery_duration:19? Duration, dead_letter_queue:20? DeadLetterQueue, "
    "lite_topic:21? str, priority:22? i32",
    "DeadLetterQueue": "topic:1 str, message_id:2 str",
    "Message": "topic:1 Resource, user_properties:2 texts, system_properties:3 SystemProperties, "
    "body:4 bytes",
    "Assignment": "message_queue:1 MessageQueue",
    "Status": "code:1 Code, message:2 str",
    "UA": "language:1 Language, version:2 str, platform:3 str, hostname:4 str",
    "Settings": "client_type:1? ClientType, access_point:2? Endpoints, "
    "backoff_policy:3? RetryPolicy, request_timeout:4? Duration, "
    "pub_sub{publishing:5 Publishing, subscription:6 Subscription}, user_agent:7 UA, "
    "metric:8 Metric",
    "Publishing": "topics:1* Resource, max_body_size:2 i32, validate_message_type:3 bool",
    "Subscription": "group:1? Resource, subscriptions:2* SubscriptionEntry, fifo:3? bool, "
    "receive_batch_size:4? i32, long_polling_timeout:5? Duration, "
    "lite_subscription_quota:6? i32, max_lite_topic_size:7? i32",
    "Metric": "on:1 bool, endpoints:2? Endpoints",
    # -- service.proto
    "QueryRouteRequest": "topic:1 Resource, endpoints:2 Endpoints",
    "QueryRouteResponse": "status:1 Status, message_queues:2* MessageQueue",
    "SendMessageRequest": "messages:1* Message",
    "SendResultEntry": "status:1 Status, message_id:2 str, transaction_id:3 str, offset:4 i64, "
    "recall_handle:5 str",
    "SendMessageResponse": "status:1 Status, entries:2* SendResultEntry",
    "QueryAssignmentRequest": "topic:1 Resource, group:2 Resource, endpoints:3 Endpoints",
    "QueryAssignmentResponse": "status:1 Status, assignments:2* Assignment",
    "ReceiveMessageRequest": "group:1 Resource, message_queue:2 MessageQueue, "
    "filter_expression:3 FilterExpression, batch_size:4 i32, invisible_duration:5? Duration, "
    "auto_renew:6 bool, long_polling_timeout:7? Duration, attempt_id:8? str",
    "ReceiveMessageResponse": "content{status:1 Status, message:2 Message, "
    "delivery_timestamp:3 Timestamp}",
    "AckMessageEntry": "message_id:1 str, receipt_handle:2 str, lite_topic:3? str",
    "AckMessageRequest": "group:1 Resource, topic:2 Resource, entries:3* AckMessageEntry",
    "AckMessageResultEntry": "message_id:1 str, receipt_handle:2 str, status:3 Status",
    "AckMessageResponse": "status:1 Status, entries:2* AckMessageResultEntry",
    "ForwardMessageToDeadLetterQueueRequest": "group:1 Resource, topic:2 Resource, "
    "receipt_handle:3 str, message_id:4 str, delivery_attempt:5 i32, max_delivery_attempts:6 i32, "
    "lite_topic:7? str",
    "ForwardMessageToDeadLetterQueueResponse": "status:1 Status",
    "HeartbeatRequest": "group:1? Resource, client_type:2 ClientType",
    "HeartbeatResponse": "status:1 Status",
    "EndTransactionRequest": "topic:1 Resource, message_id:2 str, transaction_id:3 str, "
    "resolution:4 TransactionResolution, source:5 TransactionSource, trace_context:6 str",
    "EndTransactionResponse": "status:1 Status",
    "PrintThreadStackTraceCommand": "nonce:1 str",
    "ReconnectEndpointsCommand": "nonce:1 str",
    "ThreadStackTrace": "nonce:1 str, thread_stack_trace:2? str",
    "VerifyMessageCommand": "nonce:1 str, message:2 Message",
    "VerifyMessageResult": "nonce:1 str",
    "RecoverOrphanedTransactionCommand": "message:1 Message, transaction_id:2 str",
    "TelemetryCommand": "status:1? Status, command{settings:2 Settings, "
    "thread_stack_trace:3 ThreadStackTrace, verify_message_result:4 VerifyMessageResult, "
    "recover_orphaned_transaction_command:5 RecoverOrphanedTransactionCommand, "
    "print_thread_stack_trace_command:6 PrintThreadStackTraceCommand, "
    "verify_message_command:7 VerifyMessageCommand, "
    "reconnect_endpoints_command:8 ReconnectEndpointsCommand}",
    "NotifyClientTerminationRequest": "group:1? Resource",
    "NotifyClientTerminationResponse": "status:1 Status",
    "ChangeInvisibleDurationRequest": "group:1 Resource, topic:2 Resource, receipt_handle:3 str, "
    "invisible_duration:4 Duration, message_id:5 str, lite_topic:6? str, suspend:7? bool",
    "ChangeInvisibleDurationResponse": "status:1 Status, receipt_handle:2 str",
    "RecallMessageRequest": "topic:1 Resource, recall_handle:2 str",
    "RecallMessageResponse": "status:1 Status, message_id:2 str",
}
"""Message to its fields."""


class Shape(NamedTuple):
    """How a call goes: which messages it has, and which of its ends are streams."""

    request: str
    response: str
    streams_in: bool = False
    streams_out: bool = False


CALLS: Final[dict[Rpc, Shape]] = {rpc: Shape(f"{rpc}Request", f"{rpc}Response") for rpc in Rpc} | {
    Rpc.RECEIVE_MESSAGE: Shape("ReceiveMessageRequest", "ReceiveMessageResponse", streams_out=True),
    Rpc.TELEMETRY: Shape("TelemetryCommand", "TelemetryCommand", streams_in=True, streams_out=True),
}

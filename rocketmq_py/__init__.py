"""Typed client for Apache RocketMQ whose first concern is messages that must arrive later.

The public names, and nothing else: each is imported from its module when it is first used, so
that importing the package costs nothing and a producer does not load the consumer. Begin with
`Message`, `DefaultMQProducer` and `DefaultMQPushConsumer`. Bulk tools are in `rocketmq_py.raw`,
those of administrators in `rocketmq_py.admin`. For tests without a server there is
`embedded_broker`, for other API shapes `compat`.

>>> from rocketmq_py import Message
>>> Message("orders", b"cancel 42").set_delay_time_sec(1800).get_delay_time_sec()
1800
"""

from rocketmq_py._version import __version__
from rocketmq_py.lazy_names import on_first_use

TYPE_CHECKING = False  # type checkers know the name; typing itself takes 8 ms to import

if TYPE_CHECKING:
    from rocketmq_py.admin import DefaultMQAdminExt
    from rocketmq_py.client.credentials import (
        CredentialsProvider,
        EnvironmentCredentials,
        FileCredentials,
        RotatingCredentials,
    )
    from rocketmq_py.client.delay_policy import DelayPolicy
    from rocketmq_py.client.hooks import (
        CheckForbiddenContext,
        CheckForbiddenHook,
        EndTransactionContext,
        EndTransactionHook,
        RPCHook,
        SendMessageContext,
        SendMessageHook,
    )
    from rocketmq_py.client.outcome import followed_by
    from rocketmq_py.client.pool import RunningClient, running_clients
    from rocketmq_py.client.queries import Boundary, QueryResult
    from rocketmq_py.client.queue_access import QueueAccess
    from rocketmq_py.client.topic_questions import QueueBounds
    from rocketmq_py.clock import ApplicationClock, Busy, Clock, IdleCondition, SystemClock
    from rocketmq_py.config import (
        AccessChannel,
        ClientConfig,
        Credentials,
        CredentialsSource,
        TlsConfig,
        Transport,
    )
    from rocketmq_py.consumer.allocate import (
        AllocateMachineRoomNearby,
        AllocateMessageQueueAveragely,
        AllocateMessageQueueAveragelyByCircle,
        AllocateMessageQueueByConfig,
        AllocateMessageQueueByMachineRoom,
        AllocateMessageQueueConsistentHash,
        AllocateMessageQueueStrategy,
        MachineRoomResolver,
    )
    from rocketmq_py.consumer.core.delivery import Delivery
    from rocketmq_py.consumer.face import CachedMessages
    from rocketmq_py.consumer.hooks import (
        ConsumeMessageContext,
        ConsumeMessageHook,
        FilterMessageContext,
        FilterMessageHook,
    )
    from rocketmq_py.consumer.listener import (
        ConsumeConcurrentlyContext,
        ConsumeConcurrentlyStatus,
        ConsumeFromWhere,
        ConsumeOrderlyContext,
        ConsumeOrderlyStatus,
        DeliveryFunction,
        DeliveryListener,
        Listener,
        MessageListenerConcurrently,
        MessageListenerOrderly,
        MessageModel,
        MessageSelector,
    )
    from rocketmq_py.consumer.lite_pull import DefaultLitePullConsumer
    from rocketmq_py.consumer.polling import QueueListener
    from rocketmq_py.consumer.pop import DefaultPopConsumer
    from rocketmq_py.consumer.push import DefaultMQPushConsumer
    from rocketmq_py.consumer.settings import (
        ConsumerConfig,
        LitePullConsumerConfig,
        PopConsumerConfig,
        PushConsumerConfig,
    )
    from rocketmq_py.errors import (
        BodyTooLargeError,
        ClientClosedError,
        ConfigError,
        DelayConflictError,
        DelayOutOfRangeError,
        DelayValueError,
        DeliveryEndedError,
        FlowControlError,
        ForkedClientError,
        IllegalStateError,
        InvalidDelayError,
        MQBrokerException,
        MQClientException,
        NameServerUnavailableError,
        NoRouteError,
        NotStartedError,
        PermissionDeniedError,
        RecallNotSupportedError,
        RemotingCommandException,
        RemotingConnectException,
        RemotingException,
        RemotingSendRequestException,
        RemotingTimeoutException,
        RemotingTooMuchRequestException,
        ReplyTopicMissingError,
        RequestNotSupportedError,
        RequestTimeoutException,
        ReservedPropertyError,
        RocketMQError,
        RouteTimeoutError,
        SendAttempt,
        SendFailedError,
        SendTimeoutError,
        TooManySendsError,
        TopicNotExistError,
        UnsupportedOperationError,
    )
    from rocketmq_py.message import Message, MessageBatch, MessageExt
    from rocketmq_py.producer.batch import BatchRefusedError, split_batch
    from rocketmq_py.producer.config import ProducerConfig, StartDeliverMode
    from rocketmq_py.producer.fault import FaultTable
    from rocketmq_py.producer.halves import TransactionDelay
    from rocketmq_py.producer.producer import DefaultMQProducer
    from rocketmq_py.producer.selection import (
        MessageQueueSelector,
        select_message_queue_by_hash,
        select_message_queue_by_random,
    )
    from rocketmq_py.producer.sending import SendCallback
    from rocketmq_py.producer.transaction import (
        AnyTransactionListener,
        TransactionListener,
        TransactionMQProducer,
    )
    from rocketmq_py.protocol.bodies.timers import (
        DelayOffsets,
        TimerCheckpoint,
        TimerCounts,
        TimingCount,
    )
    from rocketmq_py.protocol.bodies.topics import BrokerData, ClusterInfo, DataVersion
    from rocketmq_py.protocol.codes import RequestCode, ResponseCode
    from rocketmq_py.protocol.command import RemotingCommand
    from rocketmq_py.protocol.delay import Delay, DelayKind, DelayLevel
    from rocketmq_py.protocol.handles import RecallHandle
    from rocketmq_py.protocol.message_codec import MessageRecord
    from rocketmq_py.protocol.sysflag import CompressionType
    from rocketmq_py.reply import create_reply_message
    from rocketmq_py.send_result import (
        LocalTransactionState,
        MessageQueue,
        SendResult,
        SendStatus,
        TransactionSendResult,
    )

_NAMES_OF = {
    "admin": "DefaultMQAdminExt",
    "client.credentials": (
        "CredentialsProvider EnvironmentCredentials FileCredentials RotatingCredentials"
    ),
    "client.delay_policy": "DelayPolicy",
    "client.hooks": (
        "CheckForbiddenContext CheckForbiddenHook EndTransactionContext EndTransactionHook "
        "RPCHook SendMessageContext SendMessageHook"
    ),
    "client.outcome": "followed_by",
    "client.pool": "RunningClient running_clients",
    "client.queries": "Boundary QueryResult",
    "client.queue_access": "QueueAccess",
    "client.topic_questions": "QueueBounds",
    "clock": "ApplicationClock Busy Clock IdleCondition SystemClock",
    "config": "AccessChannel ClientConfig Credentials CredentialsSource TlsConfig Transport",
    "consumer.allocate": (
        "AllocateMachineRoomNearby AllocateMessageQueueAveragely "
        "AllocateMessageQueueAveragelyByCircle AllocateMessageQueueByConfig "
        "AllocateMessageQueueByMachineRoom AllocateMessageQueueConsistentHash "
        "AllocateMessageQueueStrategy MachineRoomResolver"
    ),
    "consumer.core.delivery": "Delivery",
    "consumer.face": "CachedMessages",
    "consumer.hooks": (
        "ConsumeMessageContext ConsumeMessageHook FilterMessageContext FilterMessageHook"
    ),
    "consumer.listener": (
        "ConsumeConcurrentlyContext ConsumeConcurrentlyStatus ConsumeFromWhere "
        "ConsumeOrderlyContext ConsumeOrderlyStatus DeliveryFunction DeliveryListener Listener "
        "MessageListenerConcurrently MessageListenerOrderly MessageModel MessageSelector"
    ),
    "consumer.lite_pull": "DefaultLitePullConsumer",
    "consumer.polling": "QueueListener",
    "consumer.pop": "DefaultPopConsumer",
    "consumer.push": "DefaultMQPushConsumer",
    "consumer.settings": (
        "ConsumerConfig LitePullConsumerConfig PopConsumerConfig PushConsumerConfig"
    ),
    "errors": (
        "BodyTooLargeError ClientClosedError ConfigError DelayConflictError "
        "DelayOutOfRangeError DelayValueError DeliveryEndedError FlowControlError "
        "ForkedClientError IllegalStateError InvalidDelayError MQBrokerException "
        "MQClientException NameServerUnavailableError NoRouteError NotStartedError "
        "PermissionDeniedError RecallNotSupportedError RemotingCommandException "
        "RemotingConnectException RemotingException RemotingSendRequestException "
        "RemotingTimeoutException RemotingTooMuchRequestException ReplyTopicMissingError "
        "RequestNotSupportedError "
        "RequestTimeoutException ReservedPropertyError RocketMQError RouteTimeoutError "
        "SendAttempt SendFailedError SendTimeoutError TooManySendsError TopicNotExistError "
        "UnsupportedOperationError"
    ),
    "message": "Message MessageBatch MessageExt",
    "producer.batch": "BatchRefusedError split_batch",
    "producer.config": "ProducerConfig StartDeliverMode",
    "producer.fault": "FaultTable",
    "producer.producer": "DefaultMQProducer",
    "producer.selection": (
        "MessageQueueSelector select_message_queue_by_hash select_message_queue_by_random"
    ),
    "producer.sending": "SendCallback",
    "producer.halves": "TransactionDelay",
    "producer.transaction": "AnyTransactionListener TransactionListener TransactionMQProducer",
    "protocol.bodies.timers": "DelayOffsets TimerCheckpoint TimerCounts TimingCount",
    "protocol.bodies.topics": "BrokerData ClusterInfo DataVersion",
    "protocol.codes": "RequestCode ResponseCode",
    "protocol.command": "RemotingCommand",
    "protocol.delay": "Delay DelayKind DelayLevel",
    "protocol.handles": "RecallHandle",
    "protocol.message_codec": "MessageRecord",
    "protocol.sysflag": "CompressionType",
    "reply": "create_reply_message",
    "send_result": (
        "LocalTransactionState MessageQueue SendResult SendStatus TransactionSendResult"
    ),
}
_MODULE_OF = {
    name: f"rocketmq_py.{module}" for module, names in _NAMES_OF.items() for name in names.split()
}

__all__ = [
    "AccessChannel",
    "AllocateMachineRoomNearby",
    "AllocateMessageQueueAveragely",
    "AllocateMessageQueueAveragelyByCircle",
    "AllocateMessageQueueByConfig",
    "AllocateMessageQueueByMachineRoom",
    "AllocateMessageQueueConsistentHash",
    "AllocateMessageQueueStrategy",
    "AnyTransactionListener",
    "ApplicationClock",
    "BatchRefusedError",
    "BodyTooLargeError",
    "Boundary",
    "BrokerData",
    "Busy",
    "CachedMessages",
    "CheckForbiddenContext",
    "CheckForbiddenHook",
    "ClientClosedError",
    "ClientConfig",
    "Clock",
    "ClusterInfo",
    "CompressionType",
    "ConfigError",
    "ConsumeConcurrentlyContext",
    "ConsumeConcurrentlyStatus",
    "ConsumeFromWhere",
    "ConsumeMessageContext",
    "ConsumeMessageHook",
    "ConsumeOrderlyContext",
    "ConsumeOrderlyStatus",
    "ConsumerConfig",
    "Credentials",
    "CredentialsProvider",
    "CredentialsSource",
    "DataVersion",
    "DefaultLitePullConsumer",
    "DefaultMQAdminExt",
    "DefaultMQProducer",
    "DefaultMQPushConsumer",
    "DefaultPopConsumer",
    "Delay",
    "DelayConflictError",
    "DelayKind",
    "DelayLevel",
    "DelayOffsets",
    "DelayOutOfRangeError",
    "DelayPolicy",
    "DelayValueError",
    "Delivery",
    "DeliveryEndedError",
    "DeliveryFunction",
    "DeliveryListener",
    "EndTransactionContext",
    "EndTransactionHook",
    "EnvironmentCredentials",
    "FaultTable",
    "FileCredentials",
    "FilterMessageContext",
    "FilterMessageHook",
    "FlowControlError",
    "ForkedClientError",
    "IdleCondition",
    "IllegalStateError",
    "InvalidDelayError",
    "Listener",
    "LitePullConsumerConfig",
    "LocalTransactionState",
    "MQBrokerException",
    "MQClientException",
    "MachineRoomResolver",
    "Message",
    "MessageBatch",
    "MessageExt",
    "MessageListenerConcurrently",
    "MessageListenerOrderly",
    "MessageModel",
    "MessageQueue",
    "MessageQueueSelector",
    "MessageRecord",
    "MessageSelector",
    "NameServerUnavailableError",
    "NoRouteError",
    "NotStartedError",
    "PermissionDeniedError",
    "PopConsumerConfig",
    "ProducerConfig",
    "PushConsumerConfig",
    "QueryResult",
    "QueueAccess",
    "QueueBounds",
    "QueueListener",
    "RPCHook",
    "RecallHandle",
    "RecallNotSupportedError",
    "RemotingCommand",
    "RemotingCommandException",
    "RemotingConnectException",
    "RemotingException",
    "RemotingSendRequestException",
    "RemotingTimeoutException",
    "RemotingTooMuchRequestException",
    "ReplyTopicMissingError",
    "RequestCode",
    "RequestNotSupportedError",
    "RequestTimeoutException",
    "ReservedPropertyError",
    "ResponseCode",
    "RocketMQError",
    "RotatingCredentials",
    "RouteTimeoutError",
    "RunningClient",
    "SendAttempt",
    "SendCallback",
    "SendFailedError",
    "SendMessageContext",
    "SendMessageHook",
    "SendResult",
    "SendStatus",
    "SendTimeoutError",
    "StartDeliverMode",
    "SystemClock",
    "TimerCheckpoint",
    "TimerCounts",
    "TimingCount",
    "TlsConfig",
    "TooManySendsError",
    "TopicNotExistError",
    "TransactionDelay",
    "TransactionListener",
    "TransactionMQProducer",
    "TransactionSendResult",
    "Transport",
    "UnsupportedOperationError",
    "__version__",
    "create_reply_message",
    "followed_by",
    "running_clients",
    "select_message_queue_by_hash",
    "select_message_queue_by_random",
    "split_batch",
]

if not TYPE_CHECKING:
    __getattr__ = on_first_use(globals(), _MODULE_OF)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

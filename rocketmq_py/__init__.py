"""Typed client for Apache RocketMQ whose first concern is messages that must arrive later.

The public names, and nothing else: each is imported from its module when it is first used, so
that importing the package costs nothing and a producer does not load the consumer. Begin with
`Message`, `DefaultMQProducer` and `DefaultMQPushConsumer`. For tests without a server there is
`embedded_broker`, for other API shapes `compat`.

>>> from rocketmq_py import Message
>>> Message("orders", b"cancel 42").set_delay_time_sec(1800).get_delay_time_sec()
1800
"""

from rocketmq_py._version import __version__

TYPE_CHECKING = False  # type checkers know the name; typing itself takes 8 ms to import

if TYPE_CHECKING:
    from rocketmq_py.admin import DefaultMQAdminExt
    from rocketmq_py.client.pool import RunningClient, running_clients
    from rocketmq_py.client.queue_access import NamespacedQueueAccess, QueueAccess, QueueBounds
    from rocketmq_py.client.queue_pulls import PulledRun
    from rocketmq_py.client.queue_requests import RawPull
    from rocketmq_py.client.queue_sends import RawSend, RunOutcome, SendOutcome, SendRun
    from rocketmq_py.client.raw_messages import MessageIds, RawMessages
    from rocketmq_py.clock import ApplicationClock, Clock, SystemClock
    from rocketmq_py.config import ClientConfig, Credentials, TlsConfig
    from rocketmq_py.consumer.core.delivery import Delivery
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
        DeliveryListener,
        MessageListenerConcurrently,
        MessageListenerOrderly,
        MessageModel,
        MessageSelector,
    )
    from rocketmq_py.consumer.push import DefaultMQPushConsumer
    from rocketmq_py.consumer.settings import PushConsumerConfig
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
    from rocketmq_py.producer.batch import BatchRefusedError
    from rocketmq_py.producer.config import ProducerConfig
    from rocketmq_py.producer.producer import DefaultMQProducer
    from rocketmq_py.producer.selection import MessageQueueSelector, select_message_queue_by_hash
    from rocketmq_py.producer.sending import SendCallback
    from rocketmq_py.producer.transaction import TransactionListener, TransactionMQProducer
    from rocketmq_py.protocol.codes import RequestCode, ResponseCode
    from rocketmq_py.protocol.delay import Delay, DelayKind, DelayLevel
    from rocketmq_py.protocol.handles import RecallHandle
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
    "client.pool": "RunningClient running_clients",
    "client.queue_access": "NamespacedQueueAccess QueueAccess QueueBounds",
    "client.queue_pulls": "PulledRun",
    "client.queue_requests": "RawPull",
    "client.queue_sends": "RawSend RunOutcome SendOutcome SendRun",
    "client.raw_messages": "MessageIds RawMessages",
    "clock": "ApplicationClock Clock SystemClock",
    "config": "ClientConfig Credentials TlsConfig",
    "consumer.core.delivery": "Delivery",
    "consumer.hooks": (
        "ConsumeMessageContext ConsumeMessageHook FilterMessageContext FilterMessageHook"
    ),
    "consumer.listener": (
        "ConsumeConcurrentlyContext ConsumeConcurrentlyStatus ConsumeFromWhere "
        "ConsumeOrderlyContext ConsumeOrderlyStatus DeliveryListener "
        "MessageListenerConcurrently MessageListenerOrderly MessageModel MessageSelector"
    ),
    "consumer.push": "DefaultMQPushConsumer",
    "consumer.settings": "PushConsumerConfig",
    "errors": (
        "BodyTooLargeError ClientClosedError ConfigError DelayConflictError "
        "DelayOutOfRangeError DelayValueError DeliveryEndedError FlowControlError "
        "ForkedClientError "
        "IllegalStateError InvalidDelayError MQBrokerException MQClientException "
        "NameServerUnavailableError NoRouteError NotStartedError PermissionDeniedError "
        "RecallNotSupportedError RemotingCommandException RemotingConnectException "
        "RemotingException RemotingSendRequestException RemotingTimeoutException "
        "RemotingTooMuchRequestException ReplyTopicMissingError RequestTimeoutException "
        "ReservedPropertyError RocketMQError RouteTimeoutError SendAttempt "
        "SendFailedError SendTimeoutError TooManySendsError TopicNotExistError "
        "UnsupportedOperationError"
    ),
    "message": "Message MessageBatch MessageExt",
    "producer.batch": "BatchRefusedError",
    "producer.config": "ProducerConfig",
    "producer.producer": "DefaultMQProducer",
    "producer.selection": "MessageQueueSelector select_message_queue_by_hash",
    "producer.sending": "SendCallback",
    "producer.transaction": "TransactionListener TransactionMQProducer",
    "protocol.codes": "RequestCode ResponseCode",
    "protocol.delay": "Delay DelayKind DelayLevel",
    "protocol.handles": "RecallHandle",
    "reply": "create_reply_message",
    "send_result": (
        "LocalTransactionState MessageQueue SendResult SendStatus TransactionSendResult"
    ),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names.split()}

__all__ = [
    "ApplicationClock",
    "BatchRefusedError",
    "BodyTooLargeError",
    "ClientClosedError",
    "ClientConfig",
    "Clock",
    "ConfigError",
    "ConsumeConcurrentlyContext",
    "ConsumeConcurrentlyStatus",
    "ConsumeFromWhere",
    "ConsumeMessageContext",
    "ConsumeMessageHook",
    "ConsumeOrderlyContext",
    "ConsumeOrderlyStatus",
    "Credentials",
    "DefaultMQAdminExt",
    "DefaultMQProducer",
    "DefaultMQPushConsumer",
    "Delay",
    "DelayConflictError",
    "DelayKind",
    "DelayLevel",
    "DelayOutOfRangeError",
    "DelayValueError",
    "Delivery",
    "DeliveryEndedError",
    "DeliveryListener",
    "FilterMessageContext",
    "FilterMessageHook",
    "FlowControlError",
    "ForkedClientError",
    "IllegalStateError",
    "InvalidDelayError",
    "LocalTransactionState",
    "MQBrokerException",
    "MQClientException",
    "Message",
    "MessageBatch",
    "MessageExt",
    "MessageIds",
    "MessageListenerConcurrently",
    "MessageListenerOrderly",
    "MessageModel",
    "MessageQueue",
    "MessageQueueSelector",
    "MessageSelector",
    "NameServerUnavailableError",
    "NamespacedQueueAccess",
    "NoRouteError",
    "NotStartedError",
    "PermissionDeniedError",
    "ProducerConfig",
    "PulledRun",
    "PushConsumerConfig",
    "QueueAccess",
    "QueueBounds",
    "RawMessages",
    "RawPull",
    "RawSend",
    "RecallHandle",
    "RecallNotSupportedError",
    "RemotingCommandException",
    "RemotingConnectException",
    "RemotingException",
    "RemotingSendRequestException",
    "RemotingTimeoutException",
    "RemotingTooMuchRequestException",
    "ReplyTopicMissingError",
    "RequestCode",
    "RequestTimeoutException",
    "ReservedPropertyError",
    "ResponseCode",
    "RocketMQError",
    "RouteTimeoutError",
    "RunOutcome",
    "RunningClient",
    "SendAttempt",
    "SendCallback",
    "SendFailedError",
    "SendOutcome",
    "SendResult",
    "SendRun",
    "SendStatus",
    "SendTimeoutError",
    "SystemClock",
    "TlsConfig",
    "TooManySendsError",
    "TopicNotExistError",
    "TransactionListener",
    "TransactionMQProducer",
    "TransactionSendResult",
    "UnsupportedOperationError",
    "__version__",
    "create_reply_message",
    "running_clients",
    "select_message_queue_by_hash",
]


if not TYPE_CHECKING:  # a checker that saw this function would accept every name

    def __getattr__(name: str) -> object:
        """Import a public name on first use (PEP 562) and keep it."""
        from importlib import import_module

        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        thing: object = getattr(import_module(f"{__name__}.{module}"), name)
        globals()[name] = thing
        return thing


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

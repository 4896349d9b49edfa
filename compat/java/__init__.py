"""The classic client with Java's names and argument orders, for ported programs.

    from compat.java import DefaultMQProducer, Message

    producer = DefaultMQProducer("please_rename_unique_group_name")
    producer.setNamesrvAddr("127.0.0.1:9876")
    producer.start()
    message = Message("TopicTest", "TagA", "OrderID188", "Hello".encode())
    message.setDelayTimeLevel(3)
    print(producer.send(message).getMsgId())
    producer.shutdown()

Every class is the SDK's with one-line methods of Java's names, so the SDK's names are there, too.
``names.py`` lists them; a Java name that is not offered is refused with the reason. MIGRATION.md
shows whole programs.
"""

from typing import TYPE_CHECKING

from compat.java.admin import DefaultMQAdminExt
from compat.java.listeners import (
    ConsumeConcurrentlyContext,
    ConsumeFunction,
    ConsumeOrderlyContext,
    MessageListener,
    MessageListenerConcurrently,
    MessageListenerOrderly,
    MessageQueueSelector,
    QueuesFunction,
    RequestCallback,
    SelectMessageQueueByHash,
    SelectMessageQueueByRandom,
    SelectorFunction,
    SendCallback,
    TopicMessageQueueChangeListener,
    TransactionListener,
)
from compat.java.lite_pull_consumer import DefaultLitePullConsumer
from compat.java.messages import Message, MessageBatch, MessageExt, MessageQueue, MessageUtil
from compat.java.names import refuse_class
from compat.java.producer import DefaultMQProducer, TransactionMQProducer
from compat.java.push_consumer import DefaultMQPushConsumer
from compat.java.results import QueryResult, SendResult, TransactionSendResult
from compat.java.settings import AccessChannel
from compat.java.signing import AclClientRPCHook, SessionCredentials
from rocketmq_py import (
    AllocateMessageQueueAveragely,
    AllocateMessageQueueAveragelyByCircle,
    AllocateMessageQueueByConfig,
    AllocateMessageQueueByMachineRoom,
    AllocateMessageQueueConsistentHash,
    CompressionType,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumeOrderlyStatus,
    LocalTransactionState,
    MessageModel,
    MessageSelector,
    MQBrokerException,
    MQClientException,
    RemotingConnectException,
    RemotingException,
    RemotingSendRequestException,
    RemotingTimeoutException,
    RemotingTooMuchRequestException,
    RequestTimeoutException,
    SendStatus,
)
from rocketmq_py.admin import GroupSettings, TopicSettings

__all__ = [
    "AccessChannel",
    "AclClientRPCHook",
    "AllocateMessageQueueAveragely",
    "AllocateMessageQueueAveragelyByCircle",
    "AllocateMessageQueueByConfig",
    "AllocateMessageQueueByMachineRoom",
    "AllocateMessageQueueConsistentHash",
    "CompressionType",
    "ConsumeConcurrentlyContext",
    "ConsumeConcurrentlyStatus",
    "ConsumeFromWhere",
    "ConsumeFunction",
    "ConsumeOrderlyContext",
    "ConsumeOrderlyStatus",
    "DefaultLitePullConsumer",
    "DefaultMQAdminExt",
    "DefaultMQProducer",
    "DefaultMQPushConsumer",
    "GroupSettings",
    "LocalTransactionState",
    "MQBrokerException",
    "MQClientException",
    "Message",
    "MessageBatch",
    "MessageExt",
    "MessageListener",
    "MessageListenerConcurrently",
    "MessageListenerOrderly",
    "MessageModel",
    "MessageQueue",
    "MessageQueueSelector",
    "MessageSelector",
    "MessageUtil",
    "QueryResult",
    "QueuesFunction",
    "RemotingConnectException",
    "RemotingException",
    "RemotingSendRequestException",
    "RemotingTimeoutException",
    "RemotingTooMuchRequestException",
    "RequestCallback",
    "RequestTimeoutException",
    "SelectMessageQueueByHash",
    "SelectMessageQueueByRandom",
    "SelectorFunction",
    "SendCallback",
    "SendResult",
    "SendStatus",
    "SessionCredentials",
    "TopicMessageQueueChangeListener",
    "TopicSettings",
    "TransactionListener",
    "TransactionMQProducer",
    "TransactionSendResult",
]

if not TYPE_CHECKING:  # a checker that saw this name would accept every class
    __getattr__ = refuse_class

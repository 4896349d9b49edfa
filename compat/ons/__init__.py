"""Aliyun's ONS API shape over the SDK, for ported programs.

    from compat.ons import Message, ONSFactory, Properties, PropertyKeyConst

    properties = Properties()
    properties.put(PropertyKeyConst.NAMESRV_ADDR, "127.0.0.1:9876")
    producer = ONSFactory.createProducer(properties)
    producer.start()
    message = Message("TopicTestMQ", "TagA", b"Hello MQ")
    message.setStartDeliverTime(due_ms)
    producer.send(message)

Both spellings of every name exist, Java's and Python's. There are producers for plain messages,
messages in order and transactions, and consumers of single messages, batches, messages in order,
and on request. MIGRATION.md shows whole programs; what ONS has besides is listed in GAPS.md.
`factory` is where to read on.
"""

from compat.ons.access import ONSChannel
from compat.ons.batch import BatchConsumer, BatchListenerLike, BatchMessageListener
from compat.ons.consumer import Action, ConsumeContext, Consumer, ListenerLike, MessageListener
from compat.ons.factory import ONSFactory
from compat.ons.message import Message, TopicPartition
from compat.ons.order import (
    ConsumeOrderContext,
    MessageOrderListener,
    OrderAction,
    OrderConsumer,
    OrderListenerLike,
    OrderProducer,
)
from compat.ons.producer import Producer
from compat.ons.properties import Properties, PropertyKeyConst, PropertyValueConst
from compat.ons.pull import ChangeListenerLike, PullConsumer, TopicPartitionChangeListener
from compat.ons.sending import OnExceptionContext, SendCallback, SendCallbackLike, SendResult
from compat.ons.transaction import (
    CheckerLike,
    ExecuterLike,
    LocalTransactionChecker,
    LocalTransactionExecuter,
    TransactionProducer,
    TransactionStatus,
)
from rocketmq_py import MessageSelector
from rocketmq_py.errors import ONSClientException

__all__ = [
    "Action",
    "BatchConsumer",
    "BatchListenerLike",
    "BatchMessageListener",
    "ChangeListenerLike",
    "CheckerLike",
    "ConsumeContext",
    "ConsumeOrderContext",
    "Consumer",
    "ExecuterLike",
    "ListenerLike",
    "LocalTransactionChecker",
    "LocalTransactionExecuter",
    "Message",
    "MessageListener",
    "MessageOrderListener",
    "MessageSelector",
    "ONSChannel",
    "ONSClientException",
    "ONSFactory",
    "OnExceptionContext",
    "OrderAction",
    "OrderConsumer",
    "OrderListenerLike",
    "OrderProducer",
    "Producer",
    "Properties",
    "PropertyKeyConst",
    "PropertyValueConst",
    "PullConsumer",
    "SendCallback",
    "SendCallbackLike",
    "SendResult",
    "TopicPartition",
    "TopicPartitionChangeListener",
    "TransactionProducer",
    "TransactionStatus",
]

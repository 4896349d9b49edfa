"""Aliyun's ONS API shape over the SDK, for ported programs.

    from compat.ons import Message, ONSFactory, Properties, PropertyKeyConst

    properties = Properties()
    properties.put(PropertyKeyConst.NAMESRV_ADDR, "127.0.0.1:9876")
    producer = ONSFactory.createProducer(properties)
    producer.start()
    message = Message("TopicTestMQ", "TagA", b"Hello MQ")
    message.setStartDeliverTime(due_ms)
    producer.send(message)

Both spellings of every name exist, Java's and Python's. Offered are the producer (`send`,
`send_async`, `send_oneway`) and the consumer with one listener per topic; what else ONS has is
listed in GAPS.md. `factory` is where to read on.
"""

from compat.ons.consumer import Action, ConsumeContext, Consumer, ListenerLike, MessageListener
from compat.ons.factory import ONSFactory
from compat.ons.message import Message
from compat.ons.producer import OnExceptionContext, Producer, SendCallback, SendResult
from compat.ons.properties import Properties, PropertyKeyConst, PropertyValueConst
from rocketmq_py import MessageSelector
from rocketmq_py.errors import ONSClientException

__all__ = [
    "Action",
    "ConsumeContext",
    "Consumer",
    "ListenerLike",
    "Message",
    "MessageListener",
    "MessageSelector",
    "ONSClientException",
    "ONSFactory",
    "OnExceptionContext",
    "Producer",
    "Properties",
    "PropertyKeyConst",
    "PropertyValueConst",
    "SendCallback",
    "SendResult",
]

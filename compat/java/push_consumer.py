"""The push consumer with Java's names and argument orders.

It is the SDK's consumer; a listener gets messages with Java's names. Must not know how messages are
fetched. Names as in ``org.apache.rocketmq.client.consumer.DefaultMQPushConsumer``.
"""

from __future__ import annotations

from typing import Any, overload

from attrs import define, setters

import rocketmq_py
from compat.java import forms
from compat.java.construction import settings_of
from compat.java.consumer_settings import PushConsumerNames
from compat.java.listeners import MessageListener, listening
from compat.java.messages import MessageQueue
from compat.java.signing import AclClientRPCHook
from rocketmq_py import AllocateMessageQueueStrategy, ConsumeMessageHook, RPCHook

Hook = RPCHook | AclClientRPCHook


@define(init=False, eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class DefaultMQPushConsumer(rocketmq_py.DefaultMQPushConsumer, PushConsumerNames):
    """Receives messages of a group; made of Java's arguments, most often the group alone.

    Settings are given by setters. The SDK's threads do not keep a program alive: end it with
    ``consumer.run()``, which starts the consumer and waits for SIGINT or SIGTERM.

    >>> consumer = DefaultMQPushConsumer("shop")
    >>> consumer.setNamesrvAddr("127.0.0.1:9876")
    >>> consumer.subscribe("orders", "created || paid")
    """

    @overload
    def __init__(self, consumerGroup: str = ..., /) -> None: ...

    @overload
    def __init__(self, rpcHook: Hook, /) -> None: ...

    @overload
    def __init__(
        self,
        consumerGroup: str,
        rpcHook: Hook | None,
        allocateMessageQueueStrategy: AllocateMessageQueueStrategy = ...,
        /,
    ) -> None: ...

    @overload
    def __init__(
        self, consumerGroup: str, enableMsgTrace: bool, customizedTraceTopic: str | None, /
    ) -> None: ...

    @overload
    def __init__(
        self,
        consumerGroup: str,
        rpcHook: Hook | None,
        allocateMessageQueueStrategy: AllocateMessageQueueStrategy,
        enableMsgTrace: bool,
        customizedTraceTopic: str | None,
        /,
    ) -> None: ...

    @overload
    def __init__(
        self,
        namespace: str | None,
        consumerGroup: str,
        rpcHook: Hook | None = None,
        allocateMessageQueueStrategy: AllocateMessageQueueStrategy = ...,
        /,
    ) -> None: ...

    @overload
    def __init__(
        self,
        namespace: str | None,
        consumerGroup: str,
        rpcHook: Hook | None,
        allocateMessageQueueStrategy: AllocateMessageQueueStrategy,
        enableMsgTrace: bool,
        customizedTraceTopic: str | None,
        /,
    ) -> None: ...

    def __init__(self, *given: Any, **settings: Any) -> None:  # Any: the overloads say what
        kind = type(self).__name__
        super().__init__(**settings_of(kind, forms.PUSH_CONSUMER, given, settings))

    def registerMessageListener(self, messageListener: MessageListener) -> None:
        """Set who handles messages: an object with ``consumeMessage``, or a function.

        It is called with (msgs, context), whose names are Java's. For messages in order it is a
        `MessageListenerOrderly`. Raises as `register_message_listener`.
        """
        self.register_message_listener(listening(messageListener))

    def setMessageListener(self, messageListener: MessageListener) -> None:
        """Set who handles messages, as `registerMessageListener` does."""
        self.registerMessageListener(messageListener)

    def updateCorePoolSize(self, corePoolSize: int) -> None:
        """Java's spelling of `update_core_pool_size`."""
        self.update_core_pool_size(corePoolSize)

    def sendMessageBack(self, msg: rocketmq_py.MessageExt, delayLevel: int) -> None:
        """Java's spelling of `send_message_back`."""
        self.send_message_back(msg, delayLevel)

    def fetchSubscribeMessageQueues(self, topic: str) -> set[MessageQueue]:
        """Java's spelling of `fetch_subscribe_message_queues`."""
        return {MessageQueue.of(each) for each in self.fetch_subscribe_message_queues(topic)}

    def registerConsumeMessageHook(self, hook: ConsumeMessageHook) -> None:
        """Java's spelling of `register_consume_message_hook`."""
        self.register_consume_message_hook(hook)

    def getConsumerGroup(self) -> str:
        """Java's spelling of `consumer_group`."""
        return self.consumer_group

    def setConsumerGroup(self, consumerGroup: str) -> None:
        """Java's spelling of ``consumer_group = ...``."""
        self.consumer_group = consumerGroup

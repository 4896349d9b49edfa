"""Receives the messages of two topics, each by a listener of its own, as ONS's Java program does.

It goes on when `main` has ended, until Ctrl-C.
"""

from __future__ import annotations

import os
import time

from compat.ons import (
    Action,
    ConsumeContext,
    Consumer,
    Message,
    MessageListener,
    ONSFactory,
    Properties,
    PropertyKeyConst,
)

NAMESRV_ADDR = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


class TagListener(MessageListener):
    """Says how long a message was on its way."""

    def consume(self, message: Message, context: ConsumeContext) -> Action:  # noqa: ARG002
        """Handle one message."""
        print(f"Receive: {message}")
        print(
            f"Receive message[msgId={message.getMsgID()} "
            f"{int(time.time() * 1000) - message.getBornTimestamp()}  ms later]"
        )
        return Action.CommitMessage


class OtherListener(MessageListener):
    """Says what came."""

    def consume(self, message: Message, context: ConsumeContext) -> Action:  # noqa: ARG002
        """Handle one message."""
        print(f"Receive: {message}")
        return Action.CommitMessage


def main() -> Consumer:
    """Start the consumer, which keeps the program alive."""
    properties = Properties()
    properties.put(PropertyKeyConst.GROUP_ID, "XXX")
    # The key pair of an account; a broker that asks for none does not look at it.
    properties.put(PropertyKeyConst.AccessKey, "XXX")
    properties.put(PropertyKeyConst.SecretKey, "XXX")
    properties.put(PropertyKeyConst.NAMESRV_ADDR, NAMESRV_ADDR)
    # Each message goes to one member of the group: to all of them if PropertyKeyConst.MessageModel
    # is set to PropertyValueConst.BROADCASTING.

    consumer = ONSFactory.createConsumer(properties)
    consumer.subscribe("TopicTestMQ", "TagA||TagB", TagListener())
    consumer.subscribe("TopicTestMQ-Other", "*", OtherListener())
    consumer.start()
    print("Consumer Started")
    return consumer


if __name__ == "__main__":
    main()

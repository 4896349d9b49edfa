"""Sends one message that consumers get ten seconds later, as ONS's Java program does."""

from __future__ import annotations

import os
import time

from compat.ons import (
    Message,
    OnExceptionContext,
    ONSFactory,
    Properties,
    PropertyKeyConst,
    SendCallback,
    SendResult,
)

NAMESRV_ADDR = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


class Callback(SendCallback):
    """Learns what became of the message."""

    def onSuccess(self, sendResult: SendResult) -> None:  # noqa: N802, N803 - Java's names
        """The message is stored."""
        print(
            "send message success. topic="
            + sendResult.getTopic()
            + ", msgId="
            + sendResult.getMessageId()
        )

    def onException(self, context: OnExceptionContext) -> None:  # noqa: N802 - Java's name
        """The message is not stored: send it again, or keep it for later."""
        print(f"send message failed. topic={context.getTopic()}, msgId={context.getMessageId()}")


def main() -> None:
    """Send the message."""
    properties = Properties()
    # The key pair of an account; a broker that asks for none does not look at it.
    properties.put(PropertyKeyConst.AccessKey, "XXX")
    properties.put(PropertyKeyConst.SecretKey, "XXX")
    # In milliseconds.
    properties.setProperty(PropertyKeyConst.SendMsgTimeoutMillis, "3000")
    properties.put(PropertyKeyConst.NAMESRV_ADDR, NAMESRV_ADDR)

    producer = ONSFactory.createProducer(properties)
    producer.start()

    msg = Message("TopicTestMQ", "TagA", b"Hello MQ")
    msg.setKey("ORDERID_100")
    msg.setStartDeliverTime(int(time.time() * 1000) + 10_000)
    producer.sendAsync(msg, Callback())

    # The id is known before the callback is called.
    print(f"send message async. topic={msg.getTopic()}, msgId={msg.getMsgID()}")

    producer.shutdown()


if __name__ == "__main__":
    main()

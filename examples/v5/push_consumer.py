"""Messages come to a listener, which says what became of each.

python examples/v5/push_consumer.py 127.0.0.1:9876 DelayTopic MailGroup
"""

from __future__ import annotations

import sys
import threading

from compat.v5 import (
    ClientConfigurationBuilder,
    ConsumeResult,
    FilterExpression,
    MessageListener,
    MessageView,
    PushConsumerBuilder,
)


class Printer(MessageListener):
    """Prints messages until one tells it to stop."""

    def __init__(self) -> None:
        self.stopped = threading.Event()

    def consume(self, message: MessageView) -> ConsumeResult:
        """Print when it was to be delivered; None: at once."""
        print(f"{message.body!r} was due at {message.delivery_timestamp}")
        if message.body == b"stop":
            self.stopped.set()
        return ConsumeResult.SUCCESS


def main(name_server: str, topic: str, group: str) -> int:
    """Consume until a message says stop."""
    listener = Printer()
    builder = (
        PushConsumerBuilder()
        .set_client_configuration(ClientConfigurationBuilder().set_endpoints(name_server).build())
        .set_consumer_group(group)
        .set_subscription_expressions({topic: FilterExpression.SUB_ALL})
        .set_message_listener(listener)
    )
    with builder.build():
        listener.stopped.wait()  # the threads of a consumer keep no program alive
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))

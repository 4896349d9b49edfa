"""A program that asks for messages, and acks each when it has handled it.

python examples/v5/simple_consumer.py 127.0.0.1:9876 DelayTopic OrderGroup
"""

from __future__ import annotations

import sys
from datetime import timedelta

from compat.v5 import (
    ClientConfigurationBuilder,
    ClientException,
    FilterExpression,
    SimpleConsumerBuilder,
)


def main(name_server: str, topic: str, group: str) -> int:
    """Receive until a message says stop."""
    builder = (
        SimpleConsumerBuilder()
        .set_client_configuration(ClientConfigurationBuilder().set_endpoints(name_server).build())
        .set_consumer_group(group)
        .set_await_duration(timedelta(seconds=20))
        .set_subscription_expressions({topic: FilterExpression.SUB_ALL})
    )
    bodies: list[bytes] = []
    with builder.build() as consumer:
        while b"stop" not in bodies:
            try:
                messages = consumer.receive(10, timedelta(seconds=30))
            except ClientException as error:
                print(f"nothing could be received, so it is asked again: {error}")
                continue
            for message in messages:
                print(f"{message.body!r} was due at {message.delivery_timestamp}")
                try:
                    consumer.ack(message)
                except ClientException as error:
                    print(f"it comes again, since it could not be acked: {error}")
                bodies.append(message.body)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))

"""Send a message that is delivered ten minutes from now, with the builders of the 5.0 documents.

A third argument is another number of seconds.

    python examples/v5/send_delayed.py 127.0.0.1:9876 DelayTopic
"""

from __future__ import annotations

import sys
import time

from compat.v5 import ClientConfigurationBuilder, ClientException, MessageBuilder, ProducerBuilder

TEN_MINUTES = "600"


def main(name_server: str, topic: str, seconds: str = TEN_MINUTES) -> int:
    """Send it, and say what came back."""
    configuration = ClientConfigurationBuilder().set_endpoints(name_server).build()
    deliver_at_ms = int(time.time() * 1000) + int(seconds) * 1000
    message = (
        MessageBuilder()
        .set_topic(topic)
        .set_keys("messageKey")  # by which it is found
        .set_tag("messageTag")  # by which consumers filter
        .set_delivery_timestamp(deliver_at_ms)  # milliseconds since 1970
        .set_body(b"messageBody")
        .build()
    )
    builder = ProducerBuilder().set_client_configuration(configuration).set_topics(topic)
    with builder.build() as producer:
        try:
            receipt = producer.send(message)
        except ClientException as error:
            print(f"not sent: {error}")
            return 1
    print(f"sent {receipt.message_id}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))

"""Create a topic for delayed messages, as the 5.0 documents do with mqadmin.

mqadmin updateTopic -c DefaultCluster -t DelayTopic -n 127.0.0.1:9876 -a +message.type=DELAY
python examples/v5/create_delay_topic.py 127.0.0.1:9876 DelayTopic
"""

from __future__ import annotations

import sys

from rocketmq_py import DefaultMQProducer

QUEUES = 8
EVERY_BROKER = "TBW102"
"""A topic that each broker has, unless it creates none by itself."""


def main(name_server: str, topic: str) -> int:
    """Create the topic at every broker."""
    with DefaultMQProducer("create_delay_topic", namesrv_addr=name_server) as producer:
        producer.create_topic(EVERY_BROKER, topic, QUEUES, attributes={"+message.type": "DELAY"})
    print(f"{topic} takes messages of type DELAY")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))

"""Every package imports, and a delayed message comes in virtual time, by TCP too.

Needs no extra. Where packages of extras are installed, none of them is imported for this.
"""

import sys
from datetime import timedelta

import compat
import compat.java
import compat.ons
import embedded_broker
import rocketmq_py
import spark_connector
from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import DefaultMQProducer, Message

FOREIGN = {"pytest", "_pytest", "testcontainers", "docker", "typer", "rich", "pyspark", "yaml"}

places = [package.__file__ or "" for package in (compat, embedded_broker, rocketmq_py)]
places += [module.__file__ or "" for module in (spark_connector, compat.java, compat.ons)]
assert all(place.startswith(sys.prefix) for place in places), places

with EmbeddedBroker(clock=VirtualClock()) as broker:
    with DefaultMQProducer("shop", namesrv_addr=broker.namesrv_addr) as producer:
        producer.send(Message("T", b"by TCP", delay=timedelta(days=2)))
    broker.send("T", b"within", delay=timedelta(days=1))
    assert broker.messages.in_topic("T") == []
    broker.clock.advance(days=2)
    bodies = [message.body for message in broker.messages.in_topic("T")]
assert sorted(bodies) == [b"by TCP", b"within"], bodies
found = FOREIGN & set(sys.modules)
assert not found, found
print("works on", ".".join(map(str, sys.version_info[:2])))

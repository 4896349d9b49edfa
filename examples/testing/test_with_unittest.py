"""Tests with unittest alone: a broker for each test, and time that the test moves.

Run it with: python -m unittest examples/testing/test_with_unittest.py
"""

import unittest
from datetime import timedelta

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import ConsumeConcurrentlyStatus, DefaultMQProducer, DefaultMQPushConsumer, Message


class OrderTest(unittest.TestCase):
    """An order is cancelled when nobody pays it for half an hour."""

    def setUp(self) -> None:
        """Start a broker, a producer and a consumer; they end with the test."""
        self.broker = self.enterContext(EmbeddedBroker(clock=VirtualClock(), topics=["Orders"]))
        address = self.broker.namesrv_addr
        self.producer = self.enterContext(DefaultMQProducer("shop", namesrv_addr=address))
        consumer = DefaultMQPushConsumer("orders", namesrv_addr=address)
        consumer.subscribe("Orders", "timeout")
        consumer.register_message_listener(self.listen)
        self.enterContext(consumer)
        self.cancelled: list[str] = []

    def listen(self, messages, context):
        """Cancel orders; this runs on a thread of the consumer."""
        self.cancelled += [message.body.decode() for message in messages]
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    def test_an_order_times_out(self) -> None:
        """The message waits for half an hour, which takes milliseconds."""
        self.producer.send(Message("Orders", b"42", tags="timeout", delay=timedelta(minutes=30)))
        self.broker.clock.run(minutes=29)
        self.assertEqual([], self.cancelled)
        self.broker.clock.run(minutes=1)
        self.assertEqual(["42"], self.cancelled)
        self.broker.faults.assert_all_used()


if __name__ == "__main__":
    unittest.main()

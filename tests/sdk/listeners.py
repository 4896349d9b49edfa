"""Listeners of the tests of this room: what came, and in which state a consumer is."""

from __future__ import annotations

from collections.abc import Sequence

from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DefaultMQPushConsumer,
    MessageExt,
    MessageQueue,
)
from tests.unit.rocketmq_py.consumer.inbox import Inbox

SOON_MS = 500
"""How often a consumer that has new topics, as that of its retries, asks for routes."""
ONE_SECOND_LEVEL = 1


class SoonAgain(Inbox):
    """What fails comes again after a second, not after the ten and more of its attempt."""

    def __call__(
        self, messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        context.delay_level_when_next_consume = ONE_SECOND_LEVEL
        return super().__call__(messages, context)


def queues_of(consumer: DefaultMQPushConsumer, topic: str) -> set[MessageQueue]:
    """Give the queues of a topic that a member of a group has now."""
    return {queue for queue in consumer.assigned_queues() if queue.topic == topic}

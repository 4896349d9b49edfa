"""How tests make dead letters: a group that fails until it gives up."""

from __future__ import annotations

from datetime import timedelta

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
)

GROUP = "billing"
DEAD = "%DLQ%" + GROUP


def give_up(
    broker: EmbeddedBroker, *, retries: int = 0, tags: str = "new", namespace: str = ""
) -> list[str]:
    """Send two messages to a group that fails until they are dead letters; return their ids."""
    broker.topics.create(f"{namespace}%Invoices" if namespace else "Invoices")
    with DefaultMQProducer(
        "makers", namesrv_addr=broker.namesrv_addr, namespace=namespace
    ) as producer:
        sent = [
            producer.send(
                Message("Invoices", b"%d" % one, tags=tags, keys=f"k{one}", properties={"a": "b"})
            )
            for one in range(2)
        ]
    tried: list[str] = []

    def listener(
        messages: list[MessageExt], _context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        tried.extend(one.msg_id for one in messages)
        return ConsumeConcurrentlyStatus.RECONSUME_LATER

    consumer = DefaultMQPushConsumer(
        GROUP,
        namesrv_addr=broker.namesrv_addr,
        namespace=namespace,
        max_reconsume_times=retries,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )
    consumer.subscribe("Invoices")
    consumer.register_message_listener(listener)
    with consumer:
        broker.clock.run(timedelta(minutes=1))
    assert len(tried) == 2 * (retries + 1)
    return [one.msg_id for one in sent]

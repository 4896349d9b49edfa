"""Tests of a listener that hands its messages to Celery tasks.

The tasks run at once (``task_always_eager``), so when the broker's clock has settled they are done.

Copy it to a folder of your own, since in here the settings of this clone's pytest count. There:

    pip install celery
    pytest test_with_celery.py
"""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from celery import Celery, Task

from embedded_broker.pytest_plugin import Consumers, Recorders
from rocketmq_py import ConsumeConcurrentlyStatus, DefaultMQProducer, Message

# -- the project ----------------------------------------------------------------------------------

app = Celery("shop", broker="memory://")
cancelled: list[str] = []


@app.task(bind=True, max_retries=3)
def cancel_order(task: Task, number: str) -> None:
    """Cancel an order; the first try fails, as first tries do."""
    if task.request.retries == 0:
        raise task.retry(countdown=0)
    cancelled.append(number)


def listen(messages, context):
    """Hand each time-out to a task; it comes again when the task could not be queued."""
    for message in messages:
        cancel_order.delay(message.body.decode())
    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS


# -- its tests ------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _eager() -> Iterator[None]:
    app.conf.task_always_eager = True
    yield
    app.conf.task_always_eager = False
    cancelled.clear()


def test_a_time_out_becomes_a_task(
    rocketmq_producer: DefaultMQProducer,
    rocketmq_consumer: Consumers,
    rocketmq_recorder: Recorders,
    rocketmq_topic: str,
) -> None:
    rocketmq_consumer("orders", rocketmq_topic, listen)
    timeouts = rocketmq_recorder(rocketmq_topic)
    rocketmq_producer.send(Message(rocketmq_topic, b"42", delay=timedelta(minutes=30)))
    timeouts.expect_nothing(within=timedelta(minutes=29))
    assert cancelled == []
    timeouts.expect("42", within=timedelta(minutes=1))
    assert cancelled == ["42"]

"""A broker that dies under a client, on whatever broker `--rocketmq` names, embedded or real."""

from __future__ import annotations

import threading
from datetime import timedelta

from embedded_broker.pytest_plugin import Recorders, Store
from rocketmq_py import DefaultMQProducer, Message

RESTART_S = 60
"""A hang guard: a real broker that starts on a busy machine takes 20 s of it."""


def test_sends_outlive_a_broker_that_is_killed_and_what_was_acknowledged_comes(
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_recorder: Recorders,
    rocketmq_store: Store,
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    budget_ms = RESTART_S * 1000
    rocketmq_producer.send(Message(rocketmq_topic, b"before"))
    restart = threading.Thread(target=rocketmq_store.reopen, kwargs={"crash": True})
    restart.start()
    future = rocketmq_producer.send_async(Message(rocketmq_topic, b"future 0"), timeout=budget_ms)
    turns = 0
    while restart.is_alive():
        turns += 1
        body = f"waited {turns}".encode()
        rocketmq_producer.send(Message(rocketmq_topic, body), timeout=budget_ms)
    restart.join(RESTART_S)
    rocketmq_producer.send(Message(rocketmq_topic, b"after"))
    future.result(RESTART_S)
    for text in ("before", "future 0", *(f"waited {one + 1}" for one in range(turns)), "after"):
        arrived.expect(text, within=timedelta(seconds=RESTART_S))

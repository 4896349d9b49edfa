"""A broker that is killed under its clients and starts again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import timedelta

from embedded_broker.pytest_plugin import Recorders, Store
from rocketmq_py import DefaultMQProducer, Message, SendFailedError, SendResult

RESTART_S = 60
"""A hang guard: a real broker that starts on a busy machine takes 20 s of it."""
RESTART_MS = RESTART_S * 1000


@contextmanager
def killed(store: Store) -> Iterator[threading.Thread]:
    """The broker is killed and starts again meanwhile; it is back at the end."""
    restart = threading.Thread(target=store.reopen, kwargs={"crash": True})
    restart.start()
    try:
        yield restart
    finally:
        restart.join(RESTART_S)
    assert not restart.is_alive()


def test_sends_outlive_a_broker_that_is_killed_and_what_was_acknowledged_comes(
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_recorder: Recorders,
    rocketmq_store: Store,
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    rocketmq_producer.send(Message(rocketmq_topic, b"before"))
    with killed(rocketmq_store) as restart:
        first = Message(rocketmq_topic, b"future 0")
        future = rocketmq_producer.send_async(first, timeout=RESTART_MS)
        turns = 0
        while restart.is_alive():
            turns += 1
            body = f"waited {turns}".encode()
            rocketmq_producer.send(Message(rocketmq_topic, body), timeout=RESTART_MS)
    rocketmq_producer.send(Message(rocketmq_topic, b"after"))
    future.result(RESTART_S)
    for text in ("before", "future 0", *(f"waited {one + 1}" for one in range(turns)), "after"):
        arrived.expect(text, within=timedelta(seconds=RESTART_S))


def test_every_future_has_an_outcome_and_what_it_says_is_true(
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_recorder: Recorders,
    rocketmq_store: Store,
) -> None:
    """They are hasty: what meets the dead broker may fail, but never without a word."""
    arrived = rocketmq_recorder(rocketmq_topic)
    rocketmq_producer.send(Message(rocketmq_topic, b"before"))
    futures: dict[str, Future[SendResult]] = {}
    with killed(rocketmq_store) as restart:
        pause = threading.Event()
        while restart.is_alive() or not futures:
            text = str(len(futures))
            message = Message(rocketmq_topic, text.encode())
            futures[text] = rocketmq_producer.send_async(message, timeout=200)
            pause.wait(0.01)
    rocketmq_producer.send(Message(rocketmq_topic, b"after"), timeout=RESTART_MS)
    errors = {text: future.exception(RESTART_S) for text, future in futures.items()}
    for text in ("before", "after", *(text for text, error in errors.items() if error is None)):
        arrived.expect(text, within=timedelta(seconds=RESTART_S))
    for text, error in errors.items():
        if error is not None:
            assert isinstance(error, SendFailedError)
            assert error.attempts
            assert error.possibly_stored or text not in arrived.texts

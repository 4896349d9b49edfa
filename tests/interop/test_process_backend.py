"""The kit's `process:VERSION` on real jars: what it says it can do, it can."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from embedded_broker.kit.backend import Ability
from embedded_broker.kit.process import ProcessBackend
from embedded_broker.kit.real import version_at, wait_until
from rocketmq_py import DefaultMQProducer, DelayValueError, Message, RecallNotSupportedError
from tests.interop.java_tools import CACHE
from tests.waiting import HANG_S


@pytest.mark.parametrize(
    ("version", "timers"),
    [pytest.param("5.3.3", True, marks=pytest.mark.smoke), ("4.9.7", False)],
)
def test_a_release_runs_does_what_it_says_and_leaves_nothing(version: str, timers: bool) -> None:
    backend = ProcessBackend(version, cache=CACHE)
    assert (Ability.TIMERS in backend.abilities) == timers
    with backend:
        pair = backend._servers
        assert pair is not None
        assert version_at(backend.namesrv_addr) == backend.version
        backend.create_topic("Orders", 2)
        with DefaultMQProducer("G", namesrv_addr=backend.namesrv_addr) as producer:
            assert len(producer.fetch_publish_message_queues("Orders")) == 2
            check_delays_of_any_length(producer, timers=timers)
            backend.reopen(crash=True)
            assert producer.send(Message("Orders", b"after the crash")).queue_offset >= 0
    assert backend.log_tail(200)
    assert not pair.home.exists()
    for jvm in (pair.namesrv, pair.broker):
        assert not Path(f"/proc/{jvm.process.pid}").exists()


def check_delays_of_any_length(producer: DefaultMQProducer, *, timers: bool) -> None:
    later = Message("Orders", b"later").set_delay_time_sec(600)
    if timers:
        result = producer.send(later)
        assert result.recall_handle is not None
        producer.recall_message("Orders", result.recall_handle)
        return
    sends: tuple[Callable[[Message], object], ...] = (
        producer.send,
        producer.send_oneway,
        lambda message: producer.send_async(message).result(),
    )
    for send in sends:
        with pytest.raises(DelayValueError, match=r"4\.9\.7.*level 14 \(10m\)"):
            send(later)
    assert stored_in(producer) == 0
    producer.delay_policy = "as_java"
    assert producer.send(later).recall_handle is None
    wait_until(lambda: stored_in(producer) == 1, "it is delivered at once", timeout=HANG_S)
    with pytest.raises(RecallNotSupportedError):
        producer.recall_message("Orders", "djEgT3JkZXJzIGJyb2tlci1hIDEgWA==")


def stored_in(producer: DefaultMQProducer) -> int:
    return sum(map(producer.max_offset, producer.fetch_publish_message_queues("Orders")))

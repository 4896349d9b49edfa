"""What a release can do, and how a topic is created at a broker that is not ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.kit.backend import Ability, BackendError
from embedded_broker.kit.real import (
    RealBackend,
    abilities_of,
    version_at,
    version_in,
    wait_until,
    wait_until_registered,
)
from rocketmq_py import RemotingException


class AtAddress(RealBackend):
    """A broker at an address; the embedded one stands in for a real one."""

    def __init__(self, namesrv_addr: str = "127.0.0.1:1", *, fails: bool = False) -> None:
        super().__init__("at", (4, 9, 7))
        self._addr = namesrv_addr
        self._fails = fails
        self.starts = 0

    @property
    def namesrv_addr(self) -> str:
        return self._addr

    def _start(self) -> None:
        self.starts += 1
        if self._fails:
            raise BackendError("no room")

    def _stop(self) -> None:
        pass


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as started:
        yield started


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("5.3.3", (5, 3, 3)),
        ("V4_9_7", (4, 9, 7)),
        ("apache/rocketmq:5.3.2-alpine", (5, 3, 2)),
        ("registry.example.org:5000/mq:latest", None),
    ],
)
def test_a_release_is_read_from_tags_and_descriptions(
    text: str, version: tuple[int, ...] | None
) -> None:
    assert version_in(text) == version


def test_abilities_follow_from_the_release() -> None:
    topics = {Ability.CREATE_TOPICS}
    assert abilities_of(None) == topics
    assert abilities_of((4, 9, 7)) == topics
    assert abilities_of((5, 0, 0)) == topics | {Ability.TIMERS}
    assert abilities_of((5, 3, 3)) == topics | {Ability.TIMERS, Ability.RECALL}


def test_a_skip_says_which_release_would_do() -> None:
    old = AtAddress()
    assert old.why_not(Ability.TIMERS).endswith("RocketMQ has them since 5.0.0")
    assert old.why_not(Ability.FAULTS) == "at does not offer faults on purpose"


def test_a_topic_is_created_once_and_keeps_its_queues(broker: EmbeddedBroker) -> None:
    broker.topics.create("Old", queues=3)
    with AtAddress(broker.namesrv_addr) as backend:
        assert backend.start().starts == 1
        backend.create_topic("Orders", 2)
        backend.create_topic("Orders", 7)
        backend.create_topic("Old", 7)
    assert broker.topics["Orders"].queues == 2
    assert broker.topics["Old"].queues == 3
    with pytest.raises(BackendError, match="at is not started"):
        backend.create_topic("Orders")


def test_a_start_that_failed_is_not_tried_again() -> None:
    backend = AtAddress(fails=True)
    for _ in range(3):
        with pytest.raises(BackendError, match="no room"):
            backend.start()
    assert backend.starts == 1
    backend.stop()


def test_a_registered_broker_tells_its_version(broker: EmbeddedBroker) -> None:
    wait_until_registered(broker.namesrv_addr, timeout=10)
    wait_until_registered(broker.namesrv_addr, broker.addr, timeout=10)
    with pytest.raises(BackendError, match=r"127\.0\.0\.1:1 registers at .*: not in 0\.1 s"):
        wait_until_registered(broker.namesrv_addr, "127.0.0.1:1", timeout=0.1)
    assert version_at(broker.namesrv_addr) is not None


def test_a_wait_that_is_never_answered_says_why() -> None:
    def refused() -> bool:
        raise RemotingException("nobody listens")

    with pytest.raises(BackendError, match=r"a broker: not in 0\.1 s \(nobody listens\)"):
        wait_until(refused, "a broker", timeout=0.1)

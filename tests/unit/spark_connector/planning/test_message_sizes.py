"""How large messages are about: samples of each queue, where it goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra spark)")

from embedded_broker import EmbeddedBroker
from rocketmq_py import MessageQueue, QueueAccess
from rocketmq_py.protocol.codes import RequestCode
from spark_connector.planning import message_sizes
from spark_connector.planning.message_sizes import UNKNOWN_SIZE, MessageSizes

PULL = RequestCode.PULL_MESSAGE
QUEUES = [MessageQueue("T", "broker-a", number) for number in range(3)]


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as started:
        started.topics.create("T", queues=3)
        for queue, size in enumerate((100, 10_000, 50_000)):
            for _ in range(40):
                started.send("T", b"x" * size, queue=queue)
        yield started


@pytest.fixture
def access(broker: EmbeddedBroker) -> Iterator[QueueAccess]:
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as started:
        started.read_queues("T")
        yield started


def test_each_queue_has_its_own_size_and_is_asked_once_for_a_place(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    sizes = MessageSizes(access)
    found = sizes.of(dict.fromkeys(QUEUES, 0))
    for queue, size in zip(QUEUES, (100, 10_000, 50_000), strict=True):
        assert size < found[queue] < size + 300
    asked = len(broker.journal.requests(code=PULL))
    assert asked == 3
    assert sizes.of(dict.fromkeys(QUEUES, 0)) == found
    assert len(broker.journal.requests(code=PULL)) == asked
    assert sizes.of({QUEUES[0]: 5})[QUEUES[0]] == pytest.approx(found[QUEUES[0]], abs=2)
    assert len(broker.journal.requests(code=PULL)) == asked + 1


def test_what_is_not_looked_at_counts_as_the_mean(
    broker: EmbeddedBroker, access: QueueAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_sizes, "SAMPLED_MOST", 1)
    sizes = MessageSizes(access)
    first = sizes.of(dict.fromkeys(QUEUES, 0))
    assert len(set(first.values())) == 1
    sizes.of(dict.fromkeys(QUEUES, 0))
    third = sizes.of(dict.fromkeys(QUEUES, 0))  # one more each time
    assert len(set(third.values())) == 3


def test_a_queue_that_does_not_answer_keeps_what_is_known(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    sizes = MessageSizes(access)
    with broker.faults.on(PULL).always().respond(1):
        assert sizes.of({QUEUES[0]: 0}) == {QUEUES[0]: UNKNOWN_SIZE}
    known = sizes.of({QUEUES[0]: 0})
    with broker.faults.on(PULL).always().respond(1):
        assert sizes.of({QUEUES[0]: 3}) == known
    nobody = MessageQueue("T", "broker-z", 0)
    assert sizes.of({nobody: 0}) == {nobody: UNKNOWN_SIZE}

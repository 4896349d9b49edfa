"""How large messages are: of each queue where it goes on, of a topic once, and never waited for."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, cast

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import MessageQueue, RemotingConnectException
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.raw import QueueAccess, RawPull
from spark_connector.options.read_options import ReadOptions, read_options
from spark_connector.planning import message_sizes
from spark_connector.planning.message_sizes import FRESH_S, UNKNOWN_BYTES, MessageSizes
from spark_connector.planning.queue_ranges import QueueRange
from spark_connector.planning.task_plan import MESSAGE_BYTES

PULL = RequestCode.PULL_MESSAGE
QUEUES = [MessageQueue("T", "broker-a", number) for number in range(3)]


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock()) as started:
        started.topics.create("T", queues=3)
        yield started


@pytest.fixture
def access(access: QueueAccess) -> QueueAccess:
    access.read_queues("T")
    return access


def options(**given: str) -> ReadOptions:
    return read_options({"nameServer": "h:1", "subscribe": "T"} | given, streaming=False)


def fill(broker: EmbeddedBroker) -> None:
    for queue, size in enumerate((100, 10_000, 50_000)):
        for _ in range(40):
            broker.send("T", b"x" * size, queue=queue)


def pulls(broker: EmbeddedBroker) -> list[str]:
    return [one.fields["queueId"] for one in broker.journal.requests(code=PULL)]


# --- of queues ------------------------------------------------------------------------------------


def test_each_queue_has_its_own_size_and_is_asked_once_for_a_place(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    fill(broker)
    sizes = MessageSizes(access, options())
    found = sizes.of_queues(dict.fromkeys(QUEUES, 0))
    for queue, size in zip(QUEUES, (100, 10_000, 50_000), strict=True):
        assert size < found[queue] < size + 300
    assert len(pulls(broker)) == 3
    assert sizes.of_queues(dict.fromkeys(QUEUES, 0)) == found
    assert len(pulls(broker)) == 3
    assert sizes.of_queues({QUEUES[0]: 5})[QUEUES[0]] == pytest.approx(found[QUEUES[0]], abs=2)
    assert len(pulls(broker)) == 4


def test_what_is_not_looked_at_counts_as_the_mean_and_the_oldest_look_is_the_next(
    broker: EmbeddedBroker, access: QueueAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker)
    monkeypatch.setattr(message_sizes, "QUEUES_MOST", 1)
    sizes = MessageSizes(access, options())
    first = sizes.of_queues(dict.fromkeys(QUEUES, 0))
    assert len(set(first.values())) == 1
    sizes.of_queues(dict.fromkeys(QUEUES, 0))
    third = sizes.of_queues(dict.fromkeys(QUEUES, 0))  # one more each time
    assert len(set(third.values())) == 3
    for batch in range(1, 4):
        sizes.of_queues(dict.fromkeys(QUEUES, batch))
    assert pulls(broker) == 2 * ["0", "1", "2"]


def test_a_queue_that_does_not_answer_keeps_what_is_known(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    fill(broker)
    sizes = MessageSizes(access, options())
    with broker.faults.on(PULL).always().respond(1):
        assert sizes.of_queues({QUEUES[0]: 0}) == {QUEUES[0]: MESSAGE_BYTES}
    known = sizes.of_queues({QUEUES[0]: 0})
    with broker.faults.on(PULL).always().respond(1):
        assert sizes.of_queues({QUEUES[0]: 3}) == known
    nobody = MessageQueue("T", "broker-z", 0)
    assert sizes.of_queues({nobody: 0}) == {nobody: MESSAGE_BYTES}


# --- of topics ------------------------------------------------------------------------------------


def test_the_fullest_queue_of_a_topic_is_looked_at_once(
    broker: EmbeddedBroker, access: QueueAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(message_sizes, "monotonic", lambda: now)
    monkeypatch.setattr(message_sizes, "WORTH_A_SAMPLE", 41)
    for number in range(40):
        broker.send("T", bytes(50_000 if number % 2 else 10), tags="AB"[number % 2], queue=1)
    broker.send("T", b"x", queue=0)
    ranges = [QueueRange("T", "broker-a", 0, 0, 1), QueueRange("T", "broker-a", 1, 0, 40)]
    sizes = MessageSizes(access, options())
    assert sizes.of_topics(ranges[1:]) == {"T": UNKNOWN_BYTES}
    fixed = options(minPartitions="3", maxPartitions="3")
    assert MessageSizes(access, fixed).of_topics(ranges) == {}
    for _ in range(3):
        assert 20_000 < sizes.of_topics(ranges)["T"] < 30_000
    assert pulls(broker) == ["1"]
    now += FRESH_S
    sizes.of_topics([ranges[0], QueueRange("T", "broker-a", 1, 1, 41)])
    assert pulls(broker) == ["1", "1"]
    # What a filter leaves out is not pulled.
    filtered = MessageSizes(access, options(subExpression="A"))
    assert filtered.of_topics(ranges)["T"] < 1_000
    assert filtered.of_queues({QUEUES[1]: 0})[QUEUES[1]] < 1_000


def test_what_a_limit_has_learned_a_plan_does_not_ask_again(
    broker: EmbeddedBroker, access: QueueAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker)
    monkeypatch.setattr(message_sizes, "WORTH_A_SAMPLE", 1)
    sizes = MessageSizes(access, options())
    found = sizes.of_queues({QUEUES[2]: 7})
    assert sizes.of_topics([QueueRange("T", "broker-a", 2, 7, 40)]) == {"T": found[QUEUES[2]]}
    assert pulls(broker) == ["2"]


class Deaf:
    """A broker that refuses at once, or does not answer."""

    def __init__(self, *, is_silent: bool) -> None:
        self.is_silent = is_silent
        self.asked = 0

    def pull(self, *_given: Any, **_named: Any) -> Future[RawPull]:
        self.asked += 1
        if not self.is_silent:
            raise RemotingConnectException("away")
        return Future()


@pytest.mark.parametrize("is_silent", [True, False])
def test_without_an_answer_nothing_is_known_and_nobody_asks_again_at_once(
    is_silent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_sizes, "PATIENCE_S", 0.0)
    deaf = Deaf(is_silent=is_silent)
    sizes = MessageSizes(cast("QueueAccess", deaf), options())
    for _ in range(3):
        assert sizes.of_topics([QueueRange("T", "b", 0, 0, 1_000)]) == {}
    assert deaf.asked == 1
    assert sizes.of_queues({QUEUES[0]: 0}) == {QUEUES[0]: MESSAGE_BYTES}

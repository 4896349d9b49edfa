"""How large messages are is asked once for a topic, of its fullest queue, and never waited for."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, cast

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra spark)")

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import QueueAccess, RawPull, RemotingConnectException
from rocketmq_py.protocol.codes import RequestCode
from spark_connector.options.read_options import ReadOptions, read_options
from spark_connector.planning import message_sizes
from spark_connector.planning.message_sizes import FRESH_S, UNKNOWN_BYTES, MessageSizes
from spark_connector.planning.queue_ranges import QueueRange


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock()) as started:
        started.topics.create("T", queues=2)
        yield started


def options(**given: str) -> ReadOptions:
    return read_options({"nameServer": "h:1", "subscribe": "T"} | given, streaming=False)


def test_the_fullest_queue_of_a_topic_is_looked_at_once(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(message_sizes, "monotonic", lambda: now)
    monkeypatch.setattr(message_sizes, "WORTH_A_SAMPLE", 41)
    for number in range(40):
        broker.send("T", bytes(50_000 if number % 2 else 10), tags="AB"[number % 2], queue=1)
    broker.send("T", b"x", queue=0)
    ranges = [QueueRange("T", "broker-a", 0, 0, 1), QueueRange("T", "broker-a", 1, 0, 40)]
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
        access.read_queues("T")
        sizes = MessageSizes(access, options())
        assert sizes.of(ranges[1:]) == {"T": UNKNOWN_BYTES}
        fixed = options(minPartitions="3", maxPartitions="3")
        assert MessageSizes(access, fixed).of(ranges) == {}
        for _ in range(3):
            assert 20_000 < sizes.of(ranges)["T"] < 30_000
        pulls = broker.journal.requests(code=RequestCode.PULL_MESSAGE)
        assert [pull.fields["queueId"] for pull in pulls] == ["1"]
        now += FRESH_S
        sizes.of(ranges)
        assert len(broker.journal.requests(code=RequestCode.PULL_MESSAGE)) == 2
        # What a filter leaves out is not pulled.
        assert MessageSizes(access, options(subExpression="A")).of(ranges)["T"] < 1_000


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
        assert sizes.of([QueueRange("T", "b", 0, 0, 1_000)]) == {}
    assert deaf.asked == 1

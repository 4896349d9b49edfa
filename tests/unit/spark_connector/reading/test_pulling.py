"""How many messages are asked for at once follows what pulls bring."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from itertools import pairwise
from typing import cast

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import MessageQueue
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.message_codec import iter_records
from rocketmq_py.raw import QueueAccess, RawPull
from spark_connector.options.read_options import read_options
from spark_connector.planning.queue_ranges import QueueRange
from spark_connector.reading.pulling import RangePuller
from tests.unit.spark_connector.reading.one_by_one import OneByOne

CAP = 32
CAP_BYTES = 8192
LARGE = b"x" * 10_000
SMALL = b"x"


@pytest.fixture(params=[True, False], ids=["in process", "tcp"])
def broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    limits = {
        "maxTransferCountOnMessageInMemory": CAP,
        "maxTransferBytesOnMessageInMemory": CAP_BYTES,
    }
    with EmbeddedBroker(clock=VirtualClock(), config=limits, inproc=request.param) as started:
        started.topics.create("T", queues=1)
        yield started


def asked_for(broker: EmbeddedBroker, bodies: list[bytes], **given: str) -> list[int]:
    """Store messages, read them all, and return how many each pull asked for."""
    for body in bodies:
        broker.send("T", body)
    options = read_options({"nameServer": "h:1", "subscribe": "T"} | given, streaming=False)
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
        access.read_queues("T")
        wanted = QueueRange("T", "broker-a", 0, 0, len(bodies))
        pieces = list(RangePuller(access, options, wanted).pieces())
    assert [one.start for one in pieces] == [0, *(one.next_offset for one in pieces[:-1])]
    assert pieces[-1].next_offset == len(bodies)
    found = [one for piece in pieces for one in iter_records(piece.records)]
    assert [one.queue_offset for one in found] == list(range(len(bodies)))
    assert [one.body for one in found] == bodies
    pulls = broker.journal.requests(code=RequestCode.PULL_MESSAGE)
    return [int(one.fields["maxMsgNums"]) for one in pulls]


@pytest.mark.case("SP2")
def test_a_large_first_message_does_not_make_pulls_small_for_good(broker: EmbeddedBroker) -> None:
    asked = asked_for(broker, [LARGE] + [SMALL] * 1000)
    # The best would be 1 + 1000 / 32 pulls; growing from 1 to 32 takes some small ones.
    assert len(asked) < 32 + 40
    assert max(asked[1:]) >= CAP


@pytest.mark.case("SP2")
def test_with_a_steady_limit_no_pull_brings_less_than_it_could(broker: EmbeddedBroker) -> None:
    count = 40 * CAP
    asked = asked_for(broker, [SMALL] * count)
    assert len(asked) == count // CAP
    # Only the first one, and now and then one more, asks for what the broker does not give.
    assert sum(one > CAP for one in asked) <= 4


def test_a_large_message_in_the_middle_changes_little(broker: EmbeddedBroker) -> None:
    asked = asked_for(broker, ([SMALL] * 10 * CAP + [LARGE]) * 3)
    assert len(asked) <= 3 * (10 + 4)


def test_pulls_ask_for_less_when_messages_grow(broker: EmbeddedBroker) -> None:
    half = b"x" * (CAP_BYTES // 5)
    asked = asked_for(broker, [SMALL] * CAP + [half] * 400)
    # Four of them fit into one answer: what was in flight shows that, the next parts have four.
    assert set(asked[-40:]) <= {4, 8}


def test_pulls_never_ask_for_more_than_the_user_allows(broker: EmbeddedBroker) -> None:
    asked = asked_for(broker, [LARGE] + [SMALL] * 200, pullBatchSize="10")
    assert max(asked) == 10
    assert len(asked) < 20 + 20


class CappedBroker(OneByOne):
    """Gives few messages for each pull, whatever is asked, and counts the pulls."""

    def __init__(self) -> None:
        self.pulls = 0

    def pull(
        self, _queue: MessageQueue, offset: int, count: int, **_given: object
    ) -> Future[RawPull]:
        self.pulls += 1
        past = offset + min(count, CAP)
        answer: Future[RawPull] = Future()
        answer.set_result(RawPull(0, past, 0, 1 << 20, 0, b"x" * (past - offset)))
        return answer


@pytest.mark.parametrize(
    ("given", "most"),
    [
        ({}, 4 * 32),
        ({"pullBatchSize": "64"}, 4 * 2),
        ({"pullBatchSize": "65536"}, 4 * 32),
        ({"arrowBatchBytes": str(20 * CAP)}, 20),  # a message has one byte here
        ({"arrowBatchBytes": "1"}, 4),
    ],
)
def test_of_pulls_that_bring_little_more_are_in_flight_and_many_leave_together(
    given: dict[str, str], most: int
) -> None:
    options = read_options({"nameServer": "h:1", "subscribe": "T"} | given, streaming=False)
    broker = CappedBroker()
    wanted = QueueRange("T", "b", 0, 0, 1_000 * CAP)
    pieces = RangePuller(cast("QueueAccess", broker), options, wanted).pieces()
    ahead = [broker.pulls - number for number, _ in enumerate(pieces, 1)]
    assert max(ahead[:10]) < options.prefetch  # it is not known yet how little they bring
    assert max(ahead[30:]) == most - 1
    together = [after - before for before, after in pairwise(ahead[30:800]) if after > before]
    assert min(together) >= most // 2 - 1
    # The broker is at work while the caller is: half of them are under way at any time.
    assert min(ahead[30:800]) >= most // 2 - 1

"""Queues as their broker assigns them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.core.pop_calls import ALL_QUEUES, PopCalls
from rocketmq_py.consumer.core.pop_shares import ByBroker, EveryBroker
from rocketmq_py.consumer.core.shares import Mine, SharedByStrategy
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.errors import BodyError, MQBrokerException
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.pop import (
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueueAssignment,
)
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import (
    BROKER,
    GROUP,
    ME,
    FakeEngine,
    member_list,
    ok,
    queues_of,
    refusal,
)

QUEUES = queues_of("T", 2)
ANY = MessageQueue("T", BROKER, ALL_QUEUES)
ASSIGNMENT = RequestCode.QUERY_ASSIGNMENT


def assigning(mode: str, *queues: MessageQueue) -> Callable[[RemotingCommand], RemotingCommand]:
    given = [
        QueueAssignment(MessageQueueKey(queue.topic, queue.broker_name, queue.queue_id), mode, {})
        for queue in queues
    ]
    body = QueryAssignmentResponse(given).encode(standard=True)
    return lambda _: ok(body=body)


NOBODY = ok(body=QueryAssignmentResponse(None).encode(standard=True))


class Bench:
    def __init__(self, *, in_order: bool = False) -> None:
        self.engine = FakeEngine()
        self.engine.queues["T"] = QUEUES
        settings = PushConsumerConfig()
        self.share = ByBroker(
            engine=self.engine,
            group=GROUP,
            calls=PopCalls(self.engine, GROUP),
            settings=settings,
            by_strategy=SharedByStrategy(
                self.engine, ConsumerCalls(self.engine, GROUP, settings), GROUP, settings
            ),
            in_order=in_order,
        )

    def of(self, topic: str = "T") -> Mine | None:
        self.share.begin(monotonic() + 3)
        return self.share.of(topic, QUEUES)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_broker_assigns_what_is_popped(bench: Bench) -> None:
    bench.engine.answers[ASSIGNMENT] = assigning("POP", ANY)
    assert bench.of() == Mine([ANY], popped={ANY})
    assert bench.share.pops(ANY)
    (asked,) = bench.engine.called(ASSIGNMENT)
    assert QueryAssignmentRequest.decode(asked.body) == QueryAssignmentRequest(
        "T", GROUP, ME, "AVG", "CLUSTERING"
    )


def test_a_broker_assigns_what_is_pulled(bench: Bench) -> None:
    bench.engine.answers[ASSIGNMENT] = assigning("PULL", *reversed(QUEUES))
    assert bench.of() == Mine(list(QUEUES), popped=set())
    assert not bench.share.pops(QUEUES[0])


def test_queues_of_other_topics_are_not_taken(bench: Bench) -> None:
    bench.engine.answers[ASSIGNMENT] = assigning("POP", MessageQueue("U", BROKER, 0), ANY)
    mine = bench.of()
    assert mine is not None
    assert mine.queues == [ANY]


def test_what_a_member_has_stays_while_the_broker_does_not_know_it(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.engine.answers[ASSIGNMENT] = lambda _: NOBODY
    assert bench.of() == Mine([], listed=False)
    bench.engine.answers[ASSIGNMENT] = assigning("POP", ANY)
    bench.of()
    bench.engine.answers[ASSIGNMENT] = lambda _: NOBODY
    for _ in range(2):
        assert bench.of() == Mine([ANY], listed=False, popped={ANY})
        assert bench.share.pops(ANY)
    assert len([one for one in caplog.records if "lost" in one.message]) == 1


def test_a_broker_that_does_not_assign_leaves_the_topic_to_the_strategy(bench: Bench) -> None:
    code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    bench.engine.answers[ASSIGNMENT] = lambda _: refusal(code, "what is 400?")
    bench.engine.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = member_list(ME)
    for _ in range(2):
        assert bench.of() == Mine(list(QUEUES))
    assert len(bench.engine.called(ASSIGNMENT)) == 1
    bench.share.keep_only(set())
    bench.of()
    assert len(bench.engine.called(ASSIGNMENT)) == 2


def test_another_refusal_and_nonsense_change_nothing(bench: Bench) -> None:
    bench.engine.answers[ASSIGNMENT] = assigning("POP", ANY)
    bench.of()
    bench.engine.answers[ASSIGNMENT] = lambda _: refusal(ResponseCode.SYSTEM_BUSY, "later")
    with pytest.raises(MQBrokerException, match="later"):
        bench.of()
    bench.engine.answers[ASSIGNMENT] = assigning("PUSH", ANY)
    with pytest.raises(BodyError, match="PUSH"):
        bench.of()
    assert bench.share.pops(ANY)


def test_other_topics_are_forgotten(bench: Bench) -> None:
    bench.engine.answers[ASSIGNMENT] = assigning("POP", ANY)
    bench.of()
    bench.share.keep_only({"U"})
    assert not bench.share.pops(ANY)
    assert bench.share.waits() == {}


def test_in_order_all_queues_of_a_broker_are_popped_one_by_one() -> None:
    bench = Bench(in_order=True)
    elsewhere = MessageQueue("T", "broker-b", 0)
    bench.engine.answers[ASSIGNMENT] = assigning("POP", ANY)
    bench.share.begin(monotonic() + 3)
    assert bench.share.of("T", (elsewhere, *QUEUES)) == Mine([*QUEUES], popped=set(QUEUES))
    assert [bench.share.pops(one) for one in (*QUEUES, ANY, elsewhere)] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("mode", ["POP", "PULL"])
def test_in_order_a_part_of_the_queues_is_taken_as_it_is_assigned(mode: str) -> None:
    bench = Bench(in_order=True)
    bench.engine.answers[ASSIGNMENT] = assigning(mode, QUEUES[1])
    assert bench.of() == Mine([QUEUES[1]], popped={QUEUES[1]} if mode == "POP" else set())


def test_without_an_assignment_each_broker_is_popped_as_one_or_queue_by_queue_in_order() -> None:
    queues = (*QUEUES, MessageQueue("T", "another", 0))
    both = [ANY, MessageQueue("T", "another", ALL_QUEUES)]
    assert EveryBroker().of("T", queues) == Mine(sorted(both), popped=set(both))
    assert EveryBroker(in_order=True).of("T", queues) == Mine(sorted(queues), popped=set(queues))
    assert EveryBroker().pops(ANY)

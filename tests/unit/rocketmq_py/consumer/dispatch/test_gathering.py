from __future__ import annotations

from collections.abc import Callable

from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.dispatch.gathering import Gatherer
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import message

SIZE, WAIT_MS = 3, 1000


def lane(queue_id: int = 0) -> Lane:
    return Lane(MessageQueue("T", "broker-a", queue_id), 0, fetched_at=0.0)


class Bench:
    def __init__(self) -> None:
        self.timers: list[tuple[float, Callable[[], object]]] = []
        self.late: list[list[int]] = []
        self.gatherer = Gatherer(
            lambda delay_ms, task: self.timers.append((delay_ms, task)),
            lambda _, batch: self.late.append([one.queue_offset for one in batch]),
        )

    def take(self, to: Lane, *offsets: int, wait_ms: int = WAIT_MS) -> list[list[int]]:
        given = [message(offset) for offset in offsets]
        batches = self.gatherer.batches(to, given, SIZE, wait_ms)
        return [[one.queue_offset for one in batch] for batch in batches]


def test_without_a_wait_every_message_is_given_at_once() -> None:
    bench = Bench()
    assert bench.take(lane(), 0, 1, 2, 3, wait_ms=0) == [[0, 1, 2], [3]]
    assert (bench.timers, bench.gatherer.lanes) == ([], 0)


def test_a_batch_is_given_as_soon_as_it_is_full() -> None:
    bench, queue = Bench(), lane()
    assert bench.take(queue, 0) == []
    assert bench.take(queue, 1) == []
    assert bench.take(queue, 2, 3) == [[0, 1, 2]]
    assert bench.gatherer.lanes == 1
    assert bench.take(queue, 4, 5) == [[3, 4, 5]]
    assert bench.gatherer.lanes == 0


def test_a_rest_is_given_when_the_time_of_its_first_message_is_over() -> None:
    bench, queue, other = Bench(), lane(), lane(1)
    bench.take(queue, 0)
    bench.take(queue, 1)
    bench.take(other, 7)
    assert [delay_ms for delay_ms, _ in bench.timers] == [WAIT_MS, WAIT_MS]
    bench.timers[0][1]()
    assert (bench.late, bench.gatherer.lanes) == ([[0, 1]], 1)
    bench.timers[0][1]()
    assert bench.late == [[0, 1]]


def test_the_time_of_messages_that_were_given_counts_for_no_others() -> None:
    bench, queue = Bench(), lane()
    bench.take(queue, 0)
    assert bench.take(queue, 1, 2, 3) == [[0, 1, 2]]
    first, second = (task for _, task in bench.timers)
    first()
    assert bench.late == []
    second()
    assert bench.late == [[3]]


def test_a_wait_that_is_switched_off_lets_go_what_waits() -> None:
    bench, queue = Bench(), lane()
    bench.take(queue, 0)
    assert bench.take(queue, 1, wait_ms=0) == [[0, 1]]
    assert bench.gatherer.lanes == 0

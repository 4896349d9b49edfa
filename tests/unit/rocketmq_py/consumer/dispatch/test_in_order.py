"""Listener calls in order: what comes again, what waits for a COMMIT, and who has a lock when."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any, cast

import pytest

from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.core.broker_offsets import BrokerOffsets
from rocketmq_py.consumer.core.delivery import Delivery
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.core.locks import QueueLocks
from rocketmq_py.consumer.core.progress import OffsetProgress
from rocketmq_py.consumer.dispatch.in_order import LOOK_AGAIN_MS, TOLD_FROM, OrderlyDispatch
from rocketmq_py.consumer.dispatch.listener_calls import MINUTE_MS, NO_ROOM_WAIT_MS
from rocketmq_py.consumer.listener import (
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    MessageListenerOrderly,
    listening_of,
)
from rocketmq_py.consumer.listening import handler_of
from rocketmq_py.consumer.send_back import NoRetries, SendBack
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.errors import DeliveryEndedError, MQClientException, UnsupportedOperationError
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.sysflag import COMPRESSED
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import (
    ADDRESS,
    GROUP,
    FakeClock,
    FakeEngine,
    InlinePool,
    message,
    ok,
    queues_of,
)
from tests.waiting import until

QUEUE = MessageQueue("T", "broker-a", 0)
SUCCESS = ConsumeOrderlyStatus.SUCCESS
SUSPEND = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
COMMIT = ConsumeOrderlyStatus.COMMIT
ROLLBACK = ConsumeOrderlyStatus.ROLLBACK
GUARD_S = 60.0
SUSPEND_MS = 1_000
"""The default of suspend_current_queue_time_millis."""

Listen = Callable[[list[MessageExt], ConsumeOrderlyContext], Any]


class Locks(QueueLocks):
    """The locks that a broker gives: all but those of rivals."""

    def __init__(self) -> None:
        self.held: set[MessageQueue] = set()
        self.rivals: set[MessageQueue] = set()
        self.asked: list[list[MessageQueue]] = []
        self.given_back: list[MessageQueue] = []

    def is_held(self, queue: MessageQueue, now: float) -> bool:
        return queue in self.held

    def lock(self, queues: Iterable[MessageQueue]) -> frozenset[MessageQueue]:
        asked = list(queues)
        self.asked.append(asked)
        self.held = (self.held | set(asked)) - self.rivals
        return frozenset(self.held.intersection(asked))

    def renew(self, queues: Iterable[MessageQueue]) -> frozenset[MessageQueue]:
        return self.lock(queues)

    def doubt(self, address: str) -> bool:
        assert address == ADDRESS
        doubted, self.held = self.held, set()
        return bool(doubted)

    def unlock(self, queue: MessageQueue) -> None:
        self.held.discard(queue)
        self.given_back.append(queue)


def at_once(task: Callable[..., object], *args: object) -> bool:
    task(*args)
    return True


class Bench:
    def __init__(
        self,
        listener: Listen | Callable[[Delivery], object],
        *,
        broadcasting: bool = False,
        **settings: Any,  # Any: settings of the consumer, which checks them
    ) -> None:
        self.engine = FakeEngine()
        self.engine.submit_background = at_once  # type: ignore[method-assign] # settles for programs
        self.engine.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _: ok()
        self.config = PushConsumerConfig(**settings)
        calls = ConsumerCalls(self.engine, GROUP, self.config)
        self.offsets = BrokerOffsets(self.engine, calls)
        self.clock = FakeClock()
        self.locks = Locks()
        listening = listening_of(MessageListenerOrderly(cast("Any", listener)))
        suspend_ms = self.config.suspend_current_queue_time_millis
        retries = NoRetries(GROUP, "why") if broadcasting else SendBack(GROUP, calls, self.config)
        self.consumer = OrderlyDispatch(
            group=GROUP,
            engine=self.engine,
            settings=self.config,
            progress=OffsetProgress(self.offsets, retries, lambda _: 0),
            handler=handler_of(listening, GROUP, lambda: suspend_ms),
            clock=self.clock,
            locks=None if broadcasting else self.locks,
        )
        self.consumer.pool = InlinePool()
        self.lane = self.taken()

    def taken(self) -> Lane:
        assert list(self.consumer.may_take([QUEUE])) == [QUEUE]
        return Lane(QUEUE, 0, fetched_at=0.0)

    def receive(self, *messages: int | MessageExt) -> None:
        cached = [message(one) if isinstance(one, int) else one for one in messages]
        self.lane.put(cached)
        self.consumer.deliver(self.lane, cached)

    def give_back(self) -> None:
        self.lane.dropped = True
        self.consumer.given_back(self.lane)

    def buried(self) -> list[int]:
        """Offsets of what became a dead letter."""
        commands = self.engine.called(RequestCode.CONSUMER_SEND_MSG_BACK)
        assert {command.ext_fields["delayLevel"] for command in commands} <= {"-1"}
        return [int(command.ext_fields["offset"]) // 100 for command in commands]

    @property
    def committed(self) -> int:
        return self.offsets.in_memory(QUEUE)


class Seen:
    """A listener that notes offsets and attempts, and answers what the test has listed."""

    def __init__(self, *answers: Any, else_: Any = SUCCESS, commits: bool = True) -> None:
        self.calls: list[tuple[list[int], int]] = []
        self._answers = list(answers)
        self._else = else_
        self._commits = commits
        self.during: Callable[[], object] = lambda: None

    def __call__(self, messages: list[MessageExt], context: ConsumeOrderlyContext) -> Any:
        assert context.message_queue == QUEUE
        self.calls.append(([one.queue_offset for one in messages], messages[0].reconsume_times))
        context.auto_commit = self._commits
        self.during()
        answer = self._answers.pop(0) if self._answers else self._else
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Held:
    """A listener that keeps its deliveries."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []

    def __call__(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)

    @property
    def offsets(self) -> list[int]:
        return [one.message.queue_offset for one in self.deliveries]


def held_bench(**settings: Any) -> tuple[Held, Bench]:
    held = Held()

    def listen(delivery: Delivery) -> None:
        held(delivery)

    return held, Bench(listen, **settings)


# --- what comes again ---------------------------------------------------------------------------


def test_messages_come_in_order_in_batches_and_move_the_offset() -> None:
    seen = Seen()
    bench = Bench(seen, consume_message_batch_max_size=2)
    bench.receive(0, 1, 2)
    bench.receive(3)
    assert [offsets for offsets, _ in seen.calls] == [[0, 1], [2], [3]]
    assert bench.committed == 4
    assert bench.lane.count == 0


@pytest.mark.case("T77")
@pytest.mark.parametrize(
    "answer", [SUSPEND, None, "yes", LookupError("theirs"), SystemExit(3)], ids=str
)
def test_what_is_not_handled_comes_again_after_a_pause_and_nothing_behind_it_before(
    answer: object,
) -> None:
    seen = Seen(answer, answer)
    bench = Bench(seen)
    bench.receive(0, 1)
    assert seen.calls == [([0], 0)]
    assert bench.engine.run_scheduled() == [SUSPEND_MS]
    assert bench.engine.run_scheduled() == [SUSPEND_MS]
    assert seen.calls == [([0], 0), ([0], 1), ([0], 2), ([1], 0)]
    assert bench.committed == 2


@pytest.mark.parametrize(("asked", "waited"), [(1, 10), (250, 250), (99_999, 30_000)])
def test_a_listener_may_say_how_long_its_queue_waits(asked: int, waited: int) -> None:
    def listen(_messages: list[MessageExt], context: ConsumeOrderlyContext) -> Any:
        context.suspend_current_queue_time_millis = asked
        return SUSPEND

    bench = Bench(listen)
    bench.receive(0)
    assert bench.engine.run_scheduled() == [waited]


def test_after_its_last_attempt_a_message_is_a_dead_letter_and_the_next_one_comes_at_once() -> None:
    seen = Seen(SUSPEND, SUSPEND, SUSPEND)
    bench = Bench(seen, max_reconsume_times=2)
    bench.receive(0, 1)
    bench.engine.run_scheduled()
    bench.engine.run_scheduled()
    assert seen.calls == [([0], 0), ([0], 1), ([0], 2), ([1], 0)]
    assert bench.buried() == [0]
    assert bench.committed == 2


def test_a_message_that_no_broker_takes_as_a_dead_letter_keeps_its_place() -> None:
    seen = Seen(SUSPEND, SUSPEND)
    bench = Bench(seen, max_reconsume_times=0)
    del bench.engine.answers[RequestCode.CONSUMER_SEND_MSG_BACK]
    bench.receive(0, 1)
    assert seen.calls == [([0], 0)]
    assert bench.committed == 0
    bench.engine.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _: ok()
    assert bench.engine.run_scheduled() == [SUSPEND_MS]
    assert seen.calls == [([0], 0), ([0], 1), ([1], 0)]
    assert bench.committed == 2


def test_without_a_limit_a_message_comes_again_for_ever_and_the_log_names_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = Seen(else_=SUSPEND)
    bench = Bench(seen)
    bench.receive(0)
    for _ in range(TOLD_FROM + 3):
        bench.engine.run_scheduled()
    assert len(seen.calls) == TOLD_FROM + 4
    assert bench.buried() == []
    (told,) = [one.getMessage() for one in caplog.records if "waits" in one.getMessage()]
    assert "max_reconsume_times is -1" in told
    assert "ID0" in told


def test_a_turn_that_fails_is_taken_again(caplog: pytest.LogCaptureFixture) -> None:
    seen = Seen(SUSPEND)
    bench = Bench(seen, max_reconsume_times=0)

    def broken(_command: object) -> Any:
        raise ZeroDivisionError

    bench.engine.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = broken
    bench.receive(0)
    assert "a turn of" in caplog.text
    assert bench.engine.run_scheduled() == [LOOK_AGAIN_MS]
    assert seen.calls == [([0], 0), ([0], 0)]
    assert bench.committed == 1


# --- commit and rollback ------------------------------------------------------------------------


def test_without_auto_commit_success_waits_for_a_commit() -> None:
    seen = Seen(SUCCESS, SUCCESS, COMMIT, SUCCESS, commits=False)
    bench = Bench(seen)
    bench.receive(0, 1)
    assert bench.committed == -1
    assert bench.lane.count == 2
    bench.receive(2, 3)
    assert bench.committed == 3
    assert bench.lane.count == 1


def test_a_rollback_lets_all_since_the_last_commit_come_again_in_order() -> None:
    seen = Seen(COMMIT, SUCCESS, SUCCESS, ROLLBACK, SUCCESS, SUCCESS, COMMIT, commits=False)
    bench = Bench(seen)
    bench.receive(0, 1, 2, 3)
    assert bench.engine.run_scheduled() == [SUSPEND_MS]
    assert [offsets for offsets, _ in seen.calls] == [[0], [1], [2], [3], [1], [2], [3]]
    assert bench.committed == 4


@pytest.mark.parametrize("status", [COMMIT, ROLLBACK])
def test_with_auto_commit_commit_and_rollback_count_as_success_and_that_is_told(
    status: ConsumeOrderlyStatus, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(Seen(else_=status))
    bench.receive(0, 1)
    assert bench.committed == 2
    assert len([one for one in caplog.records if one.levelno == logging.WARNING]) == 1


# --- locks --------------------------------------------------------------------------------------


def test_a_queue_whose_lock_is_lost_waits_and_is_to_be_taken_afresh() -> None:
    seen = Seen()
    bench = Bench(seen)
    bench.locks.held.clear()
    bench.receive(0)
    assert seen.calls == []
    assert bench.engine.rebalances == 1
    assert not bench.consumer.keeps(bench.lane)
    assert bench.consumer.closed_gate(bench.lane) is not None
    bench.give_back()  # what the rebalance does
    assert bench.engine.run_scheduled() == [LOOK_AGAIN_MS]
    assert bench.engine.scheduled == []


def test_a_lock_that_was_lost_is_not_renewed_because_another_member_may_have_gone_on() -> None:
    bench = Bench(Seen())
    bench.locks.asked.clear()
    bench.consumer.renew_locks([bench.lane])
    assert bench.locks.asked == [[QUEUE]]
    assert bench.engine.rebalances == 0
    bench.locks.held.clear()
    bench.consumer.renew_locks([bench.lane])
    assert bench.locks.asked == [[QUEUE], []]
    assert bench.engine.rebalances == 1


def test_a_renewal_that_is_refused_asks_for_a_rebalance() -> None:
    bench = Bench(Seen())
    bench.locks.rivals.add(QUEUE)
    bench.consumer.renew_locks([bench.lane])
    assert bench.engine.rebalances == 1


def test_a_broker_whose_connection_has_ended_may_have_forgotten_the_lock() -> None:
    bench = Bench(Seen())
    bench.consumer.connection_lost(ADDRESS)
    assert not bench.consumer.keeps(bench.lane)
    bench.consumer.connection_lost(ADDRESS)  # of another queue, or none
    assert bench.engine.rebalances == 1


def test_queues_that_a_rival_has_are_not_taken() -> None:
    bench = Bench(Seen())
    other, rival = queues_of("T", 3)[1:]
    bench.locks.rivals.add(rival)
    assert list(bench.consumer.may_take([other, rival])) == [other]
    bench.consumer.not_taken(other)
    assert bench.locks.given_back == [other]


@pytest.mark.case("T78")
def test_a_queue_that_is_given_back_is_unlocked_when_its_listener_has_ended() -> None:
    seen = Seen()
    bench = Bench(seen)
    told: list[object] = []

    def during() -> None:
        bench.give_back()
        told.append(list(bench.locks.given_back))
        told.append(list(bench.consumer.may_take([QUEUE])))

    seen.during = during
    bench.receive(0, 1)
    assert told == [[], []]  # neither unlocked nor taken again while the listener runs
    assert bench.locks.given_back == [QUEUE]
    assert bench.engine.rebalances == 1  # it was wanted meanwhile
    assert bench.committed == -1  # whoever has the queue next gets the message again
    assert seen.calls == [([0], 0)]
    bench.taken()


def test_a_queue_without_a_running_listener_is_unlocked_at_once() -> None:
    bench = Bench(Seen(SUSPEND))
    bench.receive(0)
    bench.give_back()
    assert bench.locks.given_back == [QUEUE]
    bench.receive(1)
    bench.engine.run_scheduled()
    assert bench.engine.scheduled == []


# --- bodies -------------------------------------------------------------------------------------


def packed(offset: int, body: bytes) -> MessageExt:
    made = message(offset, body=body)
    made.sys_flag = COMPRESSED
    return made


def test_compressed_messages_come_alone() -> None:
    seen = Seen()
    bench = Bench(seen, consume_message_batch_max_size=10)
    bench.receive(0, 1, packed(2, zlib.compress(b"plain")), 3, 4)
    assert [offsets for offsets, _ in seen.calls] == [[0, 1], [2], [3, 4]]
    assert bench.lane.size == 0


def test_what_cannot_be_decompressed_is_not_overtaken_until_it_is_a_dead_letter() -> None:
    seen = Seen()
    bench = Bench(seen, max_reconsume_times=1)
    bench.receive(packed(0, b"no zlib"), 1)
    assert seen.calls == []
    assert bench.engine.run_scheduled() == [SUSPEND_MS]
    assert bench.buried() == [0]
    assert seen.calls == [([1], 0)]
    assert bench.committed == 2


def test_a_body_without_room_waits_and_that_is_no_attempt() -> None:
    seen = Seen()
    bench = Bench(seen, max_reconsume_times=0)
    with bench.consumer.calls.bodies.reserved(bench.config.decompressed_total_max_bytes):
        bench.receive(packed(0, zlib.compress(b"plain")), 1)
        assert bench.engine.run_scheduled() == [NO_ROOM_WAIT_MS]
        assert seen.calls == []
    assert bench.engine.run_scheduled() == [NO_ROOM_WAIT_MS]
    assert seen.calls == [([0], 0), ([1], 0)]
    assert bench.buried() == []


# --- what a program settles ---------------------------------------------------------------------


def test_a_delivery_lets_its_queue_go_on_when_it_is_settled() -> None:
    held, bench = held_bench()
    bench.receive(0, 1, 2)
    assert held.offsets == [0]
    held.deliveries[0].ack().result(0)
    assert held.offsets == [0, 1]
    assert bench.committed == 1
    held.deliveries[1].nack(timedelta(milliseconds=70)).result(0)
    assert held.offsets == [0, 1]
    assert bench.engine.run_scheduled() == [70]
    assert (held.offsets, held.deliveries[2].attempt) == ([0, 1, 1], 2)
    held.deliveries[2].dead().result(0)
    assert bench.buried() == [1]
    assert held.offsets == [0, 1, 1, 2]


def test_a_delivery_may_be_settled_inside_its_call() -> None:
    settled: list[int] = []

    def listen(delivery: Delivery) -> None:
        delivery.ack()
        settled.append(delivery.message.queue_offset)

    bench = Bench(listen)
    bench.receive(0, 1, 2)
    assert sorted(settled) == [0, 1, 2]
    assert bench.committed == 3


def test_a_listener_that_raises_has_not_handled_its_delivery() -> None:
    attempts: list[int] = []

    def listen(delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        if delivery.attempt == 1:
            raise LookupError("theirs")
        delivery.ack()

    bench = Bench(listen)
    bench.receive(0)
    assert bench.engine.run_scheduled() == [SUSPEND_MS]
    assert attempts == [1, 2]
    assert bench.committed == 1


def test_whoever_buries_a_message_learns_that_no_broker_took_it() -> None:
    held, bench = held_bench()
    del bench.engine.answers[RequestCode.CONSUMER_SEND_MSG_BACK]
    bench.receive(0, 1)
    failure = held.deliveries[0].dead().exception(0)
    assert isinstance(failure, MQClientException)
    assert bench.engine.run_scheduled() == [SUSPEND_MS]
    assert held.offsets == [0, 0]


def test_a_delivery_that_is_not_settled_is_taken_back_after_consume_timeout(
    caplog: pytest.LogCaptureFixture,
) -> None:
    held, bench = held_bench(consume_timeout=2)
    bench.receive(0, 1)
    bench.clock.now_ms += 2 * MINUTE_MS
    assert bench.consumer.sweep([bench.lane]) == 0
    bench.clock.now_ms += 1
    assert bench.consumer.sweep([bench.lane]) == 1
    assert "was not settled within 2 min" in caplog.text
    assert bench.engine.run_scheduled() == [SUSPEND_MS]
    assert (held.offsets, held.deliveries[1].attempt) == ([0, 0], 2)
    with pytest.raises(DeliveryEndedError, match="consume_timeout"):
        held.deliveries[0].ack()
    assert bench.committed == -1
    assert bench.consumer.sweep([bench.lane]) == 0
    held.deliveries[1].ack()
    assert held.offsets == [0, 0, 1]


def test_a_listener_that_returns_a_status_is_never_taken_back() -> None:
    seen = Seen()
    bench = Bench(seen, consume_timeout=1)
    swept: list[int] = []

    def during() -> None:
        bench.clock.now_ms += 10 * MINUTE_MS
        swept.append(bench.consumer.sweep([bench.lane]))

    seen.during = during
    bench.receive(0)
    assert swept == [0]
    assert bench.committed == 1


def test_a_queue_with_an_open_delivery_is_unlocked_when_the_program_settles_too_late() -> None:
    held, bench = held_bench()
    bench.receive(0, 1)
    bench.give_back()
    assert bench.locks.given_back == []
    assert list(bench.consumer.may_take([QUEUE])) == []
    with pytest.raises(DeliveryEndedError, match="does not have the queue"):
        held.deliveries[0].ack()
    assert bench.locks.given_back == [QUEUE]
    assert bench.committed == -1
    assert held.offsets == [0]
    bench.taken()


def test_a_queue_with_an_open_delivery_is_unlocked_after_consume_timeout_at_last() -> None:
    held, bench = held_bench(consume_timeout=1)
    bench.receive(0, 1)
    bench.give_back()
    bench.clock.now_ms += MINUTE_MS + 1
    assert bench.consumer.sweep([]) == 1
    assert bench.locks.given_back == [QUEUE]
    assert held.offsets == [0]


def test_in_broadcasting_messages_come_again_in_their_place_but_never_as_dead_letters() -> None:
    held, bench = held_bench(broadcasting=True)
    bench.receive(0, 1)
    with pytest.raises(UnsupportedOperationError):
        held.deliveries[0].dead()
    assert not held.deliveries[0].is_settled
    held.deliveries[0].nack()
    assert bench.engine.run_scheduled() == [SUSPEND_MS]
    held.deliveries[1].ack()
    assert held.offsets == [0, 0, 1]


def test_an_end_waits_for_what_the_program_has_decided_so_that_the_queue_is_unlocked() -> None:
    held, bench = held_bench()
    del bench.engine.submit_background  # what is settled waits until the test runs it
    bench.receive(0)
    settled = held.deliveries[0].ack()
    with ThreadPoolExecutor(1) as threads:
        closing = threads.submit(bench.consumer.close, GUARD_S)
        until(lambda: bench.consumer.calls.settling.is_waited_for, GUARD_S)
        assert not settled.done()
        bench.engine.tasks.pop()()
        assert closing.result(GUARD_S)
    bench.give_back()
    assert bench.locks.given_back == [QUEUE]
    assert bench.committed == 1


def test_settling_after_the_end_of_the_consumer_says_so() -> None:
    held, bench = held_bench()
    bench.receive(0)
    assert bench.consumer.close(0)
    bench.give_back()
    settled: Future[None] | None = None
    with pytest.raises(DeliveryEndedError):
        settled = held.deliveries[0].ack()
    assert settled is None


def test_a_new_message_does_not_shorten_the_pause_of_its_queue() -> None:
    seen = Seen(SUSPEND)
    bench = Bench(seen)
    bench.receive(0)
    bench.receive(1)
    assert seen.calls == [([0], 0)]


def test_an_end_does_not_wait_for_messages_whose_call_has_not_begun() -> None:
    seen = Seen()
    bench = Bench(seen)
    seen.during = lambda: bench.consumer.close(0)
    bench.receive(0, 1, 2)
    assert seen.calls == [([0], 0)]
    assert bench.committed == 1  # what was in its call is settled

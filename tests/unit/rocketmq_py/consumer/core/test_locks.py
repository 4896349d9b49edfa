"""Queue locks: what is asked, what an answer gives and takes, and what silence does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.core import locks
from rocketmq_py.consumer.core.locks import LOCK_RENEW_S, LOCK_TRUST_S, QueueLocks
from rocketmq_py.errors import RemotingConnectException
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.groups import LockBatchRequest, LockBatchResponse
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.send_result import MessageQueue
from tests.client_instances import started_instance
from tests.unit.rocketmq_py.consumer.fake_engine import (
    ADDRESS,
    BROKER,
    GROUP,
    ME,
    FakeEngine,
    ok,
    queues_of,
    refusal,
)
from tests.waiting import until

LOCK, UNLOCK = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ
FIRST, SECOND, THIRD = queues_of("T", 3)
ELSEWHERE = MessageQueue("T", "broker-b", 0)
GUARD_S = 60.0
OTHER_ADDRESS = "10.0.0.8:10911"


class Now:
    """The seconds that the module reads."""

    def __init__(self) -> None:
        self.s = 1_000.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    made = Now()
    monkeypatch.setattr(locks, "monotonic", made)
    return made


@pytest.fixture
def engine() -> FakeEngine:
    made = FakeEngine()
    made.addresses[ELSEWHERE.broker_name, 0] = OTHER_ADDRESS
    made.answers[UNLOCK] = lambda _: ok()
    lends(made, FIRST, SECOND, ELSEWHERE)
    return made


@pytest.fixture
def held(engine: FakeEngine, now: Now) -> QueueLocks:
    """Locks that hold the first queue."""
    made = QueueLocks(engine, GROUP)
    assert made.lock([FIRST]) == {FIRST}
    return made


def lends(engine: FakeEngine, *queues: MessageQueue) -> None:
    """Let brokers give these queues, whoever asks for what."""
    keys = [MessageQueueKey(one.topic, one.broker_name, one.queue_id) for one in queues]
    engine.answers[LOCK] = lambda _: ok(body=LockBatchResponse(keys).encode())


def asked(engine: FakeEngine, code: RequestCode) -> list[tuple[str, list[int]]]:
    return [
        (address, [queue.queue_id for queue in LockBatchRequest.decode(command.body).mq_set])
        for address, command in engine.calls
        if command.code == code
    ]


def test_each_broker_is_asked_once_for_all_of_its_queues(engine: FakeEngine, now: Now) -> None:
    got = QueueLocks(engine, GROUP).lock([FIRST, ELSEWHERE, SECOND, THIRD, FIRST])
    assert got == {FIRST, SECOND, ELSEWHERE}
    assert asked(engine, LOCK) == [(ADDRESS, [0, 1, 2]), (OTHER_ADDRESS, [0])]
    body = LockBatchRequest.decode(engine.called(LOCK)[0].body)
    assert (body.consumer_group, body.client_id, body.only_this_broker) == (GROUP, ME, False)
    assert body.mq_set[2] == MessageQueueKey("T", BROKER, 2)


def test_brokers_are_asked_before_any_of_them_has_answered(
    engine: FakeEngine, now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_calls: list[Future[RemotingCommand]] = []

    def begin(_: str, command: RemotingCommand, _ms: float) -> Future[RemotingCommand]:
        future: Future[RemotingCommand] = Future()
        open_calls.append(future)
        if len(open_calls) == 2:
            for one in open_calls:
                one.set_result(engine.answers[LOCK](command))
        return future

    monkeypatch.setattr(engine, "invoke_async", begin)
    assert QueueLocks(engine, GROUP).lock([FIRST, ELSEWHERE]) == {FIRST, ELSEWHERE}


def test_a_lock_counts_for_30_seconds_from_the_question_on(
    engine: FakeEngine, now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = now.s
    answer = engine.answers[LOCK]

    def slow(command: RemotingCommand) -> RemotingCommand:
        now.s += 4
        return answer(command)

    engine.answers[LOCK] = slow
    mine = QueueLocks(engine, GROUP)
    assert not mine.is_held(FIRST, now.s)
    mine.lock([FIRST])
    assert (mine.is_held(FIRST, begun + 29.9), mine.is_held(FIRST, begun + 30)) == (True, False)
    assert LOCK_RENEW_S < LOCK_TRUST_S


def test_a_renewal_counts_from_its_own_question_on(held: QueueLocks, now: Now) -> None:
    now.s += LOCK_RENEW_S
    held.lock([FIRST])
    assert held.is_held(FIRST, now.s + LOCK_TRUST_S - 1)


def test_a_queue_that_the_broker_lends_no_longer_is_lost_at_once(
    held: QueueLocks, engine: FakeEngine, now: Now, caplog: pytest.LogCaptureFixture
) -> None:
    lends(engine)
    assert held.lock([FIRST, THIRD]) == frozenset()
    assert not held.is_held(FIRST, now.s)
    (told,) = caplog.messages
    assert str(FIRST) in told
    assert str(THIRD) not in told


@pytest.mark.parametrize(
    "answer",
    [refusal(16, "not allowed"), ok(body=b"nonsense"), None],
    ids=["refused", "without sense", "no answer"],
)
def test_a_failed_question_takes_nothing_away_and_is_reported(
    held: QueueLocks,
    engine: FakeEngine,
    now: Now,
    caplog: pytest.LogCaptureFixture,
    answer: RemotingCommand | None,
) -> None:
    def failing(_: RemotingCommand) -> RemotingCommand:
        if answer is None:
            raise RemotingConnectException("nobody there", address=ADDRESS)
        return answer

    engine.answers[LOCK] = failing
    assert held.lock([FIRST, SECOND]) == frozenset()
    assert held.is_held(FIRST, now.s + LOCK_TRUST_S - 1)
    assert not held.is_held(SECOND, now.s)
    (told,) = caplog.messages
    assert f"locking {FIRST} and 1 more for group {GROUP}" in told
    # What was asked for may be lent all the same: it is given back with the rest.
    held.close(0)
    (command,) = engine.oneways
    assert [one.queue_id for one in LockBatchRequest.decode(command.body).mq_set] == [0, 1]


def test_a_broker_without_a_master_is_not_asked_and_the_others_are(
    engine: FakeEngine,
    now: Now,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del engine.addresses[BROKER, 0]
    slave = "10.0.0.7:10911"
    engine.addresses[BROKER, 1] = slave
    known = engine.broker_address

    def address(name: str, *, broker_id: int = 0, only_this: bool = False) -> str | None:
        return known(name, broker_id=broker_id) or (None if only_this else slave)

    def at_once(task: Callable[..., object], *args: object) -> bool:
        task(*args)
        return True

    monkeypatch.setattr(engine, "broker_address", address)
    monkeypatch.setattr(engine, "submit_background", at_once)  # where the route is asked for
    mine = QueueLocks(engine, GROUP)
    assert mine.lock([FIRST, ELSEWHERE]) == {ELSEWHERE}
    assert asked(engine, LOCK) == [(OTHER_ADDRESS, [0])]
    assert BROKER in caplog.text
    mine.close(0)
    assert [LockBatchRequest.decode(one.body).mq_set[0].broker_name for one in engine.oneways] == [
        "broker-b"
    ]


def test_a_broker_that_answers_again_is_told(
    held: QueueLocks, engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.unreachable.failed(ADDRESS, "a heartbeat", RemotingConnectException(ADDRESS))
    held.lock([FIRST])
    assert "answers again" in caplog.messages[-1]


def test_a_queue_is_held_no_longer_when_it_is_given_back(
    held: QueueLocks, engine: FakeEngine, now: Now
) -> None:
    held.unlock(FIRST)
    assert not held.is_held(FIRST, now.s)
    (command,) = engine.oneways
    assert LockBatchRequest.decode(command.body).mq_set == [MessageQueueKey("T", BROKER, 0)]
    held.unlock(FIRST)  # nobody has it from us any more
    held.close(0)
    assert len(engine.oneways) == 1


def test_nothing_is_raised_when_nobody_hears_that_a_queue_is_given_back(
    held: QueueLocks, engine: FakeEngine, now: Now, caplog: pytest.LogCaptureFixture
) -> None:
    engine.addresses.clear()
    held.unlock(FIRST)
    assert not held.is_held(FIRST, now.s)
    assert f"unlocking {FIRST}" in caplog.text


def test_a_queue_given_back_while_it_is_asked_for_is_given_back_again(
    engine: FakeEngine, now: Now
) -> None:
    mine = QueueLocks(engine, GROUP)
    answer = engine.answers[LOCK]

    def given_back_meanwhile(command: RemotingCommand) -> RemotingCommand:
        mine.unlock(FIRST)
        return answer(command)

    engine.answers[LOCK] = given_back_meanwhile
    assert mine.lock([FIRST, SECOND]) == {SECOND}
    assert not mine.is_held(FIRST, now.s)
    assert len(engine.oneways) == 2  # the broker may have heard the first before the question


def test_a_queue_asked_for_again_meanwhile_is_left_to_the_later_question(
    engine: FakeEngine, now: Now
) -> None:
    mine = QueueLocks(engine, GROUP)
    answer = engine.answers[LOCK]

    def asked_again_meanwhile(command: RemotingCommand) -> RemotingCommand:
        engine.answers[LOCK] = answer
        mine.unlock(FIRST)
        assert mine.lock([FIRST]) == {FIRST}
        return answer(command)

    engine.answers[LOCK] = asked_again_meanwhile
    assert mine.lock([FIRST]) == frozenset()
    assert mine.is_held(FIRST, now.s)
    assert len(engine.oneways) == 1


def test_an_end_waits_for_the_question_that_is_under_way_and_gives_back_what_it_brings(
    engine: FakeEngine, now: Now
) -> None:
    mine = QueueLocks(engine, GROUP)
    answer, is_asked, may_answer = engine.answers[LOCK], threading.Event(), threading.Event()

    def answer_late(command: RemotingCommand) -> RemotingCommand:
        is_asked.set()
        may_answer.wait(GUARD_S)
        return answer(command)

    engine.answers[LOCK] = answer_late
    with ThreadPoolExecutor(2) as threads:
        locking = threads.submit(mine.lock, [FIRST])
        is_asked.wait(GUARD_S)
        closing = threads.submit(mine.close, GUARD_S)
        until(lambda: mine._asked.is_waited_for, GUARD_S)
        assert engine.oneways == []
        may_answer.set()
        locking.result(GUARD_S)
        closing.result(GUARD_S)
    (command,) = engine.oneways
    assert LockBatchRequest.decode(command.body).mq_set == [MessageQueueKey("T", BROKER, 0)]


def test_after_the_end_no_broker_is_asked_for_a_queue(engine: FakeEngine, now: Now) -> None:
    mine = QueueLocks(engine, GROUP)
    mine.close(0)
    assert mine.lock([FIRST]) == frozenset()
    assert engine.calls == []


# --- on a broker -----------------------------------------------------------------------------


@pytest.fixture
def session() -> VirtualClock:
    """The time of leases."""
    return VirtualClock()


@pytest.fixture
def broker(session: VirtualClock) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=["T"], session_clock=session) as made:
        yield made


@contextmanager
def member(broker: EmbeddedBroker, name: str) -> Iterator[tuple[QueueLocks, ClientInstance]]:
    with started_instance(broker.namesrv_addr, instance_name=name) as instance:
        instance.routes.update("T")
        yield QueueLocks(instance, GROUP), instance


@pytest.mark.case("W83")
@pytest.mark.case("W84")
def test_a_broker_lends_a_queue_to_one_member_until_it_is_given_back_or_60_seconds_are_over(
    broker: EmbeddedBroker, session: VirtualClock
) -> None:
    with member(broker, "one") as (one, instance), member(broker, "two") as (two, _):
        queues = instance.routes.subscribe_queues("T")
        assert queues is not None
        first, second = queues[:2]
        queues = (first, second)
        assert one.lock([first]) == {first}
        assert two.lock(queues) == {second}
        assert not two.is_held(first, monotonic())
        two.unlock(first)  # not its own
        assert one.lock([first]) == {first}
        one.unlock(first)
        until(lambda: two.lock(queues) == set(queues), GUARD_S)
        assert one.lock(queues) == frozenset()
        session.advance(60)
        assert one.lock(queues) == set(queues)


def test_a_lock_that_is_doubted_is_not_held_until_the_broker_was_asked_anew(
    engine: FakeEngine, now: Now
) -> None:
    locks_ = QueueLocks(engine, GROUP)
    engine.answers[LOCK] = lambda command: ok(
        body=LockBatchResponse(LockBatchRequest.decode(command.body).mq_set).encode()
    )
    locks_.lock([FIRST, ELSEWHERE])
    assert locks_.doubt(ADDRESS)
    assert not locks_.doubt("10.0.0.7:9876")
    assert [locks_.is_held(one, now.s) for one in (FIRST, ELSEWHERE)] == [False, True]
    assert locks_.lock([FIRST]) == {FIRST}
    assert locks_.is_held(FIRST, now.s)


def test_an_answer_to_a_question_from_before_the_doubt_does_not_count(
    engine: FakeEngine, now: Now
) -> None:
    locks_ = QueueLocks(engine, GROUP)

    def answer(command: RemotingCommand) -> RemotingCommand:
        locks_.doubt(ADDRESS)
        return ok(body=LockBatchResponse(LockBatchRequest.decode(command.body).mq_set).encode())

    engine.answers[LOCK] = answer
    assert locks_.lock([FIRST]) == frozenset()
    assert not locks_.is_held(FIRST, now.s)
    engine.answers[UNLOCK] = lambda _: ok()
    locks_.unlock(FIRST)  # the broker may have given it
    assert [RequestCode(one.code) for one in engine.oneways] == [UNLOCK]


def test_a_queue_that_was_given_back_is_not_renewed(engine: FakeEngine, now: Now) -> None:
    locks_ = QueueLocks(engine, GROUP)
    engine.answers[LOCK] = lambda command: ok(
        body=LockBatchResponse(LockBatchRequest.decode(command.body).mq_set).encode()
    )
    locks_.lock([FIRST, SECOND])
    locks_.unlock(FIRST)
    now.s += LOCK_RENEW_S
    assert locks_.renew([FIRST, SECOND, THIRD]) == {SECOND}
    assert not locks_.is_held(FIRST, now.s)
    asked = LockBatchRequest.decode(engine.called(LOCK)[-1].body).mq_set
    assert [one.queue_id for one in asked] == [SECOND.queue_id]


def test_a_queue_that_needs_no_lock_is_held_and_its_broker_not_asked(
    engine: FakeEngine, now: Now
) -> None:
    mine = QueueLocks(engine, GROUP, needs_none={SECOND, THIRD}.__contains__)
    lends(engine, FIRST)
    assert mine.lock([FIRST, SECOND, THIRD]) == {FIRST, SECOND, THIRD}
    (question,) = engine.called(LOCK)
    assert LockBatchRequest.decode(question.body).mq_set == [MessageQueueKey("T", BROKER, 0)]
    now.s += LOCK_TRUST_S
    assert [mine.is_held(one, now.s) for one in (FIRST, SECOND)] == [False, True]
    mine.unlock(SECOND)
    assert engine.oneways == []


def test_a_popped_queue_that_is_doubted_is_not_held_until_it_is_taken_anew(
    engine: FakeEngine, now: Now
) -> None:
    mine = QueueLocks(engine, GROUP, needs_none={FIRST, SECOND}.__contains__)
    assert mine.lock([FIRST]) == {FIRST}
    assert not mine.is_held(SECOND, now.s)
    assert mine.doubt(ADDRESS)
    assert mine.renew([FIRST]) == frozenset()
    assert not mine.is_held(FIRST, now.s)
    assert mine.lock([FIRST]) == {FIRST}
    assert mine.is_held(FIRST, now.s)
    mine.close(0)
    assert (engine.calls, engine.oneways) == ([], [])

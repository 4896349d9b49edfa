"""The queue of a trace: what becomes one message and when, and what is lost in trouble."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from itertools import chain
from typing import cast

import pytest

from rocketmq_py.client.background import TimerHandle, WorkerPool
from rocketmq_py.errors import RemotingTimeoutException
from rocketmq_py.trace import dispatcher as under_test
from rocketmq_py.trace.dispatcher import (
    BATCH_MAX,
    BYTES_MAX,
    KEYS_MAX,
    QUEUE_MAX,
    WAIT_MS,
    Dispatcher,
)
from rocketmq_py.trace.records import SubBefore, read_records
from tests.waiting import until


def record(number: int, *keys: str) -> SubBefore:
    return SubBefore(
        timestamp=number,
        region="R",
        group="G",
        request_id="q",
        msg_id=f"ID{number}",
        retry_times=0,
        keys=keys,
    )


class Broker:
    """An outlet that keeps what it is sent; ``problem`` is what it raises instead."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, list[str], bytes]] = []
        self.problem: Exception | None = None
        self.stopped = threading.Event()
        self.entered = threading.Event()
        self.is_silent = False

    def send(self, topic: str, keys: Sequence[str], body: bytes) -> None:
        self.entered.set()
        if self.is_silent:
            self.stopped.wait()
        if self.stopped.is_set() or self.problem is not None:
            raise self.problem or RemotingTimeoutException("no answer")
        self.sent.append((topic, list(keys), body))

    def stop(self) -> None:
        self.stopped.set()

    @property
    def numbers(self) -> list[list[str]]:
        """The ids in each message."""
        return [[one.msg_id for one in read_records(body)] for _, _, body in self.sent]

    @property
    def all_numbers(self) -> list[str]:
        """The ids in all messages."""
        return list(chain.from_iterable(self.numbers))


class Inline:
    """A worker that works at once, or when it is let go."""

    def __init__(self) -> None:
        self.waits = False
        self.tasks: list[Callable[..., object]] = []
        self.is_closed = False

    def submit(self, task: Callable[..., object], *args: object) -> bool:
        assert not args
        if self.is_closed:
            return False
        self.tasks.append(task)
        if not self.waits:
            self.go()
        return True

    def go(self) -> None:
        while self.tasks:
            self.tasks.pop(0)()

    def close(self, timeout: float, *, drop: bool = False) -> bool:
        del timeout
        assert drop
        self.is_closed = True
        return True


class Handle:
    def __init__(self, task: Callable[[], object]) -> None:
        self.task = task
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Bench:
    """A dispatcher whose time, thread and broker are the test's."""

    def __init__(self) -> None:
        self.broker, self.worker = Broker(), Inline()
        self.waits: list[float] = []
        self.timers: list[Handle] = []
        self.trace = Dispatcher("trace of G", self.broker, self.worker, self.after)

    def after(self, delay_ms: float, task: Callable[[], object]) -> TimerHandle:
        self.waits.append(delay_ms)
        self.timers.append(Handle(task))
        return cast("TimerHandle", self.timers[-1])

    def put(self, numbers: range, topic: str = "traces") -> None:
        for number in numbers:
            self.trace.put(topic, [record(number)])

    def time_passes(self) -> None:
        timers, self.timers = self.timers, []
        for timer in timers:
            assert not timer.is_cancelled
            timer.task()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def ids(numbers: range) -> list[str]:
    return [f"ID{number}" for number in numbers]


def test_twenty_records_leave_together_at_once(bench: Bench) -> None:
    bench.put(range(BATCH_MAX - 1))
    assert bench.broker.sent == []
    bench.put(range(BATCH_MAX - 1, BATCH_MAX))
    assert bench.broker.numbers == [ids(range(BATCH_MAX))]


def test_fewer_leave_when_the_first_has_waited_for_five_seconds(bench: Bench) -> None:
    bench.put(range(3))
    assert (bench.waits, bench.broker.sent) == ([WAIT_MS], [])
    bench.time_passes()
    assert bench.broker.numbers == [ids(range(3))]
    bench.put(range(3, 4))
    assert bench.waits == [WAIT_MS, WAIT_MS]


def test_what_is_left_of_a_full_message_waits_for_its_own_time(bench: Bench) -> None:
    bench.trace.put("traces", [record(number) for number in range(BATCH_MAX + 5)])
    assert bench.broker.numbers == [ids(range(BATCH_MAX))]
    assert bench.waits == [WAIT_MS]
    bench.time_passes()
    assert bench.broker.numbers[1] == ids(range(BATCH_MAX, BATCH_MAX + 5))


def test_the_keys_of_a_message_are_the_ids_and_keys_in_it_each_once(bench: Bench) -> None:
    bench.trace.put("traces", [record(1, "a", "b"), record(1, "a"), record(2, "ID1")])
    bench.time_passes()
    ((topic, keys, _),) = bench.broker.sent
    assert (topic, keys) == ("traces", ["ID1", "a", "b", "ID2"])


def test_records_for_different_topics_do_not_share_a_message(bench: Bench) -> None:
    bench.put(range(2), "one")
    bench.put(range(2, 3), "two")
    bench.put(range(3, 4), "one")
    bench.time_passes()
    assert [topic for topic, _, _ in bench.broker.sent] == ["one", "two", "one"]
    assert bench.broker.numbers == [ids(range(2)), ["ID2"], ["ID3"]]


@pytest.mark.parametrize("letter", ["k", "\u00e4", "\u20ac"])
def test_no_message_is_larger_than_a_broker_takes_and_no_record_is_left_out(
    bench: Bench, letter: str
) -> None:
    keys = [f"{number:03}{letter * 3_000}" for number in range(BATCH_MAX)]
    bench.trace.put("traces", [record(number, key) for number, key in enumerate(keys)])
    bench.time_passes()
    assert bench.broker.all_numbers == ids(range(BATCH_MAX))
    assert len(bench.broker.sent) > 1
    for _, found, body in bench.broker.sent:
        assert len(body) <= BYTES_MAX
        assert len(" ".join(found).encode()) <= KEYS_MAX
    assert [key for _, found, _ in bench.broker.sent for key in found[1::2]] == keys


def test_records_that_share_a_long_key_share_messages_only_up_to_their_size(bench: Bench) -> None:
    bench.trace.put("traces", [record(number, "k" * 20_000) for number in range(BATCH_MAX)])
    bench.time_passes()
    assert [len(each) for each in bench.broker.numbers] == [6, 6, 6, 2]
    assert bench.broker.all_numbers == ids(range(BATCH_MAX))
    assert all(len(body) <= BYTES_MAX for _, _, body in bench.broker.sent)


def test_a_message_with_more_keys_than_fit_is_still_found_by_its_id(bench: Bench) -> None:
    bench.trace.put("traces", [record(1, "a" * KEYS_MAX, "b")])
    bench.time_passes()
    ((_, keys, body),) = bench.broker.sent
    assert keys == ["ID1", "b"]
    assert read_records(body) == [record(1, "a" * KEYS_MAX, "b")]


def test_a_full_queue_drops_what_comes_and_says_how_many(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.worker.waits = True
    bench.put(range(QUEUE_MAX - 1))
    bench.trace.put("traces", [record(number) for number in range(QUEUE_MAX - 1, QUEUE_MAX + 4)])
    assert caplog.text == ""  # nothing of the application runs where a message is sent
    bench.worker.waits = False
    bench.worker.go()
    bench.trace.close(1)
    assert bench.broker.all_numbers == ids(range(QUEUE_MAX))
    (told,) = caplog.records
    assert "trace of G: 4 trace records are lost, the last because 2048 wait" in told.message


def test_what_no_broker_takes_is_lost_and_told_once_a_minute(
    bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(under_test, "monotonic", lambda: now[0])
    bench.broker.problem = RemotingTimeoutException("no answer from b")
    bench.put(range(3 * BATCH_MAX))
    now[0] += 59
    bench.put(range(BATCH_MAX))
    assert [one.levelno for one in caplog.records] == [logging.WARNING]
    assert "20 trace records are lost, the last because no broker took them" in caplog.text
    now[0] += 2
    bench.put(range(BATCH_MAX))
    assert "80 trace records are lost" in caplog.records[1].message
    bench.broker.problem = None
    bench.put(range(BATCH_MAX))
    assert bench.broker.numbers == [ids(range(BATCH_MAX))]


def test_each_lost_record_is_counted_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.broker.problem = RemotingTimeoutException("no answer from b")
    bench.put(range(2), "one")
    bench.put(range(2, 3), "two")
    bench.time_passes()
    bench.trace.close(1)
    assert [one.message.split()[3] for one in caplog.records] == ["2", "1"]


def test_a_record_that_cannot_be_written_does_not_end_the_trace(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.trace.put("traces", [record(1, None)])  # type: ignore[arg-type] # the mistake
    bench.time_passes()
    assert "1 trace records are lost" in caplog.text
    bench.put(range(BATCH_MAX))
    assert bench.broker.numbers == [ids(range(BATCH_MAX))]


def test_the_end_sends_the_rest_and_takes_nothing_more(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put(range(3))
    bench.trace.close(1)
    assert bench.broker.numbers == [ids(range(3))]
    assert bench.timers[0].is_cancelled
    assert (bench.broker.stopped.is_set(), bench.worker.is_closed) == (True, True)
    bench.put(range(3, 3 + BATCH_MAX))
    bench.trace.close(1)
    assert len(bench.broker.sent) == 1
    assert caplog.text == ""


def test_an_end_with_a_silent_broker_tells_what_it_loses_and_leaves_no_thread(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "CLOSE_S", 0.0)
    broker, before = Broker(), set(threading.enumerate())
    broker.is_silent = True
    pool = WorkerPool("rocketmq-trace", 1)
    trace = Dispatcher("trace of G", broker, pool, Bench().after)
    for number in range(BATCH_MAX + 7):
        trace.put("traces", [record(number)])  # the last ones while the worker waits
    assert broker.entered.wait(10)
    trace.close(60)
    until(lambda: set(threading.enumerate()) <= before)
    lost = sum(int(one.message.split()[3]) for one in caplog.records)
    assert lost == BATCH_MAX + 7


def test_threads_that_put_at_the_same_time_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "CLOSE_S", 60.0)
    broker = Broker()
    trace = Dispatcher("trace of G", broker, WorkerPool("rocketmq-trace", 1), Bench().after)

    def write(numbers: range) -> None:
        for number in numbers:
            trace.put("t", [record(number)])

    parts = [range(at, at + 200) for at in range(0, 1_000, 200)]
    writers = [threading.Thread(target=write, args=(part,)) for part in parts]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    trace.close(60)
    assert sorted(broker.all_numbers, key=lambda one: int(one[2:])) == ids(range(1_000))

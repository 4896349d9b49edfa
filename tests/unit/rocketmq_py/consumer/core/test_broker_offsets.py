from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest

from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.core.broker_offsets import BrokerOffsets
from rocketmq_py.consumer.core.start_offset import first_offset
from rocketmq_py.consumer.listener import ConsumeFromWhere
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.errors import MQBrokerException, MQClientException, RemotingException
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import (
    ADDRESS,
    GROUP,
    FakeClock,
    FakeEngine,
    ok,
    refusal,
)

QUEUE = MessageQueue("T", "broker-a", 0)
RETRY = MessageQueue(f"%RETRY%{GROUP}", "broker-a", 0)
LAST = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
TIMESTAMP = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP


class Bench:
    def __init__(self, where: ConsumeFromWhere = LAST, timestamp: str | datetime = "") -> None:
        self.engine = FakeEngine()
        self.config = PushConsumerConfig(consume_from_where=where, consume_timestamp=timestamp)
        self.calls = ConsumerCalls(self.engine, GROUP, self.config)
        self.store = BrokerOffsets(self.engine, self.calls)
        self.clock = FakeClock()

    def stored(self, offset: int | None) -> None:
        answer = (
            refusal(ResponseCode.QUERY_NOT_FOUND) if offset is None else ok({"offset": str(offset)})
        )
        self.engine.answers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda _: answer

    def answers(self, code: RequestCode, offset: int) -> None:
        self.engine.answers[code] = lambda _: ok({"offset": str(offset)})

    def first(self, queue: MessageQueue = QUEUE) -> int:
        return first_offset(
            queue, offsets=self.store, calls=self.calls, settings=self.config, clock=self.clock
        )


@pytest.mark.case("T68")
@pytest.mark.parametrize("where", list(ConsumeFromWhere))
def test_a_stored_offset_always_wins(where: ConsumeFromWhere) -> None:
    bench = Bench(where)
    bench.stored(17)
    assert bench.first() == 17
    assert bench.store.in_memory(QUEUE) == 17


@pytest.mark.case("T68")
@pytest.mark.parametrize(
    ("where", "queue", "expected"),
    [
        (LAST, QUEUE, 40),
        (ConsumeFromWhere.CONSUME_FROM_MIN_OFFSET, QUEUE, 40),
        (ConsumeFromWhere.CONSUME_FROM_MAX_OFFSET, QUEUE, 40),
        (FIRST, QUEUE, 0),
        (TIMESTAMP, QUEUE, 7),
        (LAST, RETRY, 0),
        (FIRST, RETRY, 0),
        (TIMESTAMP, RETRY, 40),
    ],
)
def test_a_group_without_a_stored_offset_begins_where_it_says(
    where: ConsumeFromWhere, queue: MessageQueue, expected: int
) -> None:
    bench = Bench(where)
    bench.stored(None)
    bench.answers(RequestCode.GET_MAX_OFFSET, 40)
    bench.answers(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, 7)
    assert bench.first(queue) == expected


@pytest.mark.parametrize(
    ("timestamp", "asked"),
    [
        ("", 1_700_000_000_000 - 30 * 60 * 1000),
        (datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), 1_704_164_645_000),
    ],
)
def test_the_timestamp_is_half_an_hour_ago_unless_it_is_set(
    timestamp: str | datetime, asked: int
) -> None:
    bench = Bench(TIMESTAMP, timestamp)
    bench.stored(None)
    bench.answers(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, 0)
    bench.first()
    (search,) = bench.engine.called(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
    assert search.ext_fields["timestamp"] == str(asked)


def test_a_timestamp_text_is_local_time() -> None:
    local = datetime(2024, 1, 2, 3, 4, 5).astimezone()
    bench = Bench(TIMESTAMP, "20240102030405")
    bench.stored(None)
    bench.answers(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, 0)
    bench.first()
    (search,) = bench.engine.called(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
    assert search.ext_fields["timestamp"] == str(int(local.timestamp() * 1000))


def test_a_broker_that_does_not_answer_gives_no_offset_rather_than_a_wrong_one() -> None:
    bench = Bench()
    with pytest.raises(RemotingException):
        bench.first()
    bench.engine.answers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda _: refusal(1, "broken")
    with pytest.raises(MQBrokerException, match="broken"):
        bench.first()
    bench.stored(None)
    bench.answers(RequestCode.GET_MAX_OFFSET, -1)
    with pytest.raises(MQClientException, match="-1"):
        bench.first()


def test_an_offset_only_increases_unless_it_is_forced() -> None:
    store = Bench().store
    store.update(QUEUE, 5)
    store.update(QUEUE, 3)
    assert store.in_memory(QUEUE) == 5
    store.update(QUEUE, 3, increase_only=False)
    assert store.in_memory(QUEUE) == 3


def test_a_frozen_offset_does_not_move_until_it_is_removed() -> None:
    store = Bench().store
    store.update(QUEUE, 5)
    store.freeze(QUEUE, 2)
    store.update(QUEUE, 9)
    assert store.in_memory(QUEUE) == 2
    store.remove(QUEUE)
    assert store.in_memory(QUEUE) == -1
    store.update(QUEUE, 9)
    assert store.in_memory(QUEUE) == 9


def test_saving_all_writes_the_own_queues_and_forgets_the_others() -> None:
    bench = Bench()
    bench.store.update(QUEUE, 5)
    bench.store.update(RETRY, 6)
    bench.store.persist_all([QUEUE])
    assert bench.engine.stored_offsets() == [("T", 0, 5)]
    assert bench.store.in_memory(RETRY) == -1


def test_a_failed_write_is_repaired_by_the_next_one() -> None:
    bench = Bench()
    bench.store.update(QUEUE, 5)
    bench.engine.addresses.clear()
    bench.store.persist(QUEUE)
    bench.engine.addresses["broker-a", 0] = ADDRESS
    bench.store.persist(QUEUE)
    assert bench.engine.stored_offsets() == [("T", 0, 5)]


def test_writes_of_empty_caches_are_at_least_50_ms_apart() -> None:
    bench = Bench()
    bench.store.update(QUEUE, 5)
    bench.store.persist_soon(QUEUE)
    assert bench.engine.stored_offsets() == [("T", 0, 5)]
    bench.store.update(QUEUE, 6)
    bench.store.persist_soon(QUEUE)
    bench.store.update(QUEUE, 7)
    bench.store.persist_soon(QUEUE)
    assert len(bench.engine.oneways) == 1
    assert bench.store.unwritten == 1
    (delay,) = bench.engine.run_scheduled()
    assert 0 < delay <= 51
    assert bench.engine.stored_offsets() == [("T", 0, 5), ("T", 0, 7)]
    assert bench.store.unwritten == 0


def test_a_queue_that_runs_empty_again_while_it_is_written_is_written_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    store, calls = bench.store, bench.store._calls
    write = calls.store_offset

    def write_and_go_on(queue: MessageQueue, offset: int) -> None:
        write(queue, offset)
        if offset == 5:
            store.update(QUEUE, 6)
            store.persist_soon(QUEUE)

    monkeypatch.setattr(calls, "store_offset", write_and_go_on)
    store.update(QUEUE, 5)
    store.persist_soon(QUEUE)
    assert store.unwritten == 1
    bench.engine.run_scheduled()
    assert bench.engine.stored_offsets() == [("T", 0, 5), ("T", 0, 6)]
    assert store.unwritten == 0


def test_an_offset_that_is_written_already_is_not_written_again() -> None:
    bench = Bench()
    bench.store.update(QUEUE, 5)
    bench.store.persist(QUEUE)
    bench.store.persist_soon(QUEUE)
    bench.engine.run_scheduled()
    assert len(bench.engine.oneways) == 1


def test_while_an_offset_rides_along_with_a_pull_no_larger_one_is_written() -> None:
    bench = Bench()
    bench.store.update(QUEUE, 5)
    with bench.store.riding(QUEUE) as offset:
        bench.store.update(QUEUE, 6)
        writer = threading.Thread(target=bench.store.persist, args=(QUEUE,))
        writer.start()
        writer.join(0.1)  # long enough for one that does not wait
        assert (offset, bench.engine.oneways) == (5, [])
    writer.join(10)
    assert bench.engine.stored_offsets() == [("T", 0, 6)]

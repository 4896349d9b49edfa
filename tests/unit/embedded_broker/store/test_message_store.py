from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from embedded_broker.errors import StoreLockedError
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.store.message_run import Arrival, Arrivals
from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.put_values import InnerMessage, PutRefusal, PutResult, PutStatus
from rocketmq_py.protocol.names import SCHEDULE_TOPIC, retry_topic
from rocketmq_py.protocol.sysflag import INNER_BATCH, TRANSACTION_COMMIT, TRANSACTION_PREPARED
from rocketmq_py.protocol.tag_hash import tags_code
from tests.unit.embedded_broker.store.store_tools import (
    STORE_HOST,
    FullDisk,
    HandClock,
    bodies,
    delete_before,
    message,
    new_store,
)


def test_a_stored_message_is_visible_at_once_and_says_where_it_is() -> None:
    clock = HandClock()
    store = new_store(clock=clock)
    first = store.put(message(0, TAGS="TagA"))
    second = store.put(message(1))
    assert first == PutResult(PutStatus.PUT_OK, 0, 0, first.size, clock.now_ms, None, [0])
    assert (second.commit_log_offset, second.queue_offset) == (first.size, 1)
    record = store.record(second.commit_log_offset)
    assert record is not None
    assert (record.topic, record.queue_id, record.queue_offset) == ("T", 0, 1)
    assert (record.store_timestamp, record.store_host) == (clock.now_ms, STORE_HOST)
    assert record.properties == {"UNIQ_KEY": "ID0001"}
    assert store.read(first.commit_log_offset, first.size) is not None
    assert [one.commit_log_offset for one in store.scan(0)] == [0, first.size]
    queue = store.consume_queue("T", 0)
    assert queue is not None
    assert queue.entry(0) == (0, first.size, tags_code("TagA"))
    assert store.max_offset("T", 0) == 2
    assert store.earliest_store_time("T", 0) == clock.now_ms
    assert store.last_store_timestamp == clock.now_ms


def test_arrivals_are_told_after_the_message_is_visible() -> None:
    store = new_store()
    seen: list[tuple[Arrivals, int]] = []
    store.on_arrival.append(
        lambda told: seen.append((told, store.max_offset(told.topic, told.queue_id)))
    )
    put = store.put(message(7, queue_id=3, TAGS="a"))
    ((told, visible),) = seen
    assert visible == 1
    assert told.at(0) == Arrival(
        "T", 3, 0, 0, put.size, 97, put.store_timestamp, {"UNIQ_KEY": "ID0007", "TAGS": "a"}
    )


def test_a_full_file_rolls_and_every_message_is_found() -> None:
    store = new_store()
    for number in range(40):
        assert store.put(message(number)).queue_offset == number
    assert store.log.max_offset > 4096
    assert bodies(store) == [f"body {number}" for number in range(40)]


class _Hook:
    def __init__(self, name: str, answer: PutResult | PutRefusal | None) -> None:
        self.name = name
        self.answer = answer
        self.seen: list[tuple[str, int]] = []

    def before_put(self, msg: InnerMessage, now_ms: int) -> PutResult | PutRefusal | None:
        self.seen.append((msg.topic, now_ms))
        if self.answer is None:
            msg.topic = "Moved"
            msg.properties["HOOK"] = self.name
            msg.properties_bytes = None
        return self.answer


def test_hooks_run_in_order_and_may_change_the_message() -> None:
    clock = HandClock()
    store = new_store(clock=clock)
    first, second = _Hook("first", None), _Hook("second", None)
    store.hooks.listed += [first, second]
    put = store.put(message(1))
    assert first.seen == [("T", clock.now_ms)]
    assert second.seen == [("Moved", clock.now_ms)]
    record = store.record(put.commit_log_offset)
    assert record is not None
    assert (record.topic, record.properties["HOOK"]) == ("Moved", "second")
    assert store.max_offset("T", 0) == 0


def test_a_hook_refuses_and_later_hooks_do_not_run() -> None:
    store = new_store()
    never = _Hook("never", None)
    refusal = PutRefusal(PutStatus.WHEEL_TIMER_FLOW_CONTROL, "too many")
    store.hooks.listed += [_Hook("no", refusal), never]
    assert store.put(message(1)) == PutResult(PutStatus.WHEEL_TIMER_FLOW_CONTROL, remark="too many")
    assert never.seen == []
    whole = PutResult(PutStatus.SERVICE_NOT_AVAILABLE, remark="later")
    store.hooks.listed[0] = _Hook("no", whole)
    assert store.put(message(1)) is whole
    assert store.log.max_offset == 0


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({"topic": "x" * 128}, PutStatus.MESSAGE_ILLEGAL, "128 bytes, at most 127"),
        ({"topic": "é" * 64}, PutStatus.MESSAGE_ILLEGAL, "128 bytes, at most 127"),
        ({"topic": retry_topic("x" * 249)}, PutStatus.MESSAGE_ILLEGAL, "256 bytes, at most 255"),
        ({"body": bytes(401)}, PutStatus.MESSAGE_ILLEGAL, "401 bytes, at most 400.*maxMessageSize"),
        ({"sys_flag": INNER_BATCH}, PutStatus.MESSAGE_ILLEGAL, "BatchCQ"),
        (
            {"properties": {"k": "v" * 32_765}},
            PutStatus.PROPERTIES_SIZE_EXCEEDED,
            "32768 bytes, at most 32767",
        ),
        (
            {"properties": {"k": "v" * 1000}},
            PutStatus.MESSAGE_ILLEGAL,
            "holds 1016.*mappedFileSizeCommitLog",
        ),
    ],
)
def test_what_cannot_be_stored_is_refused_with_value_limit_and_setting(
    change: dict[str, object], status: PutStatus, text: str
) -> None:
    store = new_store(config={"maxMessageSize": 400})
    msg = message(1)
    for name, value in change.items():
        setattr(msg, name, value)
    refused = store.put(msg)
    assert refused.status is status
    assert re.search(text, refused.remark or "")
    assert store.log.max_offset == 0


def test_limits_are_reached_exactly() -> None:
    store = new_store(config={"maxMessageSize": 400, "mappedFileSizeCommitLog": 1 << 20})
    largest = message(1)
    largest.body = bytes(400)
    largest.topic = "x" * 127
    largest.properties = {"k": "v" * 32_764}
    assert store.put(largest).ok
    retry = message(2, retry_topic("x" * 248))
    assert store.put(retry).ok
    store.config.update(maxMessageSize=399)
    assert not store.put(largest).ok


def test_a_batch_lies_side_by_side_with_consecutive_offsets() -> None:
    store = new_store()
    store.put(message(0))
    seen: list[int] = []
    store.on_arrival.append(lambda _: seen.append(store.max_offset("T", 0)))
    whole = store.put(*[message(number) for number in (1, 2, 3)])
    assert whole.queue_offset == 1
    assert [one[0] for one in store.queues["T", 0].file_entries(1)][:3] == whole.offsets
    assert whole.offsets[0] == whole.commit_log_offset
    assert [one.commit_log_offset for one in store.scan(whole.commit_log_offset)] == whole.offsets
    assert seen == [4, 4, 4]
    assert bodies(store) == [f"body {number}" for number in range(4)]


def test_a_batch_that_does_not_fit_goes_into_the_next_file_as_a_whole() -> None:
    store = new_store()
    for number in range(7):
        store.put(message(number))
    whole = store.put(*[message(number) for number in range(7, 10)])
    assert whole.commit_log_offset == 1024
    assert bodies(store) == [f"body {number}" for number in range(10)]


def test_a_batch_is_refused_as_a_whole() -> None:
    store = new_store(config={"maxMessageSize": 400})
    bad = message(2)
    bad.body = bytes(401)
    assert store.put(message(1), bad).status is PutStatus.MESSAGE_ILLEGAL
    whole = store.put(*[message(number) for number in range(20)])
    assert whole.status is PutStatus.MESSAGE_ILLEGAL
    assert "mappedFileSizeCommitLog" in (whole.remark or "")
    assert store.log.max_offset == 0


@pytest.mark.case("W88")
def test_the_tags_code_of_a_delay_level_is_its_delivery_time() -> None:
    store = new_store()
    delayed = message(1, SCHEDULE_TOPIC, 17, DELAY="18", TAGS="a")
    put = store.put(delayed)
    queue = store.consume_queue(SCHEDULE_TOPIC, 17)
    assert queue is not None
    assert queue.entry(0) == (0, put.size, put.store_timestamp + 1000)  # no levels known yet
    store.level_deliver_ms = lambda level, stored: stored + level * 7
    put = store.put(delayed)
    entry = queue.entry(1)
    assert entry is not None
    assert entry[2] == put.store_timestamp + 126
    store.put(message(2, SCHEDULE_TOPIC, 17, TAGS="a"))
    entry = queue.entry(2)
    assert entry is not None
    assert entry[2] == 97


def test_halves_of_transactions_are_stored_but_in_no_queue() -> None:
    store = new_store()
    half = message(1)
    half.sys_flag = TRANSACTION_PREPARED
    commit = message(2)
    commit.sys_flag = TRANSACTION_COMMIT
    put = store.put(half)
    assert (put.ok, put.queue_offset) == (True, 0)
    assert store.record(put.commit_log_offset) is not None
    assert store.put(half, commit).ok
    assert store.max_offset("T", 0) == 1
    assert bodies(store) == ["body 2"]


def test_a_full_disk_refuses_and_leaves_no_trace() -> None:
    fs = FullDisk()
    store = new_store(fs)
    store.put(message(0))
    for left in (0, 1):  # the log's write fails; the queue's write fails
        fs.left = left
        refused = store.put(message(9))
        assert refused.status is PutStatus.CREATE_MAPPED_FILE_FAILED
        assert "no space left" in (refused.remark or "")
        fs.left = left + 1
        batch = store.put(message(8), message(9, queue_id=1))
        assert batch.status is PutStatus.CREATE_MAPPED_FILE_FAILED
        fs.left = None
    assert store.put(message(1)).ok
    assert bodies(store) == ["body 0", "body 1"]
    assert bodies(store, queue_id=1) == []
    store.abandon()
    assert bodies(new_store(fs)) == ["body 0", "body 1"]


def test_a_closed_store_refuses_and_closes_once() -> None:
    store = new_store()
    store.put(message(1))
    store.close()
    store.close()
    assert not store.is_open
    assert store.put(message(2)).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert store.put(message(2), message(3)).status is PutStatus.SERVICE_NOT_AVAILABLE


def test_a_clean_stop_removes_the_abort_file_and_a_crash_leaves_it() -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    assert fs.read_file("abort") == str(os.getpid()).encode()
    store.close()
    assert not fs.exists("abort")
    new_store(fs).abandon()
    assert fs.exists("abort")


@pytest.mark.case("K13")
def test_a_second_store_on_the_same_files_is_told_the_owner(tmp_path: Path) -> None:
    first = MessageStore(
        DirectoryFileSystem(tmp_path),
        new_store(load=False).config,
        HandClock(),
        STORE_HOST,
        owner="broker-a",
    )
    first.load()
    with pytest.raises(StoreLockedError, match="broker-a"):
        new_store(DirectoryFileSystem(tmp_path))
    first.abandon()
    new_store(DirectoryFileSystem(tmp_path)).close()


def test_a_store_in_a_directory_is_the_same_store_after_reopening(tmp_path: Path) -> None:
    store = new_store(DirectoryFileSystem(tmp_path))
    for number in range(30):
        assert store.put(message(number, queue_id=number % 2, KEYS="ALL")).ok
    store.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoint",
        "commitlog",
        "consumequeue",
        "index",
        "lock",
    ]
    store = new_store(DirectoryFileSystem(tmp_path))
    assert bodies(store, queue_id=1) == [f"body {number}" for number in range(1, 30, 2)]
    assert len(store.query("T", "ALL", 64, 0, 1 << 62)) == 30
    assert store.flushed_offset == store.log.max_offset
    store.close()


def test_deleting_old_messages_moves_every_minimum() -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    for number in range(40):
        store.put(message(number, queue_id=number % 2))
    assert delete_before(store, 500) == 0
    assert delete_before(store, 2500) == 2
    assert store.log.min_offset == 2048
    left = bodies(store) + bodies(store, queue_id=1)
    assert len(left) == 40 - store.min_offset("T", 0) - store.min_offset("T", 1)
    assert store.read(0) is None
    store.abandon()
    again = new_store(fs)
    assert bodies(again) + bodies(again, queue_id=1) == left


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_messages_put_together_are_in_no_queue_when_the_disk_refuses_one_of_them(
    writes: int,
) -> None:
    """One write is the log's, and one each is that of a queue; the queues hold one before."""
    disk = FullDisk()
    store = new_store(disk)
    topics = ("T", "U", "V")
    for topic in topics:
        assert store.put(message(0, topic)).ok
    end = store.log.max_offset
    heard: list[Arrivals] = []
    store.on_arrival.append(heard.append)
    disk.left = writes
    refused = store.put(*(message(1, topic) for topic in topics))
    assert refused.status is PutStatus.CREATE_MAPPED_FILE_FAILED
    assert (store.log.max_offset, heard) == (end, [])
    assert [bodies(store, topic) for topic in topics] == [["body 0"]] * 3
    disk.left = None
    assert store.put(*(message(2, topic) for topic in topics)).ok
    assert [bodies(store, topic) for topic in topics] == [["body 0", "body 2"]] * 3

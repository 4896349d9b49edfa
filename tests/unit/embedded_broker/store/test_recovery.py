from __future__ import annotations

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store import recovery
from embedded_broker.store.memory_fs import MemoryFileSystem
from rocketmq_py.protocol.names import SCHEDULE_TOPIC
from rocketmq_py.protocol.sysflag import TRANSACTION_ROLLBACK
from tests.unit.embedded_broker.store.store_tools import (
    HandClock,
    bodies,
    delete_before,
    message,
    new_store,
)

COUNT = 40


def _filled(
    fs: MemoryFileSystem, count: int = COUNT, clock: HandClock | None = None
) -> list[tuple[int, int]]:
    """Store messages in two queues, end without closing; give offset and size of each."""
    store = new_store(fs, clock)
    puts = [store.put(message(number, queue_id=number % 2)) for number in range(count)]
    store.abandon()
    return [(one.commit_log_offset, one.size) for one in puts]


def _all(fs: MemoryFileSystem) -> list[str]:
    store = new_store(fs)
    found = bodies(store) + bodies(store, queue_id=1)
    store.abandon()
    return sorted(found, key=lambda text: int(text.split()[1]))


def test_an_empty_store_recovers_to_nothing() -> None:
    store = new_store(load=False)
    report = store.load()
    assert (report.clean, report.commit_log_end, report.records_read) == (True, 0, 0)
    assert report.last_store_timestamp == 0


def test_a_crashed_store_is_found_again_from_its_bytes() -> None:
    fs = MemoryFileSystem()
    places = _filled(fs)
    store = new_store(fs, load=False)
    report = store.load()
    assert not report.clean
    assert report.commit_log_end == sum(places[-1])
    assert (report.truncated_bytes, report.records_read) == (0, COUNT)
    assert (report.entries_added, report.entries_dropped) == (0, 0)
    assert report.last_store_timestamp == 1_700_000_000_000


def test_queues_that_are_gone_are_made_again() -> None:
    fs = MemoryFileSystem()
    _filled(fs)
    for path in fs.files():
        if path.startswith("consumequeue/T/1/"):
            fs.remove(path)
    store = new_store(fs, load=False)
    assert store.load().entries_added == COUNT // 2
    store.abandon()
    assert _all(fs) == [f"body {number}" for number in range(COUNT)]


@pytest.mark.parametrize("gone", [0, 100, 300])
@pytest.mark.parametrize("clean", [True, False])
def test_a_queue_that_lost_one_file_is_mended(
    gone: int, clean: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = MemoryFileSystem()
    _filled(fs)
    if clean:
        new_store(fs).close()
        if gone == 100:  # a hole is seen at once, so the log is read whole however large it is
            monkeypatch.setattr(recovery, "_READ_WHOLE_CLEAN", 1000)
    fs.remove(f"consumequeue/T/0/{gone:020d}")
    assert _all(fs) == [f"body {number}" for number in range(COUNT)]


@pytest.mark.parametrize("gone", ["0/" + "0" * 20, "0/00000000000000000300", "0/", ""])
def test_a_file_of_a_queue_that_is_gone_after_a_clean_stop_is_noticed_in_a_large_log(
    gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_READ_WHOLE_CLEAN", 1000)
    fs = MemoryFileSystem()
    store = new_store(fs)
    for number in range(COUNT):  # the newest message is in queue 1, and so is where reading begins
        store.put(message(number, queue_id=number % 2))
    store.put(message(0, topic="U"))
    store.close()
    for path in fs.files():
        if path.startswith(f"consumequeue/T/{gone}"):
            fs.remove(path)
    store = new_store(fs)
    assert sorted(bodies(store) + bodies(store, queue_id=1)) == sorted(
        f"body {number}" for number in range(COUNT)
    )
    assert store.put(message(COUNT)).queue_offset == COUNT // 2
    assert [one for one in store.problems if "were missing or wrong and were made again" in one]
    store.close()
    again = new_store(fs, load=False)
    assert again.load().records_read == 1  # and nothing is left to be noticed
    assert again.problems == []


def test_a_queue_of_which_nothing_can_be_made_again_is_told() -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    store.put(message(0, topic="Old"))
    for number in range(COUNT):
        store.put(message(number))
    delete_before(store, 2048)
    store.close()
    fs.remove("consumequeue/Old/0/" + "0" * 20)
    store = new_store(fs)
    (problem,) = store.problems
    assert problem.startswith("consumequeue: not all files are there that were left, but no entry")
    store.close()
    assert new_store(fs).problems == []


def test_wrong_entries_are_corrected_and_ghosts_dropped() -> None:
    fs = MemoryFileSystem()
    places = _filled(fs)
    queue = fs.open_segment("consumequeue/T/0/00000000000000000000", 100)
    queue.write(20, bytes(range(20)))
    last = fs.open_segment("consumequeue/T/1/00000000000000000300", 100)
    entry = (sum(places[-1])).to_bytes(8) + (90).to_bytes(4) + bytes(8)
    fs.open_segment("consumequeue/T/1/00000000000000000400", 100).write(0, entry)
    assert last.data_end() == 100
    store = new_store(fs, load=False)
    report = store.load()
    assert (report.entries_added, report.entries_dropped) == (1, 1)
    store.abandon()
    assert _all(fs) == [f"body {number}" for number in range(COUNT)]


def test_entries_behind_a_cut_log_are_dropped() -> None:
    fs = MemoryFileSystem()
    places = _filled(fs)
    at, _ = places[10]
    begin = at // 1024 * 1024
    fs.open_segment(f"commitlog/{begin:020d}", 1024).write(at % 1024, bytes(1024 - at % 1024))
    for start in range(begin + 1024, sum(places[-1]), 1024):
        fs.remove(f"commitlog/{start:020d}")
    store = new_store(fs, load=False)
    report = store.load()
    assert (report.commit_log_end, report.entries_dropped) == (at, COUNT - 10)
    assert report.truncated_bytes == 0
    assert fs.list("commitlog") == [f"{start:020d}" for start in range(0, at, 1024)]
    put = store.put(message(10))
    assert (put.commit_log_offset, put.queue_offset) == (at, 5)
    store.abandon()
    assert _all(fs) == [f"body {number}" for number in range(11)]


def test_a_queue_whose_messages_are_all_gone_is_emptied() -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    store.put(message(0))
    second = store.put(message(1, "Other"))
    store.abandon()
    fs.open_segment("commitlog/00000000000000000000", 1024).write(
        second.commit_log_offset, b"\0" * 4
    )
    store = new_store(fs)
    assert (store.max_offset("Other", 0), store.max_offset("T", 0)) == (0, 1)


def test_the_delivery_times_of_delay_levels_are_made_again() -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    put = store.put(message(0, SCHEDULE_TOPIC, 2, DELAY="3"))
    store.abandon()
    for path in fs.files():
        if path.startswith("consumequeue/"):
            fs.remove(path)
    store = new_store(fs, load=False)
    store.level_deliver_ms = lambda level, stored: stored + 5000 * level
    store.load()
    queue = store.consume_queue(SCHEDULE_TOPIC, 2)
    assert queue is not None
    entry = queue.entry(0)
    assert entry is not None
    assert entry[2] == put.store_timestamp + 15_000


def test_transaction_ends_get_no_entry() -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    rolled_back = message(0)
    rolled_back.sys_flag = TRANSACTION_ROLLBACK
    store.put(rolled_back)
    store.put(message(1))
    store.abandon()
    assert _all(fs) == ["body 1"]


def test_a_log_whose_begin_was_deleted_keeps_its_queue_offsets() -> None:
    fs = MemoryFileSystem()
    places = _filled(fs)
    for name in fs.list("commitlog")[:2]:
        fs.remove(f"commitlog/{name}")
    fs.remove("checkpoint")  # of a broker that left no mark of where the log begins
    for path in fs.files():
        if path.startswith("consumequeue/"):
            fs.remove(path)
    left = [number for number, (at, _) in enumerate(places) if at >= 2048]
    assert _all(fs) == [f"body {number}" for number in left]
    store = new_store(fs)
    assert store.min_offset("T", left[0] % 2) == left[0] // 2
    assert store.max_offset("T", 0) == COUNT // 2


def test_a_large_log_is_read_from_the_newest_entry_after_a_clean_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovery, "_READ_WHOLE_CLEAN", 1000)
    fs = MemoryFileSystem()
    store = new_store(fs)
    for number in range(COUNT):
        store.put(message(number, queue_id=number % 2))
    rolled_back = message(0)
    rolled_back.sys_flag = TRANSACTION_ROLLBACK
    end = store.put(rolled_back)
    store.close()
    store = new_store(fs, load=False)
    report = store.load()
    assert (report.clean, report.records_read) == (True, 2)
    assert report.commit_log_end == end.commit_log_offset + end.size
    store.abandon()
    assert _all(fs) == [f"body {number}" for number in range(COUNT)]


def test_a_damaged_queue_makes_a_clean_start_read_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovery, "_READ_WHOLE_CLEAN", 1000)
    fs = MemoryFileSystem()
    store = new_store(fs)
    for number in range(COUNT):
        store.put(message(number, queue_id=number % 2))
    store.close()
    last_queue = (COUNT - 1) % 2
    for path in fs.files():
        if path.startswith(f"consumequeue/T/{last_queue}/"):
            fs.remove(path)
    store = new_store(fs, load=False)
    report = store.load()
    assert (report.records_read, report.entries_added) == (COUNT, COUNT // 2)


def test_a_large_log_is_read_from_the_checkpoint_after_a_crash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovery, "_READ_WHOLE_DIRTY", 1000)
    monkeypatch.setattr(recovery, "_READ_WHOLE_CLEAN", 1000)
    fs = MemoryFileSystem()
    clock = HandClock(1_000_000)
    store = new_store(fs, clock)
    for number in range(COUNT):
        store.put(message(number))
        clock.now_ms += 1000
        if number == 30:
            store.begin_flush().run()
    store.abandon()
    store = new_store(fs, load=False)
    report = store.load()
    assert 0 < report.read_from < store.log.max_offset
    assert report.records_read < COUNT
    assert len(bodies(store)) == COUNT


def test_a_store_that_cannot_be_opened_is_unlocked_again() -> None:
    fs = MemoryFileSystem()
    fs.write_file("consumequeue/T/zero/x", b"")
    with pytest.raises(StoreError, match="no queue number"):
        new_store(fs)
    fs.remove("consumequeue/T/zero/x")
    new_store(fs).close()


def test_dying_during_recovery_is_a_dirty_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    store.put(message(1))
    store.close()
    with monkeypatch.context() as patch:
        patch.setattr(
            "embedded_broker.store.message_store.recover",
            lambda *_, **__: (_ for _ in ()).throw(StoreError("disk gone")),
        )
        with pytest.raises(StoreError, match="disk gone"):
            new_store(fs)
    assert fs.exists("abort")
    assert not new_store(fs, load=False).load().clean

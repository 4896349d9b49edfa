from __future__ import annotations

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.key_index import KeyIndex
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.store.message_store import MessageStore
from rocketmq_py.protocol.message_codec import decode_record
from rocketmq_py.protocol.sysflag import TRANSACTION_ROLLBACK
from tests.unit.embedded_broker.store.store_tools import (
    FullDisk,
    HandClock,
    delete_before,
    message,
    new_store,
)

EVER = 1 << 62


def _numbers(store: MessageStore, key: str, max_num: int = 64, topic: str = "T") -> list[int]:
    found = store.query(topic, key, max_num, 0, EVER)
    return [int(decode_record(one).body.split()[1]) for one in found]


@pytest.mark.case("W94")
def test_every_word_of_keys_and_the_unique_key_are_found() -> None:
    store = new_store()
    store.put(message(1, KEYS="k1 k2"))
    store.put(message(2, KEYS="k1"))
    assert _numbers(store, "k1") == [1, 2]
    assert _numbers(store, "k2") == [1]
    assert _numbers(store, "k3") == []
    assert _numbers(store, "ID0002") == [2]
    assert _numbers(store, "k1", topic="Other") == []


def test_nothing_is_indexed_before_somebody_asks() -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    store.put(message(1))
    store.begin_flush().run()
    assert fs.list("index") == []
    assert _numbers(store, "ID0001") == [1]
    assert len(fs.list("index")) == 1
    store.put(message(2))
    store.begin_flush().run()  # from now on the background keeps up
    assert store.index is not None
    assert store.index.indexed_to == store.log.max_offset


def test_the_newest_hits_are_returned_oldest_first() -> None:
    store = new_store()
    for number in range(100):
        store.put(message(number, KEYS="ALL"))
    assert _numbers(store, "ALL", 5) == [95, 96, 97, 98, 99]
    assert _numbers(store, "ALL", 1000) == list(range(36, 100))  # maxMsgsNumBatch
    unique = store.query("T", "ALL", 3, 0, EVER, unique=True)
    assert len(unique) == 32  # defaultQueryMaxNum
    assert store.query("T", "ALL", 0, 0, EVER) == []


def test_keys_of_many_messages_go_over_many_files() -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    for number in range(50):
        store.put(message(number, KEYS=f"a{number % 3} b{number % 3}"))
    assert _numbers(store, "a1") == list(range(1, 50, 3))
    names = fs.list("index")
    assert len(names) == 10
    assert names == sorted(set(names))
    assert all(len(name) == 17 for name in names)


def test_a_time_range_is_inclusive_with_a_resolution_of_seconds() -> None:
    clock = HandClock(1_700_000_000_000)
    store = new_store(clock=clock)
    for number in range(10):
        store.put(message(number, KEYS="k"))
        clock.now_ms += 5000
    found = store.query("T", "k", 64, 1_700_000_010_000, 1_700_000_020_000)
    assert [decode_record(one).born_timestamp for one in found] == [2, 3, 4]
    assert store.query("T", "k", 64, 1_700_000_100_000, EVER) == []


def test_a_word_that_occurs_twice_is_one_hit() -> None:
    store = new_store()
    store.put(message(1, KEYS="ID0001  ID0001"))
    assert _numbers(store, "ID0001") == [1]


def test_colliding_keys_are_returned_too() -> None:
    store = new_store()
    store.put(message(1, KEYS="Aa"))
    store.put(message(2, KEYS="BB"))
    assert _numbers(store, "Aa") == [1, 2]


def test_rolled_back_transactions_are_left_out() -> None:
    store = new_store()
    rolled_back = message(1, KEYS="k")
    rolled_back.sys_flag = TRANSACTION_ROLLBACK
    store.put(rolled_back)
    store.put(message(2, KEYS="k"))
    assert _numbers(store, "k") == [2]


def test_the_newest_file_stays_though_no_message_of_it_is_left() -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    for number in range(50):
        store.put(message(number, KEYS="ALL"))
    assert len(_numbers(store, "ALL", 100)) == 50
    assert store.index is not None
    names = fs.list("index")
    remove = store.index.let_go_before(EVER)
    assert remove is not None
    remove()
    assert fs.list("index") == names[-1:]


@pytest.mark.parametrize("synced", [False, True])
def test_after_a_crash_only_files_that_were_full_and_synced_are_believed(synced: bool) -> None:
    clock = HandClock(1_700_000_000_000)
    store = new_store(fs := MemoryFileSystem(), clock=clock)
    for number in range(50):
        store.put(message(number, KEYS="ALL"))
        clock.now_ms += 1
    assert len(_numbers(store, "ALL", 100)) == 50
    assert store.index is not None
    names = fs.list("index")
    again = KeyIndex(fs, store.log, clock, store.index._shape)
    full_ms = clock.now_ms if synced else 0
    again.load(clean=False, index_msg_timestamp=full_ms, problems=None)
    assert fs.list("index") == (names[:-1] if synced else [])
    assert (again.entries > 0) is synced


@pytest.mark.parametrize("clean", [True, False])
def test_a_reopened_store_finds_everything_once(clean: bool) -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    for number in range(30):
        store.put(message(number, KEYS="ALL"))
        if number == 20:
            assert len(_numbers(store, "ALL")) == 21
    (store.close if clean else store.abandon)()
    store = new_store(fs)
    store.put(message(30, KEYS="ALL"))
    assert _numbers(store, "ALL") == list(range(31))


def test_index_files_that_tell_of_lost_messages_are_made_again() -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    offsets = [store.put(message(number, KEYS="ALL")).commit_log_offset for number in range(8)]
    assert len(_numbers(store, "ALL")) == 8
    store.close()
    log = fs.open_segment("commitlog/00000000000000000000", 1024)
    log.write(offsets[3], bytes(1024 - offsets[3]))
    store = new_store(fs, config={"damagedRecords": "skip"})
    store.put(message(3, KEYS="ALL"))
    assert _numbers(store, "ALL") == [0, 1, 2, 3]


def test_foreign_names_in_the_folder_are_left_alone() -> None:
    fs = MemoryFileSystem()
    fs.write_file("index/readme", b"x")
    store = new_store(fs)
    store.put(message(1))
    assert _numbers(store, "ID0001") == [1]
    assert fs.read_file("index/readme") == b"x"


def test_files_of_deleted_messages_go_but_the_last() -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    for number in range(60):
        store.put(message(number))
    assert _numbers(store, "ID0059") == [59]
    before = len(fs.list("index"))
    delete_before(store, store.log.max_offset)
    assert 1 <= len(fs.list("index")) < before
    assert _numbers(store, "ID0000") == []
    assert _numbers(store, "ID0059") == [59]


def test_a_store_without_index_finds_nothing_and_writes_nothing() -> None:
    fs = MemoryFileSystem()
    store = new_store(fs, config={"messageIndexEnable": False})
    store.put(message(1))
    assert _numbers(store, "ID0001") == []
    store.close()
    assert fs.list("index") == []


def test_a_disk_that_was_full_is_indexed_when_there_is_room() -> None:
    fs = FullDisk()
    store = new_store(fs)
    for number in range(3):
        store.put(message(number, KEYS="k"))
    fs.left = 4
    with pytest.raises(StoreError):
        store.query("T", "k", 64, 0, EVER)
    fs.left = None
    assert _numbers(store, "k") == [0, 1, 2]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("which", [0, 1, -1])
@pytest.mark.parametrize("length", [0, 1, 100, 5000])
def test_an_index_file_of_a_wrong_length_is_set_aside_and_made_again(
    *, length: int, which: int, clean: bool
) -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    for number in range(40):
        store.put(message(number))
    assert store.query("T", "ID0039", 1, 0, 1 << 62)
    (store.close if clean else store.abandon)()
    assert len(fs.list("index")) == 3
    path = f"index/{fs.list('index')[which]}"
    data = (fs.read_file(path) + bytes(5000))[:length]
    fs.remove(path)
    fs.write_file(path, data)

    store = new_store(fs)
    for number in range(40):
        found = store.query("T", f"ID{number:04d}", 9, 0, 1 << 62)
        assert [b"body %d" % number in one for one in map(bytes, found)] == [True]
    said = [line for line in store.problems if path in line]
    if clean:
        kept = fs.list("damaged")
        assert [fs.read_file(f"damaged/{one}") for one in kept] == [data]
        length_told = f"{path} has a length of {length} instead of 392 bytes"
        end = "keys are found again in the commit log"
        assert said == [f"{length_told}: moved to damaged/{kept[0]}; {end}"]
    else:  # a crash leaves such files
        assert not said
    store.close()
    again = new_store(fs)
    assert again.problems == []
    again.close()

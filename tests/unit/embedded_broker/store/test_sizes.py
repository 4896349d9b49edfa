from __future__ import annotations

import pytest

from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.options import OPTIONS
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.store.sizes import StoreSizes
from rocketmq_py.errors import ConfigError
from tests.unit.embedded_broker.store.store_tools import SMALL_FILES, message, new_store


def _filled_store() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    store = new_store(fs, config={"maxIndexNum": 32})
    store.put(message(1))
    assert store.query("T", "ID0001", 1, 0, 1 << 62)
    store.close()
    return fs


def test_a_new_directory_gets_the_originals_sizes(tmp_path: object) -> None:
    sizes = StoreSizes.find(DirectoryFileSystem(str(tmp_path)), BrokerConfig())
    assert sizes.commit_log == OPTIONS["mappedFileSizeCommitLog"].upstream
    assert sizes.consume_queue == 6_000_000
    assert (sizes.index.slots, sizes.index.entries) == (5_000_000, 20_000_000)


def test_a_memory_store_gets_small_files_unless_it_is_told_otherwise() -> None:
    sizes = StoreSizes.find(MemoryFileSystem(), BrokerConfig())
    assert sizes.commit_log == 64 << 20
    assert sizes.index.file_size < 2 << 20
    asked = StoreSizes.find(MemoryFileSystem(), BrokerConfig(SMALL_FILES))
    assert (asked.commit_log, asked.consume_queue, asked.index.slots) == (1024, 100, 8)


def test_a_queue_file_is_rounded_up_to_whole_entries() -> None:
    config = BrokerConfig({"mappedFileSizeConsumeQueue": 101})
    assert StoreSizes.find(MemoryFileSystem(), config).consume_queue == 120


def test_files_that_exist_decide() -> None:
    sizes = StoreSizes.find(_filled_store(), BrokerConfig())
    assert (sizes.commit_log, sizes.consume_queue) == (1024, 100)
    assert (sizes.index.slots, sizes.index.entries) == (8, 32)


@pytest.mark.parametrize(
    "option", ["mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "maxHashSlotNum"]
)
def test_a_setting_that_disagrees_with_the_files_is_refused(option: str) -> None:
    fs = _filled_store()
    before = fs.copy()
    with pytest.raises(ConfigError, match=option):
        StoreSizes.find(fs, BrokerConfig({option: 4000}))
    with pytest.raises(ConfigError):
        new_store(fs, config={option: 4000})
    assert fs.files() == before.files()
    new_store(fs, config={"maxIndexNum": 32}).close()  # the lock was given back


def test_an_index_of_an_unknown_shape_is_no_reason_to_refuse_a_store() -> None:
    fs = MemoryFileSystem()
    store = new_store(fs, config={"maxHashSlotNum": 7, "maxIndexNum": 23})
    store.put(message(1))
    assert store.query("T", "ID0001", 1, 0, 1 << 62)
    store.close()
    usual = StoreSizes.find(MemoryFileSystem(), BrokerConfig()).index
    assert repr(StoreSizes.find(fs, BrokerConfig()).index) == repr(usual)
    right = BrokerConfig({"maxHashSlotNum": 7, "maxIndexNum": 23})
    assert StoreSizes.find(fs, right).index.slots == 7

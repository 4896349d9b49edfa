"""What a memory store counts, when it refuses, and what it gives back."""

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.memory_budget import (
    BUDGET_MIN,
    EACH_MIN,
    MemoryBudget,
    MemoryShares,
    default_budget,
)
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.store.retention import CONSUMED_MOST, allow_memory
from embedded_broker.store.sizes import StoreSizes

PAGE = 4096


def test_pages_that_were_written_count_and_come_back_with_their_file() -> None:
    fs = MemoryFileSystem()
    small = fs.open_segment("a/0", 64 * 1024)
    small.write(0, b"x")
    assert fs.budget.used == PAGE
    small.write(1, b"y" * PAGE)
    assert fs.budget.used == 2 * PAGE
    small.write(10 * PAGE + 5, b"z")  # the gap has no pages
    assert fs.budget.used == 3 * PAGE
    small.write(3, b"again")
    assert fs.budget.used == 3 * PAGE

    large = fs.open_segment("b/0", 4 << 20)
    large.write(0, b"x" * 70_000)
    assert fs.budget.used == 3 * PAGE + 2 * 65_536

    fs.remove("a/0")
    fs.write_file("b/0", b"")
    assert fs.budget.used == 0


def test_above_the_limit_is_a_reserve_and_then_an_error_that_changes_nothing() -> None:
    fs = MemoryFileSystem()
    fs.budget.allow(16 * PAGE, 8 * PAGE)
    asked: list[int] = []
    fs.budget.on_pressure = lambda: asked.append(fs.budget.used)
    segment = fs.open_segment("a/0", 100 * PAGE)
    for page in range(16):
        assert not fs.budget.is_full
        segment.write(page * PAGE, bytes(PAGE))
    assert fs.budget.is_full
    assert asked[0] == 9 * PAGE
    segment.write(16 * PAGE, bytes(4 * PAGE))

    with pytest.raises(StoreError, match="memoryStoreMaxBytes"):
        segment.write(20 * PAGE, b"x")
    assert (fs.budget.used, segment.data_end()) == (20 * PAGE, 20 * PAGE)

    fs.remove("a/0")
    assert not fs.budget.is_full


def test_a_refusal_names_what_is_there_the_limit_and_the_setting() -> None:
    budget = MemoryBudget()
    budget.allow(100, 50)
    budget.take(110, "commitlog/0")
    text = budget.refusal()
    assert "110 bytes" in text
    assert "at most 100" in text
    assert "memoryStoreMaxBytes" in text


def test_without_a_limit_nothing_is_refused_and_nobody_is_asked_for_room() -> None:
    fs = MemoryFileSystem()
    fs.budget.on_pressure = lambda: pytest.fail("there is no limit")
    fs.open_segment("a/0", 1 << 20).write(0, bytes(1 << 20))
    assert (fs.budget.used, fs.budget.is_full, fs.used_percent) == (1 << 20, False, 0.0)


def test_the_default_is_a_share_of_what_is_available() -> None:
    fs = MemoryFileSystem()
    allow_memory(fs, BrokerConfig(), default_budget())
    assert fs.budget.bytes_max >= BUDGET_MIN
    assert default_budget() >= BUDGET_MIN
    assert fs.budget.pressed_at == min(CONSUMED_MOST, fs.budget.bytes_max // 4)


@pytest.mark.parametrize(
    ("budget", "file"),
    [(256 << 20, 32 << 20), (64 << 20, 17 << 20), (4 << 30, 64 << 20)],
)
def test_log_files_are_small_enough_for_the_budget(budget: int, file: int) -> None:
    fs, config = MemoryFileSystem(), BrokerConfig({"memoryStoreMaxBytes": budget})
    allow_memory(fs, config, 1 << 30)
    assert StoreSizes.find(fs, config).commit_log == file


def test_many_share_the_default_and_each_has_the_least_at_least() -> None:
    shares = MemoryShares()
    alone = shares.each
    assert alone >= BUDGET_MIN
    shares.brokers = 2
    assert shares.each == max(alone // 2, EACH_MIN)
    shares.brokers = 1 << 40
    assert shares.each == EACH_MIN

"""Which commit log files are old enough to go."""

from datetime import UTC, datetime, timedelta

import pytest

from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.put_values import InnerMessage
from embedded_broker.store.retention import HOUR_MS, Retention

START_MS = 1_700_000_000_000
FILE = 1024


class Aged:
    """A clock on which everything counts as age."""

    def __init__(self) -> None:
        self.now_ms = START_MS

    def now(self) -> datetime:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.now_ms)

    def aged_ms(self, since_ms: int) -> int:
        return self.now_ms - since_ms


class Disk(MemoryFileSystem):
    percent = 0.0

    @property
    def used_percent(self) -> float:
        return self.percent


class Bench:
    def __init__(self, **config: object) -> None:
        self.fs, self.clock = Disk(), Aged()
        self.config = BrokerConfig({"mappedFileSizeCommitLog": FILE, **config})
        self.store = MessageStore(self.fs, self.config, self.clock, bytes(8))
        self.store.load()
        self.rule = Retention(self.fs, self.store.log, self.config, self.clock)

    def put(self, count: int) -> None:
        for _ in range(count):
            assert self.store.put(InnerMessage("T", 0, b"x" * 100)).ok


def test_a_file_is_as_old_as_its_last_message_and_the_newest_stays() -> None:
    bench = Bench(fileReservedTime=2)
    bench.put(4)
    bench.clock.now_ms += HOUR_MS
    bench.put(8)
    assert len(bench.store.log.files.files) == 3
    assert bench.rule.old_end(10) == 0

    bench.clock.now_ms += HOUR_MS
    assert bench.rule.old_end(10) == 0  # the first file ends with a message that is younger
    bench.clock.now_ms += HOUR_MS - 1
    assert bench.rule.old_end(10) == 0
    bench.clock.now_ms += 1
    assert bench.rule.old_end(10) == 2 * FILE
    assert bench.rule.old_end(1) == FILE
    bench.clock.now_ms += 1000 * HOUR_MS
    assert bench.rule.old_end(10) == 2 * FILE


def test_a_younger_file_in_the_middle_keeps_the_older_looking_ones_behind_it() -> None:
    bench = Bench(fileReservedTime=2)
    bench.put(5)
    bench.clock.now_ms += 3 * HOUR_MS
    bench.put(5)
    bench.clock.now_ms -= 3 * HOUR_MS
    bench.put(10)
    bench.clock.now_ms += 2 * HOUR_MS

    end = bench.rule.old_end(10)

    assert end < bench.store.log.files.files[-1][0]
    assert bench.store.log.store_timestamp(end) >= START_MS


def test_old_files_go_in_the_local_hours_that_are_set_or_when_the_disk_is_full() -> None:
    bench = Bench()
    hour = bench.clock.now().astimezone().hour
    others = ";".join(f"{one:02d}" for one in range(24) if one != hour)
    bench.config.update(deleteWhen=others)
    assert not bench.rule.is_time()
    bench.fs.percent = 75.0
    assert not bench.rule.is_time()
    bench.fs.percent = 75.1
    assert bench.rule.is_time()
    bench.config.update(diskMaxUsedSpaceRatio=80)
    assert not bench.rule.is_time()
    bench.config.update(deleteWhen=f"{hour:02d};{(hour + 1) % 24:02d}")
    assert bench.rule.is_time()


@pytest.mark.parametrize("name", ["fileReservedTime", "deleteWhen", "diskMaxUsedSpaceRatio"])
def test_the_options_can_be_changed_while_the_broker_runs(name: str) -> None:
    from embedded_broker.settings.options import OPTIONS

    assert OPTIONS[name].live
    assert not OPTIONS[name].fixed
    assert OPTIONS[name].default == OPTIONS[name].upstream

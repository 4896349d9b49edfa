"""Every file of the timer store is damaged in every way: the broker refuses the store, or says what
it found; where damage is left out no timer is lost, early or twice. Both after a clean stop and
after a kill."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random

import pytest

from embedded_broker import EmbeddedBroker, RecoveryReport, StoreDamagedError, VirtualClock
from embedded_broker.store.memory_fs import MemoryFileSystem
from rocketmq_py import DefaultMQProducer, Message
from tests.short_form import short_form

TIMERS = 60
RECALLED = frozenset({5, 30, 50})
LEFT = Counter(one for one in range(TIMERS) if one not in RECALLED)
SMALL: dict[str, object] = {"mappedFileSizeTimerLog": 52 * 20 + 16}
FILES = {
    "check point": "config/timercheck",
    "meta": "config/timermeta",
    "wheel": "timerwheel",
    "first log": "timerlog/00000000000000000000",
    "second log": "timerlog/00000000000000001056",
    "store check point": "checkpoint",
}
WAYS = ["flip", "flips", "short", "long", "empty", "zeros", "garbage", "gone"]


def _filled(*, clean: bool) -> MemoryFileSystem:
    """Timers of 1 to 60 seconds, in two lives; a third is released, and some are recalled."""
    return _pristine(clean).copy()


@cache
def _pristine(clean: bool) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    for numbers in (range(TIMERS - 20), range(TIMERS - 20, TIMERS)):
        with (
            EmbeddedBroker(
                fs=fs, clock=VirtualClock(), topics=["T"], tcp=False, config=SMALL
            ) as broker,
            DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr) as producer,
        ):
            for number in numbers:
                delay = timedelta(milliseconds=1000 * (number + 1) + 300)
                sent = producer.send(Message("T", b"%d" % number, delay=delay))
                if number in RECALLED:
                    producer.recall_message("T", sent.recall_handle)
            if numbers.start == 0:
                broker.clock.advance(TIMERS // 3)
            elif not clean:
                broker.crash()
    return fs


def _damage(fs: MemoryFileSystem, path: str, way: str, random: Random) -> None:
    data = bytearray(fs.read_file(path))
    used = max(len(data.rstrip(b"\0")), 1)
    if way == "gone":
        fs.remove(path)
        return
    if way == "flip":
        data[random.randrange(used)] ^= 1 << random.randrange(8)
    elif way == "flips":
        for _ in range(20):
            data[random.randrange(used)] ^= 1 << random.randrange(8)
    elif way == "short":
        data = data[: random.randrange(1, used + 1)]
    elif way == "long":
        data += bytes(random.randrange(1, 100))
    elif way == "empty":
        data = bytearray()
    elif way == "zeros":
        data = bytearray(len(data))
    else:
        data[:used] = random.randbytes(used)
    fs.remove(path)
    fs.write_file(path, bytes(data))


def _config(fs: MemoryFileSystem) -> dict[str, object]:
    """Give what opens the store: one that is refused is so each time, and stays as it was left."""
    tried = fs.copy()
    was_clean = not tried.exists("abort")
    for is_second in (False, True):
        broker = EmbeddedBroker(fs=tried, clock=VirtualClock(), tcp=False, config=SMALL)
        try:
            broker.start()
        except StoreDamagedError:
            assert was_clean == (not tried.exists("abort"))
        else:
            broker.close()
            assert not is_second
            return SMALL
    return {**SMALL, "damagedRecords": "skip"}


def _released(fs: MemoryFileSystem) -> tuple[Counter[int], RecoveryReport]:
    with EmbeddedBroker(fs=fs, clock=VirtualClock(), tcp=False, config=_config(fs)) as broker:
        report = broker.recovery
        broker.clock.advance(2 * TIMERS)
        found = broker.messages.in_topic("T")
    return Counter(int(record.body) for record in found), report


@pytest.mark.parametrize(
    "clean", short_form([True, False], lambda clean: not clean), ids=["clean", "killed"]
)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("which", FILES)
def test_no_timer_is_lost_or_repeated(which: str, way: str, clean: bool) -> None:
    pristine = _filled(clean=clean)
    for seed in range(6 if way == "flip" else 2):
        fs = pristine.copy()
        before = fs.read_file(FILES[which])
        _damage(fs, FILES[which], way, Random(seed))
        changed = not fs.exists(FILES[which]) or fs.read_file(FILES[which]) != before
        released, report = _released(fs)
        assert released == LEFT, (seed, report)
        assert report.problems or not changed or not clean, seed


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_a_read_time_in_the_future_loses_no_timer(clean: bool) -> None:
    fs = _filled(clean=clean)
    segment = fs.open_segment("config/timercheck", 4096)
    read_ms = int.from_bytes(segment.view(0, 8)) + 2**32
    segment.write(0, read_ms.to_bytes(8))
    counter = int.from_bytes(segment.view(48, 8)) + 1
    segment.write(48, counter.to_bytes(8))
    released, report = _released(fs)
    assert released == LEFT
    assert any("config/timercheck" in line for line in report.problems)


@pytest.mark.parametrize(
    "clean", short_form([True, False], lambda clean: not clean), ids=["clean", "killed"]
)
@pytest.mark.parametrize("field", ["read time", "log", "queue"])
@pytest.mark.parametrize("first", short_form(range(4), lambda first: first == 3))
def test_no_bit_of_another_brokers_check_point_loses_a_timer(
    first: int, field: str, clean: bool
) -> None:
    """Without our copy of it: a real broker writes none."""
    pristine = _filled(clean=clean)
    pristine.remove("config/timermeta")
    begin = ("read time", "log", "queue").index(field) * 8
    for bit in range(first, 64, 4):
        fs = pristine.copy()
        segment = fs.open_segment("config/timercheck", 4096)
        found = int.from_bytes(segment.view(begin, 8))
        segment.write(begin, (found ^ 1 << bit).to_bytes(8))
        released, report = _released(fs)
        assert released == LEFT, (bit, report)


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_a_check_point_in_the_future_starts_no_clock_there(clean: bool) -> None:
    fs, start = _filled(clean=clean), datetime.now(UTC)
    clock = VirtualClock(start)
    with EmbeddedBroker(fs=fs.copy(), clock=clock, tcp=False, config=SMALL) as broker:
        now_ms = broker.clock.now_ms
    fs.open_segment("checkpoint", 4096).write(2, b"\x0f")
    clock = VirtualClock(start)
    with EmbeddedBroker(fs=fs, clock=clock, tcp=False, config=SMALL) as broker:
        assert broker.clock.now_ms == now_ms
        assert any("checkpoint" in line for line in broker.recovery.problems)

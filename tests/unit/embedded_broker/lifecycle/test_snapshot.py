"""A copy of a running broker's store, as it was at one instant."""

import logging
from pathlib import Path
from threading import Event, Thread
from typing import Literal

import pytest

from embedded_broker import EmbeddedBroker, StoreError, VirtualClock

TIMERS = {"timerMaxDelaySec": 3_456_000}


@pytest.mark.case("K23")
@pytest.mark.parametrize("in_directory", [False, True])
@pytest.mark.parametrize("engine", ["wheel", "sliced"])
def test_a_snapshot_shows_the_state_and_the_clock_of_its_instant(
    tmp_path: Path, in_directory: bool, engine: Literal["wheel", "sliced"]
) -> None:
    clock = VirtualClock()
    store = tmp_path / "live" if in_directory else None
    with EmbeddedBroker(
        store=store, clock=clock, tcp=False, engine=engine, config=TIMERS
    ) as broker:
        broker.topics.create("Other", queues=7)
        broker.send("T", b"due on day 31", delay=31 * 86_400)
        broker.send("T", b"now", keys="K1")
        broker.send("T", b"level of before", delay_level=1)
        clock.advance(days=30)
        broker.send("T", b"level", delay_level=18)
        with broker._parts().door:
            broker._parts().tables.offsets.commit("G", "T", 2, 5)
        taken_at = clock.now()

        path = broker.snapshot(tmp_path / "deep" / "copy")

        for number in range(50):
            broker.send("T", b"later %d" % number)
            broker.send("T", b"later timer %d" % number, delay=3 * 86_400 + number)
        clock.advance(days=2)
        broker.topics.create("After", queues=1)

    twin = VirtualClock()
    with EmbeddedBroker(store=path, clock=twin, tcp=False, engine=engine, config=TIMERS) as copy:
        assert twin.now() == taken_at
        assert copy.topics.names() == ["Other", "T"]
        assert copy.topics["Other"].queues == 7
        before = [one.body for one in copy.messages.in_topic("T")]
        assert before == [b"now", b"level of before"]
        assert [one.body for one in copy.messages.by_key("T", "K1")] == [b"now"]
        assert copy._parts().tables.offsets.query("G", "T", 2) == 5
        assert copy.timers.count() == 2
        twin.advance(hours=2)
        assert copy.messages.in_topic("T")[-1].body == b"level"
        twin.advance(days=1)
        assert copy.messages.in_topic("T")[-1].body == b"due on day 31"
        assert copy.timers.count() == 0
        twin.advance(days=5)
        assert copy.topics["T"].count() == 4


@pytest.mark.parametrize("clock", [None, VirtualClock])
def test_wall_time_on_a_store_of_virtual_time_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, clock: type[VirtualClock] | None
) -> None:
    with EmbeddedBroker(clock=VirtualClock(), tcp=False) as broker:
        broker.clock.advance(days=30)
        path, taken_at = broker.snapshot(tmp_path / "copy"), broker.clock.now()

    with (
        caplog.at_level(logging.WARNING, "embedded_broker"),
        EmbeddedBroker(store=path, clock=None if clock is None else clock(), tcp=False) as copy,
    ):
        told = [one.getMessage() for one in caplog.records]
        if clock is None:
            assert len(told) == 1
            assert "clock=VirtualClock()" in told[0]
            assert taken_at.isoformat() in told[0]
        else:
            assert told == []
            assert copy.clock.now() == taken_at


def test_a_snapshot_under_traffic_is_the_store_of_one_instant(tmp_path: Path) -> None:
    paths: list[Path] = []
    with EmbeddedBroker(tcp=False, clock=VirtualClock()) as broker:

        def send(numbers: range, begun: Event) -> None:
            for number in numbers:
                topic = f"T{number // 20}"  # new topics and queues all the time
                broker.send(topic, b"%d" % number, delay=None if number % 2 else 60)
                if number == numbers.start + 20:
                    begun.set()

        for first in (0, 400):
            begun = Event()
            thread = Thread(target=send, args=(range(first, first + 400), begun))
            thread.start()
            assert begun.wait(30)
            paths.append(broker.snapshot(tmp_path / str(first)))
            thread.join()

    seen = 0
    for path in paths:
        clock = VirtualClock()
        with EmbeddedBroker(store=path, tcp=False, clock=clock) as copy:
            report = copy._node().recovery
            assert report.clean
            assert (report.truncated_bytes, report.entries_added, report.entries_dropped) == (
                0,
                0,
                0,
            )
            clock.advance(61)
            numbers = sorted(
                int(one.body)
                for topic in copy.topics.names()
                for one in copy.messages.in_topic(topic)
            )
            assert numbers == list(range(len(numbers)))
            assert len(numbers) >= seen
            seen = len(numbers)


def test_a_snapshot_needs_a_directory_of_its_own_and_leaves_nothing_half_done(
    tmp_path: Path,
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    (tmp_path / "empty").mkdir()
    with EmbeddedBroker(tcp=False) as broker:
        broker.send("T", b"x")
        with pytest.raises(StoreError, match="new or empty"):
            broker.snapshot(tmp_path / "full")
        broker.faults.disk.fail_next_flush()
        with pytest.raises(StoreError, match="the sync failed"):
            broker.snapshot(tmp_path / "copy")
        assert sorted(one.name for one in tmp_path.iterdir()) == ["empty", "full"]

        assert broker.snapshot(tmp_path / "empty") == tmp_path / "empty"
        (tmp_path / "other.part").mkdir()
        with pytest.raises(StoreError, match="an interrupted snapshot"):
            broker.snapshot(tmp_path / "other")

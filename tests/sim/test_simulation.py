"""A small fixed part of the simulation; `python -m tests.sim` plays as many runs as wanted."""

from __future__ import annotations

from random import Random

import pytest

from embedded_broker.errors import StoreError
from tests.sim.disk import Disk, SimulatedCrash
from tests.sim.runs import Report, play

SEEDS = range(40)
SLICED_SEEDS = range(25)
FOUND = {
    492: "a hop kept out of the wheel came back behind its slot, where no mark was looked up",
    980: "a slot of the wheel torn in the middle of its time outlived the rebuild and hid another",
    1402: "a timer that a mark had removed came back: its last hop was put late, then a crash",
    6925: "a delay level was told an earlier time than the clock's and took a message for late",
    9816: "the mark of a hop that was kept out of the wheel was passed, and its file went",
    9961: "a victim put late was in the wheel at a second stop, its mark forgotten: it came back",
}
"""Runs that failed once, and what they found."""
FOUND_BY_HARMS = {
    3784: "a record that was not synced yet was believed although its kind had changed",
    4635: "what a full disk refused came back with a power loss; the run did not know of it",
    5596: "a move that a full disk cut in half was forgotten, as messages had come behind it",
    6612: "a hop in the queue was listed though its mark had passed by",
    8544: "a record that names a message before the log's first byte was taken for an expired one",
}
"""The same of runs in which bits flip and saves find no room."""
REPEATED = 3


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_with_crashes_releases_or_recalls_every_durable_timer_once(seed: int) -> None:
    outcome = play(seed)
    assert not outcome.error, f"{outcome.error}\nrepeat: {outcome.command}"
    assert outcome.totals["operations"] >= 200
    assert outcome.seen["timers"] >= 50
    assert outcome.totals["crashes"] >= 2


@pytest.mark.parametrize("seed", FOUND)
def test_a_run_that_found_something_finds_it_no_more(seed: int) -> None:
    outcome = play(seed, harms=False)
    assert not outcome.error, FOUND[seed]


@pytest.mark.parametrize("seed", FOUND_BY_HARMS)
def test_a_harmed_run_that_found_something_finds_it_no_more(seed: int) -> None:
    outcome = play(seed)
    assert not outcome.error, FOUND_BY_HARMS[seed]


@pytest.mark.parametrize("seed", SLICED_SEEDS)
def test_the_sliced_engine_keeps_the_same_promise(seed: int) -> None:
    outcome = play(seed, "sliced")
    assert not outcome.error, f"{outcome.error}\nrepeat: {outcome.command}"
    assert outcome.seen["timers"] >= 50
    assert outcome.totals["crashes"] >= 2


def test_a_seed_always_tells_the_same_story() -> None:
    first, second = play(REPEATED), play(REPEATED)
    assert (first.totals, first.seen, first.checks) == (
        second.totals,
        second.seen,
        second.checks,
    )


def test_what_never_happened_is_named() -> None:
    assert "torn writes" in Report().zeros()
    assert "nothing twice" in Report().zeros()
    assert "rolls" in Report().zeros()
    assert "rolls" not in Report("sliced").zeros()


# --- the disk itself -------------------------------------------------------------------------


def _disk(seed: int = 0) -> Disk:
    return Disk(Random(seed), persistent=False)


def test_a_process_dies_at_the_chosen_change_and_can_change_nothing_more() -> None:
    disk = _disk()
    segment = disk.open_segment("log/0", 100)
    disk.arm(2)
    segment.write(0, b"whole")
    with pytest.raises(SimulatedCrash):
        segment.write(5, b"torn-torn")
    with pytest.raises(SimulatedCrash):
        disk.remove("log/0")
    disk.reboot(power_lost=False)
    found = disk.read_file("log/0")
    assert found.startswith(b"whole")
    assert found.rstrip(b"\0") in {b"whole" + b"torn-torn"[:kept] for kept in range(10)}


@pytest.mark.parametrize("seed", range(20))
def test_a_power_loss_keeps_what_was_synced_and_a_prefix_of_the_rest(seed: int) -> None:
    disk = _disk(seed)
    segment = disk.open_segment("log/0", 100)
    segment.write(0, b"AAAA")
    segment.sync()
    disk.sync_dir("log")
    segment.write(4, b"BBBB")
    segment.write(8, b"CCCC")
    segment.write(2, b"DD")
    disk.reboot(power_lost=True)
    left = disk.read_file("log/0").rstrip(b"\0")
    prefixes = {b"AAAABBBBCCCC"[:end] for end in range(4, 13)}
    assert left in prefixes | {b"AADABBBBCCCC", b"AADDBBBBCCCC"}


@pytest.mark.parametrize("seed", range(20))
def test_a_power_loss_may_take_back_a_rename_but_never_the_synced_content(seed: int) -> None:
    disk = _disk(seed)
    disk.write_file("config/meta", b"old")
    disk.sync_file("config/meta")
    disk.sync_dir("config")
    disk.write_file("config/meta.tmp", b"new")
    disk.sync_file("config/meta.tmp")
    disk.rename("config/meta.tmp", "config/meta")
    disk.reboot(power_lost=True)
    assert disk.read_file("config/meta") in {b"old", b"new"}


def test_a_full_disk_refuses_writes_and_leaves_a_part_of_them() -> None:
    disk = _disk()
    segment = disk.open_segment("log/0", 100)
    disk.full_for = 1
    with pytest.raises(StoreError):
        segment.write(0, b"refused")
    assert b"refused".startswith(disk.read_file("log/0").rstrip(b"\0"))
    segment.write(0, b"fits")
    assert disk.read_file("log/0").startswith(b"fits")

"""The wheel's slots, its file, and the search for the next waiting slot."""

from __future__ import annotations

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.timer.wheel.slots import NO_SLOT, Slot, TimerWheel

P = 500
T = 1_700_000_000_000
IGNORE = -2
NO_POSITION = 2**63 - 1


def small_wheel(fs: MemoryFileSystem | None = None, slots: int = 30) -> TimerWheel:
    return TimerWheel(fs or MemoryFileSystem(), "timerwheel", slots=slots, precision_ms=P)


def from_time_on(wheel: TimerWheel, start_ms: int) -> list[Slot]:
    turn_ms = wheel.slots_total * P
    return [slot for slot in wheel.used_slots() if 0 <= slot.time_ms - start_ms < turn_ms]


def all_num(wheel: TimerWheel, start_ms: int) -> int:
    """`TimerWheel.getAllNum` of the original, by what a wheel offers."""
    return sum(slot.num for slot in from_time_on(wheel, start_ms))


def check_phy_pos(wheel: TimerWheel, start_ms: int, max_pos: int) -> int:
    """`TimerWheel.checkPhyPos` of the original, by what a wheel offers."""
    found = [slot.first_pos for slot in from_time_on(wheel, start_ms) if slot.last_pos > max_pos]
    return min(found, default=NO_POSITION)


def revise_slot(wheel: TimerWheel, time_ms: int, first: int, last: int, *, force: bool) -> None:
    """`TimerWheel.reviseSlot` of the original, by what a wheel offers."""
    slot = wheel.get_slot(time_ms)
    if slot is not NO_SLOT:
        first = slot.first_pos if first == IGNORE else first
        wheel.put_slot(time_ms, first, slot.last_pos if last == IGNORE else last)
    elif force:
        wheel.put_slot(time_ms, last if first == IGNORE else first, last)


@pytest.mark.case("F7")
def test_a_new_wheel_has_no_slot_and_gives_back_what_is_put() -> None:
    wheel = small_wheel()
    assert wheel.get_slot(T) == Slot(-1, -1, -1, 0, 0)
    wheel.put_slot(T, 1, 2, 3, 4)
    assert wheel.get_slot(T) == Slot(T, 1, 2, 3, 4)
    assert wheel.get_slot(T + P - 1).time_ms == T


@pytest.mark.case("F8")
def test_the_live_numbers_of_single_slots_and_of_all_from_a_time_on() -> None:
    wheel = small_wheel()
    wheel.put_slot(T, 1, 2, 3, 0)
    wheel.put_slot(T + 5 * P, 3, 4, 7, 0)
    assert (wheel.get_num(T), wheel.get_num(T + 5 * P)) == (3, 7)
    assert all_num(wheel, T) == 10
    assert all_num(wheel, T + P) == 7


@pytest.mark.case("F9")
def test_the_smallest_first_position_of_slots_that_reach_beyond_a_position() -> None:
    wheel = small_wheel()
    for number, at in ((1, T), (2, T + 5 * P), (3, T + 10 * P)):
        wheel.put_slot(at, number, number * 100)
    found = [check_phy_pos(wheel, T, beyond) for beyond in (50, 100, 200, 300)]
    assert found == [1, 2, 3, NO_POSITION]
    assert check_phy_pos(wheel, T + 5 * P, 50) == 2


@pytest.mark.case("F10")
def test_a_slot_is_revised_in_parts_and_taken_over_only_by_force() -> None:
    wheel = small_wheel()
    wheel.put_slot(T, 1, 2)
    revise_slot(wheel, T + 60 * P, 7, 8, force=False)
    assert wheel.get_slot(T)[1:3] == (1, 2)
    revise_slot(wheel, T, IGNORE, 4, force=False)
    assert wheel.get_slot(T)[1:3] == (1, 4)
    revise_slot(wheel, T, 3, IGNORE, force=False)
    assert wheel.get_slot(T)[1:3] == (3, 4)
    revise_slot(wheel, T + 60 * P, IGNORE, 5, force=True)
    assert wheel.get_slot(T) is NO_SLOT
    assert wheel.get_slot(T + 60 * P)[:3] == (T + 60 * P, 5, 5)


@pytest.mark.case("F11")
def test_a_flushed_wheel_opens_with_its_own_number_of_slots_only() -> None:
    fs = MemoryFileSystem()
    wheel = small_wheel(fs)
    wheel.put_slot(T, 1, 2, 3, 4)
    wheel.begin_flush().run()
    wheel.close()
    again = small_wheel(fs)
    assert again.load()
    assert again.get_slot(T) == Slot(T, 1, 2, 3, 4)
    with pytest.raises(StoreError, match="1920 bytes, this wheel needs 1984"):
        small_wheel(fs, slots=31).load()


@pytest.mark.case("F12")
def test_the_golden_slot_lies_at_its_place_in_a_file_of_the_originals_length() -> None:
    fs = MemoryFileSystem()
    wheel = TimerWheel(fs, "timerwheel", precision_ms=1000)
    wheel.put_slot(1_700_000_005_000, 0, 0, 1, 0)
    wheel.begin_flush().run()
    segment = fs.open_segment("timerwheel", 38_707_200, create=False)
    expected = "000000006553f105000000000000000000000000000000000000000100000000"
    assert bytes(segment.view(16_384_160, 32)).hex() == expected
    assert not any(segment.view(0, 16_384_160))


def test_only_changed_pages_are_written() -> None:
    wheel = small_wheel(slots=1000)
    wheel.put_slot(T, 1, 1)
    wheel.put_slot(T + P, 2, 2)
    work = wheel.begin_flush()
    assert len(work.pages) == 1
    assert wheel.begin_flush().pages == {}
    wheel.flush_failed(work)
    assert wheel.begin_flush().pages == work.pages


def test_an_unwritten_file_counts_as_none() -> None:
    fs = MemoryFileSystem()
    assert not small_wheel(fs).load()
    fs.write_file("timerwheel", b"")
    assert not small_wheel(fs).load()


def test_putting_without_number_keeps_the_old_one() -> None:
    wheel = small_wheel()
    wheel.put_slot(T, 1, 2, 3, 4)
    wheel.put_slot(T, 5, 6)
    assert wheel.get_slot(T) == Slot(T, 5, 6, 3, 4)
    assert wheel.stored_time_ms(T + 60 * P) == T


def test_waiting_slots_are_found_in_the_order_of_time_across_the_end_of_the_wheel() -> None:
    wheel = small_wheel()
    late = T + 59 * P
    for slot_ms in (late, T + 20 * P, T + 3 * P):
        wheel.put_slot(slot_ms, 1, 1)
    found = []
    at = wheel.next_waiting(T)
    while at is not None:
        found.append(at)
        wheel.leave(at)
        at = wheel.next_waiting(at)
    assert found == [T + 3 * P, T + 20 * P, late]


def test_a_slot_that_is_loaded_already_does_not_wait() -> None:
    wheel = small_wheel()
    wheel.put_slot(T, 1, 1, waiting=False)
    assert wheel.next_waiting(T) is None
    wheel.put_slot(T + P, 1, 1)
    assert wheel.next_waiting(T) == T + P


def test_slots_that_a_file_holds_wait_again_from_a_time_on_even_far_ahead() -> None:
    wheel = small_wheel()
    far = T + 100 * P
    for at in (T, T + 5 * P, far):
        wheel.put_slot(at, 1, 1)
    wheel.mark_waiting(T + P)
    assert wheel.next_waiting(T + P) == T + 5 * P
    wheel.leave(T + 5 * P)
    assert wheel.next_waiting(T + 6 * P) == far
    assert wheel.next_waiting(T + 60 * P) == far
    wheel.leave(far)
    assert wheel.next_waiting(T + 60 * P) is None

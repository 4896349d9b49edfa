"""Below which offset no waiting timer needs the commit log."""

from tests.unit.embedded_broker.timer.timer_rig import Rig


def lowest(rig: Rig) -> int:
    needed = rig.timers.needed_offsets
    return min([*needed.ahead(), *needed.now()], default=rig.store.log.max_offset)


def offset_of(rig: Rig, delay_ms: int) -> int:
    result = rig.send({"TIMER_DELAY_MS": str(delay_ms)})
    assert result.ok
    return result.commit_log_offset


def test_the_oldest_waiting_timer_counts_wherever_it_is() -> None:
    rig = Rig()
    rig.send()
    in_two_minutes = offset_of(rig, 120_000)
    rig.send()
    in_a_minute = offset_of(rig, 60_000)
    rig.send()
    soon = offset_of(rig, 500)
    assert lowest(rig) == in_two_minutes

    rig.advance(70_000)
    assert lowest(rig) == in_two_minutes
    rig.advance(60_000)
    assert lowest(rig) > soon > in_a_minute
    rig.close()


def test_timers_that_are_not_enqueued_yet_or_already_loaded_count_too() -> None:
    rig = Rig()
    rig.config.update(timerStopEnqueue=True)
    held = offset_of(rig, 30_000)
    assert lowest(rig) == held
    rig.config.update(timerStopEnqueue=False)
    rig.fire()
    rig.advance(29_500)
    assert lowest(rig) == held
    rig.advance(1000)
    assert lowest(rig) > held
    rig.close()


def test_a_timer_that_is_kept_past_its_hop_by_a_jump_counts() -> None:
    rig = Rig(config={"timerRollWindowSlot": 10})
    held = offset_of(rig, 35_000)
    rig.advance(20_000, elide=True)
    rig.clock.now_ms += 1
    assert lowest(rig) <= rig.store.log.max_offset
    rolled = lowest(rig)
    assert rolled == held or rig.store.record(rolled) is not None
    rig.advance(20_000)
    assert rig.bodies() == [b"1"]
    rig.close()


def test_timers_found_after_a_crash_count() -> None:
    rig = Rig()
    held = offset_of(rig, 60_000)
    rig.send()
    rig.crash()
    assert lowest(rig) == held
    rig.close()

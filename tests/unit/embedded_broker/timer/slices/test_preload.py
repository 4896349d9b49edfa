"""A slice comes into memory before it begins."""

from __future__ import annotations

import pytest

from tests.unit.embedded_broker.timer.slices.slice_rig import Short, SliceRig


@pytest.mark.case("E3")
@pytest.mark.parametrize("cell", ["offset", "message"])
def test_a_message_that_comes_while_its_slice_is_loaded_is_delivered_once(cell: str) -> None:
    rig = SliceRig(config={"sliceCell": cell, "mappedFileSizeDCommitLog": 1 << 16})
    for _ in range(100):
        rig.timer(41_000)
    rig.clock.now_ms += 36_000
    rig.timers.fire(rig.clock.now_ms, horizon_ms=0, budget=Short(2))
    preload = rig.timers.stages["SlicePreloadService"]
    while not 0 < preload.counters["records"] < 100:
        rig.timers.fire(rig.clock.now_ms, horizon_ms=0, budget=Short(1))
    assert preload.queue_depth > 0
    rig.timer(5000)
    assert rig.timers.stages["SliceDispatchService"].counters["next wheel"] == 1
    rig.advance(10_000)
    assert rig.bodies() == [b"%d" % number for number in range(1, 102)]

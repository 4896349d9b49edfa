"""What belongs to the store and not to its settings."""

from __future__ import annotations

import pytest

from embedded_broker.timer.slices.opening import first_offset
from rocketmq_py.errors import ConfigError
from tests.unit.embedded_broker.timer.slices.slice_rig import START_MS, SliceRig


def test_without_levels_the_engine_serves_them_from_the_document_s_queue() -> None:
    rig = SliceRig(levels_off=True)
    rig.send({"DELAY": "2"})
    rig.timer(1000)
    rig.send({"DELAY": "99"})
    assert rig.store.max_offset("SCHEDULE_TOPIC_XXXX", 1) == 3
    assert rig.timers.count() == 3
    rig.advance(5000)
    assert rig.bodies() == [b"2", b"1"]
    rig.crash()
    rig.advance(7_200_000)
    assert rig.bodies() == [b"2", b"1", b"3"]
    assert rig.messages()[-1].stored_at_ms == START_MS + 7_200_000


@pytest.mark.parametrize(
    ("name", "other"), [("timeSliceLength", 120), ("mappedFileSizeDCommitLog", 2048)]
)
def test_a_setting_that_is_not_the_store_s_is_refused(name: str, other: int) -> None:
    rig = SliceRig()
    rig.timer(200_000)
    rig.close()
    rig.settings[name] = other
    with pytest.raises(ConfigError, match=name):
        rig.open()
    rig.store.close()


@pytest.mark.parametrize(
    ("name", "kept"), [("timeSliceLength", 60), ("mappedFileSizeDCommitLog", 4096)]
)
def test_a_default_gives_way_to_what_the_store_has(name: str, kept: int) -> None:
    rig = SliceRig()
    rig.timer(200_000)
    rig.close()
    del rig.settings[name]
    rig.open()
    state = rig.timers._state
    assert {"timeSliceLength": state.length, "mappedFileSizeDCommitLog": state.log.file_size}[
        name
    ] == kept
    rig.advance(200_000)
    assert rig.bodies() == [b"1"]


def test_the_shared_queue_begins_where_the_level_has_come_to() -> None:
    tables: list[dict[str, object]] = [{}, {"offsetTable": {2: 7}}, {"offsetTable": {2: "x"}}]
    assert [first_offset(table) for table in tables] == [0, 7, 0]

"""Two writers, one delayOffset.json."""

from __future__ import annotations

import pytest

from embedded_broker.errors import StoreDamagedError
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.timer.delay_offsets import OFFSETS_FILE, DelayOffsetFile
from tests.unit.embedded_broker.timer.slices.slice_rig import SliceRig
from tests.unit.embedded_broker.timer.timer_rig import Rig

FOREIGN = b"""{
	"dataVersion":{
		"counter":3,
		"stateVersion":0,
		"timestamp":1700000000000
	},
	"offsetTable":{3:0,4:0
	},
	"sliceCurrentTime":1699999990000,
	"sliceDelayOffset":0,
	"somebodyElse":{"7":[1,2]},
	"timeSliceLength":60
}"""


def with_file() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.write_file(OFFSETS_FILE, FOREIGN)
    return fs


@pytest.mark.case("E7")
def test_the_wheel_s_broker_keeps_the_keys_of_the_sliced_engine() -> None:
    rig = Rig(with_file())
    rig.send({"DELAY": "3"})
    rig.advance(10_000)
    rig.close()
    table = DelayOffsetFile(rig.fs).load()
    assert table["offsetTable"] == {3: 1, 4: 0}
    assert (table["sliceCurrentTime"], table["timeSliceLength"]) == (1_699_999_990_000, 60)
    assert table["somebodyElse"] == {7: [1, 2]}
    assert b'offsetTable":{3:1,4:0' in rig.fs.read_file(OFFSETS_FILE)


@pytest.mark.case("E7")
def test_the_sliced_engine_keeps_the_levels_table_and_what_it_does_not_know() -> None:
    rig = SliceRig(with_file())
    assert rig.timers._state.current_second == 1_699_999_990
    rig.timer(1000)
    rig.advance(5000)
    rig.timers.close()
    rig.store.close()  # the levels were not saved
    table = DelayOffsetFile(rig.fs).load()
    assert table["offsetTable"] == {3: 0, 4: 0}
    assert table["dataVersion"]["counter"] == 3
    assert table["somebodyElse"] == {7: [1, 2]}
    assert table["sliceDelayOffset"] == 1
    assert b'offsetTable":{3:0,4:0' in rig.fs.read_file(OFFSETS_FILE)


@pytest.mark.case("E7")
def test_both_writers_of_one_broker_save_without_losing_each_other_s_part() -> None:
    rig = SliceRig()
    rig.send({"DELAY": "2"})
    rig.timer(1000)
    rig.advance(6000)
    rig.flush()
    rig.restart()
    table = DelayOffsetFile(rig.fs).load()
    assert table["offsetTable"] == {2: 1}
    assert table["sliceDelayOffset"] == 1
    rig.advance(10_000)
    assert rig.bodies() == [b"2", b"1"]


@pytest.mark.parametrize("content", [b"[1,2]", b"", b"{", b'{"offsetTable":{"T@g":{0:1}}}'])
def test_a_file_that_holds_no_table_counts_as_missing_where_damage_may_be_skipped(
    content: bytes,
) -> None:
    fs = MemoryFileSystem()
    fs.write_file(OFFSETS_FILE, content)
    with pytest.raises(StoreDamagedError, match=OFFSETS_FILE):
        DelayOffsetFile(fs).load()
    file = DelayOffsetFile(fs, skip_damage=True)
    assert file.load() == {}
    assert file.problem is not None
    assert file.path == OFFSETS_FILE

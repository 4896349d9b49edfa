"""Recalling, firing early and moving timers of a sliced store."""

from __future__ import annotations

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.put_values import PutRefusal, PutStatus
from embedded_broker.timer.outcomes import MoveOutcome, RecallOutcome
from embedded_broker.timer.recall import delete_message
from embedded_broker.timer.slices.change import find_copies
from embedded_broker.timer.slices.marks import is_moved
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.protocol.properties import Prop
from tests.unit.embedded_broker.store.store_tools import delete_before
from tests.unit.embedded_broker.timer.slices.slice_rig import START_MS, SliceRig
from tests.unit.embedded_broker.timer.timer_rig import HOST


def handle_of(rig: SliceRig, key: str, *, topic: str = "T") -> RecallHandle:
    (copy,) = find_copies(rig.timers._state, key)
    out_ms = int(copy.record.properties[Prop.TIMER_OUT_MS])
    return RecallHandle(topic, "broker-a", out_ms + 1, key)


def recall_by_handle(rig: SliceRig, handle: RecallHandle) -> PutStatus:
    message = delete_message(handle, producer_group="G", now_ms=rig.clock.now_ms, born_host=HOST)
    return rig.store.put(message).status


@pytest.mark.parametrize("delay_ms", [5000, 50_000, 500_000])
@pytest.mark.parametrize("crash", [False, True])
def test_a_recalled_timer_never_leaves_whichever_slice_it_is_in(delay_ms: int, crash: bool) -> None:
    rig = SliceRig()
    keys = [rig.timer(delay_ms) for _ in range(3)]
    assert rig.timers.recall(keys[1]) is RecallOutcome.RECALLED
    assert rig.timers.recall(keys[1]) is RecallOutcome.UNKNOWN
    assert rig.timers.count() == 2
    if crash:
        rig.flush()
        rig.crash()
        assert rig.timers.count() == 2
    rig.advance(delay_ms)
    assert rig.bodies() == [b"1", b"3"]
    assert rig.timers.recall(keys[0]) is RecallOutcome.ALREADY_DUE
    assert rig.timers.recall("nobody") is RecallOutcome.UNKNOWN
    assert rig.timers.count() == 0


@pytest.mark.parametrize("delay_ms", [5000, 500_000])
def test_a_recall_by_handle_removes_every_copy_of_its_id_in_the_second(delay_ms: int) -> None:
    rig = SliceRig()
    key, other = rig.timer(delay_ms), rig.timer(delay_ms)
    handle = handle_of(rig, key)
    assert recall_by_handle(rig, RecallHandle("Else", "b", handle.timestamp_ms, other)).name == (
        "PUT_OK"
    )
    assert recall_by_handle(rig, handle) is PutStatus.PUT_OK
    rig.serial = 0
    assert rig.timer(delay_ms) == key  # sent again after its mark: removed as well
    assert rig.timers.count() == 2  # nobody has counted it out yet
    rig.advance(delay_ms)
    assert rig.bodies() == [b"2"]
    assert rig.timers.count() == 0
    assert rig.timers.stages["SliceFireService"].counters["recalled"] == 2


def test_a_recall_in_the_last_second_is_refused_by_handle_and_works_by_id() -> None:
    rig = SliceRig()
    key = rig.timer(3000)
    handle = handle_of(rig, key)
    rig.advance(2500)
    assert recall_by_handle(rig, handle) is PutStatus.WHEEL_TIMER_MSG_ILLEGAL
    assert rig.timers.recall(key) is RecallOutcome.RECALLED
    rig.advance(5000)
    assert rig.bodies() == []


def test_a_timer_can_be_fired_now() -> None:
    rig = SliceRig()
    key, other = rig.timer(500_000), rig.timer(500_000)
    rig.clock.now_ms += 300
    assert rig.timers.fire_now(key) is MoveOutcome.MOVED
    assert rig.bodies() == [b"1"]
    assert rig.timers.count() == 1
    assert rig.timers.fire_now(key) is MoveOutcome.ALREADY_DUE
    assert rig.timers.fire_now("nobody") is MoveOutcome.UNKNOWN
    rig.flush()
    rig.crash()
    rig.advance(600_000)
    assert [one.properties["UNIQ_KEY"] for one in rig.messages()] == [key, other]


@pytest.mark.parametrize("crash", [False, True])
def test_a_timer_leaves_once_at_the_last_time_asked(crash: bool) -> None:
    rig = SliceRig()
    key = rig.timer(100_000)
    for delay_ms in (300_000, 20_000, 20_400, 100_000, 250_000):
        assert rig.timers.reschedule(key, START_MS + delay_ms) is MoveOutcome.MOVED
        assert rig.timers.count() == 1
        if crash:
            rig.crash()
    rig.advance(400_000)
    assert [one.stored_at_ms for one in rig.messages()] == [START_MS + 250_000]
    assert rig.timers.count() == 0


def test_a_timer_that_is_moved_to_a_second_with_a_mark_of_its_id_is_not_hit_by_it() -> None:
    rig = SliceRig()
    key = rig.timer(100_000)
    handle = handle_of(rig, key)
    rig.timers.reschedule(key, START_MS + 200_000)
    assert recall_by_handle(rig, handle) is PutStatus.PUT_OK
    rig.timers.reschedule(key, START_MS + 100_000)
    assert rig.timers.count() == 1
    rig.crash()
    assert rig.timers.count() == 1
    rig.advance(300_000)
    assert [one.stored_at_ms for one in rig.messages()] == [START_MS + 100_000]


def test_a_copy_and_a_mark_that_no_file_holds_together_are_stored_one_by_one() -> None:
    rig = SliceRig(config={"mappedFileSizeCommitLog": 1024})
    rig.send({"TIMER_DELAY_MS": "100000", "UNIQ_KEY": "K1", "own": "x" * 450})
    assert rig.timers.reschedule("K1", START_MS + 5000) is MoveOutcome.MOVED
    rig.advance(200_000)
    assert [one.stored_at_ms for one in rig.messages()] == [START_MS + 5000]
    assert rig.timers.count() == 0


class RefusesMarks:
    name = "refuses marks"
    left = 0

    def before_put(self, msg: object, now_ms: int) -> PutRefusal | None:
        properties = getattr(msg, "properties", {})
        if self.left and Prop.TIMER_DEL_UNIQKEY in properties:
            self.left -= 1
            return PutRefusal(PutStatus.SERVICE_NOT_AVAILABLE)
        return None


def test_a_refused_move_changes_nothing() -> None:
    rig = SliceRig()
    hook = RefusesMarks()
    rig.store.hooks.listed.append(hook)
    key = rig.timer(100_000)
    hook.left = 1
    with pytest.raises(StoreError, match="keeps its time"):
        rig.timers.reschedule(key, START_MS + 5000)
    hook.left = 1
    with pytest.raises(StoreError, match="is not recalled"):
        rig.timers.recall(key)
    rig.advance(100_000)
    assert [one.stored_at_ms for one in rig.messages()] == [START_MS + 100_000]


@pytest.mark.parametrize("behind", [0, 3])
def test_a_moved_copy_without_its_mark_is_finished_before_anything_is_fired(behind: int) -> None:
    rig = SliceRig()
    key = rig.timer(100_000)
    changes = rig.timers._changes
    (copy,) = find_copies(rig.timers._state, key)
    assert rig.store.put(changes._replacement(copy, START_MS + 5000)).ok
    for _ in range(behind):  # a life that ended before its first step
        rig.timer(900_000)
    rig.crash()
    hook = RefusesMarks()
    hook.left = 1
    rig.store.hooks.listed.append(hook)
    rig.fire()
    assert rig.timers._changes.unfinished is not None
    assert rig.timers.next_deadline() is not None
    rig.advance(200_000)
    assert [one.stored_at_ms for one in rig.messages()] == [START_MS + 5000]
    assert rig.timers.count() == behind


# --- finding the timers of one id ----------------------------------------------------------------


@pytest.mark.parametrize("index", [True, False])
def test_every_timer_of_an_id_is_found_with_what_became_of_it(index: bool) -> None:
    rig = SliceRig(config={"messageIndexEnable": index})
    for delay, topic in ((1000, "A"), (50_000, "A"), (60_000, "B"), (200_000, "A")):
        rig.serial = 0
        rig.timer(delay, topic=topic)
    rig.advance(2000)
    rig.timers.reschedule("K1", rig.clock.now_ms + 90_000, "B")
    copies = find_copies(rig.timers._state, "K1")
    found = [(one.request.real_topic, one.waits, one.marked_by is not None) for one in copies]
    assert found == [
        ("A", False, False),
        ("A", True, False),
        ("B", True, True),
        ("A", True, False),
        ("B", True, False),
    ]
    assert [is_moved(one.record.properties) for one in copies] == [False] * 4 + [True]
    assert len(find_copies(rig.timers._state, "K1", "B")) == 2
    assert find_copies(rig.timers._state, "other") == []
    assert rig.timers.recall("K1", "B") is RecallOutcome.RECALLED
    assert rig.timers.count() == 2


def test_what_the_commit_log_has_let_go_is_found_in_its_slice() -> None:
    rig = SliceRig(config={"mappedFileSizeCommitLog": 4096})
    keys = [rig.timer(500_000) for _ in range(3)]
    rig.timers.recall(keys[0])
    for _ in range(60):
        rig.send()
    recent = rig.timer(500_000)
    assert delete_before(rig.store, rig.store.log.max_offset) > 0
    state = rig.timers._state
    assert [len(find_copies(state, key)) for key in (*keys, recent)] == [1] * 4
    assert [one.msg_id for one in rig.timers.find(keys[1])] == [keys[1]]
    assert rig.timers.find(keys[0]) == []
    assert rig.timers.count() == 3

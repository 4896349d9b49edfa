"""Taking back pending timers, by handle and by id."""

from __future__ import annotations

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.put_values import PutStatus
from embedded_broker.timer.outcomes import RecallOutcome
from embedded_broker.timer.recall import check_handle, delete_message
from embedded_broker.timer.wheel.change import find_copies
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.protocol.names import TIMER_TOPIC
from tests.unit.embedded_broker.timer.timer_rig import HOST, START_MS, Rig

RECALLED, ALREADY_DUE, UNKNOWN = (
    RecallOutcome.RECALLED,
    RecallOutcome.ALREADY_DUE,
    RecallOutcome.UNKNOWN,
)
HANDLE = RecallHandle("T", "broker-a", START_MS + 5001, "K1")


def handle_of(rig: Rig, key: str, topic: str = "T") -> RecallHandle:
    """What the answer to the send of this timer carried."""
    out_ms = next(
        int(one.properties["TIMER_OUT_MS"])
        for one in rig.messages(TIMER_TOPIC)
        if one.properties["UNIQ_KEY"] == key
    )
    return RecallHandle(topic, "broker-a", out_ms + 1, key)


def put_delete(rig: Rig, handle: RecallHandle) -> PutStatus:
    """Do what request 370 does after its checks."""
    message = delete_message(handle, producer_group="PG", now_ms=rig.clock.now_ms, born_host=HOST)
    return rig.store.put(message).status


def delivered(rig: Rig, topic: str = "T") -> list[str]:
    return [one.properties["UNIQ_KEY"] for one in rig.messages(topic)]


# --- by handle ---------------------------------------------------------------------------------


@pytest.mark.case("R2")
@pytest.mark.parametrize("precision_ms", [100, 200, 500, 1000])
@pytest.mark.parametrize("delay_ms", [5000, 5001, 5073, 5999])
def test_the_time_in_a_handle_leads_the_mark_to_the_victims_slot(
    precision_ms: int, delay_ms: int
) -> None:
    rig = Rig(config={"timerPrecisionMs": precision_ms, "timerReleasePrecisionMs": 1})
    handle = handle_of(rig, rig.timer(delay_ms))
    assert put_delete(rig, handle) is PutStatus.PUT_OK
    victim, mark = rig.messages(TIMER_TOPIC)
    assert int(victim.properties["TIMER_OUT_MS"]) == handle.timestamp_ms - 1
    assert mark.properties["TIMER_OUT_MS"] == victim.properties["TIMER_OUT_MS"]


@pytest.mark.case("R4")
def test_a_recalled_timer_is_never_delivered() -> None:
    rig = Rig()
    key = rig.timer(5000)
    other = rig.timer(5000)
    rig.advance(1000)
    assert put_delete(rig, handle_of(rig, key)) is PutStatus.PUT_OK
    assert rig.timers.count() == 1
    rig.advance(10_000)
    assert delivered(rig) == [other]
    assert rig.timers.count() == 0
    assert rig.timers.lost == {}


@pytest.mark.case("R5")
def test_a_handle_rebuilt_with_another_topic_removes_nothing() -> None:
    rig = Rig()
    key = rig.timer(5000)
    assert put_delete(rig, handle_of(rig, key, topic="other")) is PutStatus.PUT_OK
    assert rig.timers.count() == 1
    rig.advance(10_000)
    assert delivered(rig) == [key]
    assert rig.messages("other") == []


@pytest.mark.case("R6")
@pytest.mark.parametrize(
    ("topic", "broker", "now_ms", "word"),
    [
        ("U", "broker-a", START_MS, "topic not match"),
        ("T", "broker-b", START_MS, "broker service not available"),
        ("T", "broker-a", START_MS + 5001, "timestamp invalid, 0 ms are left"),
        ("T", "broker-a", START_MS + 5001 - 259_200_000, "timestamp invalid"),
    ],
)
def test_a_handle_of_another_place_or_time_is_illegal(
    topic: str, broker: str, now_ms: int, word: str
) -> None:
    refusal = check_handle(
        HANDLE, topic=topic, broker_name=broker, now_ms=now_ms, max_delay_sec=259_200
    )
    assert refusal is not None
    assert word in refusal


def test_a_handle_of_this_place_with_time_left_passes() -> None:
    for now_ms in (START_MS, START_MS + 5000, START_MS + 5002 - 259_200_000):
        assert (
            check_handle(
                HANDLE, topic="T", broker_name="broker-a", now_ms=now_ms, max_delay_sec=259_200
            )
            is None
        )


@pytest.mark.case("R7")
def test_the_built_delete_message_is_the_originals() -> None:
    message = delete_message(HANDLE, producer_group="PG", now_ms=START_MS, born_host=HOST)
    assert (message.topic, message.queue_id, message.body) == ("T", 0, b"0")
    assert (message.born_timestamp, message.born_host) == (START_MS, HOST)
    assert message.properties == {
        "TAGS": "_RECALL_TAG_",
        "TIMER_DEL_UNIQKEY": "T+K1",
        "UNIQ_KEY": "K1",
        "TIMER_DELIVER_MS": str(START_MS + 5001),
        "BORN_TIMESTAMP": str(START_MS),
        "TRACE_CONTEXT": "",
        "PGROUP": "PG",
    }
    without = delete_message(HANDLE, producer_group=None, now_ms=START_MS, born_host=HOST)
    assert "PGROUP" not in without.properties


@pytest.mark.case("R8")
def test_in_the_last_slot_a_recall_by_handle_is_refused() -> None:
    rig = Rig()
    key = rig.timer(5500)
    handle = handle_of(rig, key)
    rig.advance(5400)
    refusal = check_handle(
        handle, topic="T", broker_name="broker-a", now_ms=rig.clock.now_ms, max_delay_sec=259_200
    )
    assert refusal is not None
    rig.advance(100)
    assert delivered(rig) == [key]


# --- marks and victims -------------------------------------------------------------------------


@pytest.mark.case("P13")
def test_one_of_five_is_removed_and_its_mark_is_never_visible() -> None:
    rig = Rig()
    keys = [rig.timer(5500) for _ in range(5)]
    put_delete(rig, handle_of(rig, keys[0]))
    rig.advance(10_000)
    assert delivered(rig) == keys[1:]


@pytest.mark.case("P14")
def test_topic_and_id_must_both_match_whoever_sends_the_mark() -> None:
    rig = Rig()
    first, second = rig.timer(5500), rig.timer(5500)
    mark = delete_message(
        handle_of(rig, first), producer_group=None, now_ms=rig.clock.now_ms, born_host=HOST
    )
    mark.topic = "whatever"
    assert rig.store.put(mark).ok
    put_delete(rig, handle_of(rig, second, topic="whatever"))
    rig.advance(10_000)
    assert delivered(rig) == [second]
    assert rig.messages("whatever") == []


@pytest.mark.case("P15")
def test_a_mark_without_victim_changes_no_count() -> None:
    rig = Rig()
    key = rig.timer(5500)
    handle = handle_of(rig, key)
    put_delete(rig, RecallHandle("T", "broker-a", handle.timestamp_ms, "XXX"))
    assert rig.timers.count() == 1
    rig.advance(10_000)
    assert delivered(rig) == [key]
    assert rig.timers.count() == 0


@pytest.mark.case("P16")
def test_a_mark_removes_also_a_victim_that_comes_after_it() -> None:
    rig = Rig()
    put_delete(rig, RecallHandle("T", "broker-a", START_MS + 5001, "K1"))
    rig.timer(5500)
    rig.advance(10_000)
    assert delivered(rig) == []
    assert rig.timers.count() == 0


@pytest.mark.case("P17")
def test_a_mark_in_another_slot_or_with_a_past_time_removes_nothing() -> None:
    rig = Rig()
    key = rig.timer(5500)
    other_slot = RecallHandle("T", "broker-a", START_MS + 6001, key)
    assert put_delete(rig, other_slot) is PutStatus.PUT_OK
    past = RecallHandle("T", "broker-a", START_MS - 1, key)
    assert put_delete(rig, past) is PutStatus.WHEEL_TIMER_MSG_ILLEGAL
    rig.advance(10_000)
    assert delivered(rig) == [key]


@pytest.mark.case("P18")
@pytest.mark.parametrize("elide", [False, True])
@pytest.mark.parametrize("recall_at_ms", [0, 3000, 11_000, 47_000])
def test_victim_and_mark_beyond_the_roll_window_meet_in_the_last_slot(
    elide: bool, recall_at_ms: int
) -> None:
    rig = Rig(config={"timerRollWindowSlot": 10})
    key, other = rig.timer(60_500), rig.timer(60_500)
    rig.advance(recall_at_ms)
    put_delete(rig, handle_of(rig, key))
    assert rig.timers.count() == 1
    rig.advance(70_000, elide=elide)
    assert delivered(rig) == [other]
    assert rig.timers.count() == 0


@pytest.mark.case("C22")
def test_an_exact_mark_follows_its_victim_through_rolls() -> None:
    rig = Rig(config={"timerRollWindowSlot": 10})
    key, other = rig.timer(60_500), rig.timer(60_500)
    rig.advance(25_000)
    assert rig.timers.recall(key) is RECALLED
    rig.crash()
    rig.advance(70_000)
    assert delivered(rig) == [other]


# --- by id -------------------------------------------------------------------------------------


def test_recall_by_id_says_what_it_found() -> None:
    rig = Rig()
    first, second = rig.timer(5000), rig.timer(6000)
    assert rig.timers.recall(first) is RECALLED
    assert rig.timers.recall(first) is UNKNOWN
    assert rig.timers.recall("nobody") is UNKNOWN
    assert rig.timers.recall(second, "other topic") is UNKNOWN
    rig.advance(10_000)
    assert delivered(rig) == [second]
    assert rig.timers.recall(second) is ALREADY_DUE
    assert rig.timers.recall(first) is UNKNOWN


def test_recall_by_id_works_until_the_release_itself() -> None:
    rig = Rig()
    key = rig.timer(5500)
    rig.advance(5499)
    assert rig.timers.recall(key, "T") is RECALLED
    assert rig.timers.count() == 0
    rig.advance(10_000)
    assert delivered(rig) == []


def test_a_timer_that_is_due_but_not_released_yet_can_still_be_recalled() -> None:
    rig = Rig()
    key = rig.timer(5500)
    rig.clock.now_ms += 60_000
    assert rig.timers.recall(key) is RECALLED
    rig.fire()
    assert delivered(rig) == []
    assert rig.timers.count() == 0


def test_every_waiting_copy_of_an_id_is_recalled() -> None:
    rig = Rig()
    for delay_ms in (5000, 30_000, 300_000):
        rig.send({"TIMER_DELAY_MS": str(delay_ms), "UNIQ_KEY": "same"})
    rig.advance(6000)
    assert rig.timers.recall("same") is RECALLED
    rig.advance(400_000)
    assert delivered(rig) == ["same"]


def test_copies_are_found_with_their_mark_and_the_newest_roll() -> None:
    rig = Rig(config={"timerRollWindowSlot": 10})
    key = rig.timer(60_500)
    rig.advance(30_000)
    (copy,) = find_copies(rig.timers._state, key)
    assert (copy.root, copy.waits, copy.marked_by) == (0, True, None)
    rig.timers.recall(key)
    (copy,) = find_copies(rig.timers._state, key)
    assert copy.marked_by is not None
    assert find_copies(rig.timers._state, key, "other") == []


def test_recall_by_id_works_without_an_index_and_after_many_rolls() -> None:
    for enabled in (True, False):
        rig = Rig(config={"messageIndexEnable": enabled, "timerRollWindowSlot": 2})
        key, other = rig.timer(300_500), rig.timer(300_500)
        rig.advance(250_000)
        assert len(rig.messages(TIMER_TOPIC)) > 150
        assert rig.timers.recall(key) is RECALLED
        assert rig.timers.count() == 1
        rig.advance(30_000)
        assert rig.timers.recall(key) is UNKNOWN
        rig.advance(30_000)
        assert delivered(rig) == [other]
        assert rig.timers.recall(other) is ALREADY_DUE
        assert rig.timers.count() == 0


def test_a_recall_that_cannot_be_stored_recalls_nothing() -> None:
    rig = Rig()
    key = rig.timer(5000)
    rig.config.update(maxMessageSize=1)
    rig.store.body_size_max = 0
    with pytest.raises(StoreError, match="is not recalled"):
        rig.timers.recall(key)
    rig.store.body_size_max = 10
    rig.advance(5000)
    assert delivered(rig) == [key]

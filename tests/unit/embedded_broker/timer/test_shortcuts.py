"""The quick ways of the timer store give the same bytes as the slow ones that they replace."""

from __future__ import annotations

from random import Random

import pytest

from embedded_broker.store.inner import InnerMessage, PutRefusal, PutStatus
from embedded_broker.timer.timer_log import BROKEN, LogEntry
from rocketmq_py.protocol.properties import encode_properties
from tests.unit.embedded_broker.timer.timer_rig import START_MS, Endless, FailingPuts, Rig


class Curious:
    """A put hook that wants to see every message, so that nothing is copied whole."""

    name = "curious"

    def before_put(self, msg: InnerMessage, now_ms: int) -> PutRefusal | None:
        del msg, now_ms
        return None


def busy(*, curious: bool) -> Rig:
    """Timers of every kind, on several queues, some with tags, some rolled, some recalled."""
    rig = Rig(config={"timerRollWindowSlot": 60, "timerMaxDelaySec": 3000})
    if curious:
        rig.store.put_hooks.append(Curious())
    chance = Random(3)
    for number in range(300):
        properties = {
            "TIMER_DELAY_MS": str(chance.randrange(100, 200_000)),
            "TAGS": f"t{number % 3}",
        }
        if number % 2:
            del properties["TAGS"]
        rig.send(properties, topic=f"T{number % 4}", queue_id=number % 3)
        if not number % 20:
            rig.advance(chance.randrange(3000), elide=bool(number % 40))
        if not number % 17:
            rig.timers.recall(f"K{chance.randrange(rig.serial) + 1}")
    rig.advance(120_000)
    rig.advance(250_000, elide=True)
    return rig


def test_timers_released_together_lie_as_if_released_one_by_one() -> None:
    together, single = busy(curious=False), busy(curious=True)
    end = single.store.log.max_offset
    assert end == together.store.log.max_offset
    assert sum(len(single.messages(f"T{number}")) for number in range(4)) > 200
    for (_, expected), (_, actual) in zip(
        single.store.log.files.chunks(0, end), together.store.log.files.chunks(0, end), strict=True
    ):
        assert bytes(expected) == bytes(actual)
    for key, queue in single.store.queues.items():
        entries = list(queue.iterate(0))
        assert entries == list(together.store.queues[key].iterate(0)), key
    assert single.timers.metrics.snapshot()["timingCount"].keys() == (
        together.timers.metrics.snapshot()["timingCount"].keys()
    )
    assert (single.timers.count(), together.timers.count()) == (0, 0)
    times = [one.properties.get("TIMER_ROLL_TIMES") for one in together.messages("T1")]
    assert {None, "1", "2"} <= set(times)


def test_a_refused_write_of_many_is_tried_again_and_loses_nothing() -> None:
    rig = Rig()
    for _ in range(50):
        rig.timer(2000)
    refusing = FailingPuts(PutStatus.CREATE_MAPPED_FILE_FAILED, 2)
    rig.store.put_hooks.append(refusing)
    rig.advance(2000)
    assert rig.bodies() == []
    rig.store.put_hooks.remove(refusing)
    rig.advance(5000)
    assert rig.bodies() == [b"%d" % number for number in range(1, 51)]


def test_a_walk_gives_what_the_chain_gives() -> None:
    rig = Rig()
    for number in range(60):
        rig.timer(30_000 + number % 3 * 1000)
    log = rig.timers._state.log
    slots = [slot for slot in rig.timers._state.wheel.used_slots() if slot.num]
    assert len(slots) == 3
    for slot in slots:
        expected = [tuple(record) for _, record in log.chain(slot.last_pos, slot.time_ms)]
        found: list[LogEntry] = []
        position = slot.last_pos
        while position >= 0:
            position = log.walk(position, slot.time_ms, 7, found)
        assert position == -1
        assert expected == [entry[1:-1] for entry in found]
        assert log.walk(slot.last_pos, slot.time_ms + 1000, 7, []) == BROKEN
        assert log.walk(log.end, slot.time_ms, 7, []) == BROKEN


def test_a_scan_in_parts_gives_the_records_that_a_scan_gives() -> None:
    rig = busy(curious=False)
    log = rig.store.log
    expected = [
        (
            one.commit_log_offset,
            one.size,
            one.topic,
            one.queue_id,
            one.queue_offset,
            one.sys_flag,
            one.store_timestamp,
            one.properties_bytes,
        )
        for one in log.scan(0)
    ]
    assert len(expected) > 500
    assert expected == list(log.scan_parts(0))
    middle, _, *_ = expected[len(expected) // 2]
    assert [one for one in expected if one[0] < middle] == list(log.scan_parts(0, middle))
    log.files.write(middle + 100, b"\0\0\0\0")
    assert [one.commit_log_offset for one in log.scan(0)] == [one[0] for one in log.scan_parts(0)]


@pytest.mark.parametrize(
    "stored", [b"UNIQ_KEY\x01K\x02TIMER_DELAY_MS\x011000\x02", b"A\x01\x02", None]
)
def test_an_accepted_timer_is_stored_with_all_its_properties(stored: bytes | None) -> None:
    rig = Rig()
    properties = {"UNIQ_KEY": "K", "TIMER_DELAY_MS": "1000"}
    message = InnerMessage("T", 3, b"", properties, properties_bytes=stored)
    assert rig.store.put(message).ok
    record = rig.store.record(0)
    assert record is not None
    assert record.properties["REAL_TOPIC"] == "T"
    assert record.properties["REAL_QID"] == "3"
    assert record.properties["TIMER_OUT_MS"] == str(START_MS)
    assert encode_properties(record.properties) == record.properties_bytes
    assert record.properties.keys() >= properties.keys()


def test_firing_through_is_firing_at_every_deadline() -> None:
    def filled() -> Rig:
        rig = Rig()
        for number in range(40):
            rig.timer(500 * number + 7)
        return rig

    stepped, through = filled(), filled()
    stepped.advance(30_000)
    pinned: list[int] = []

    def pin(due_ms: int) -> None:
        pinned.append(due_ms)
        through.clock.now_ms = max(through.clock.now_ms, due_ms)

    limit_ms = START_MS + 30_000
    fired = through.timers.fire_through(limit_ms, pin=pin, horizon_ms=0, budget=Endless())
    assert fired == 40
    assert pinned == sorted(pinned)
    assert [(one.stored_at_ms, one.body) for one in stepped.messages()] == [
        (one.stored_at_ms, one.body) for one in through.messages()
    ]

"""The records of a timer topic alone tell what the inspector finds in a whole store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from embedded_broker.inspector.pages import wanted_of
from embedded_broker.inspector.pending import find_pending
from embedded_broker.inspector.reader import StoreFiles
from embedded_broker.inspector.topic import STRETCH, Progress, pending_of_topic
from embedded_broker.timer.listing import Pending
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop, encode_properties
from tests.archives import unpack_store
from tests.records import encode_record

NOW_MS = 1_700_000_000_000
ALL = wanted_of(topic=None, since_ms=None, before_ms=None, limit=1)


class Sent(NamedTuple):
    """One stored message of the topic: slot, id and more properties."""

    out_ms: int
    key: str
    more: dict[str, str]


class Topic:
    """A timer topic in memory, and which parts of it were pulled."""

    def __init__(self, *sent: Sent) -> None:
        self.records = [record_of(number, one) for number, one in enumerate(sent)]
        self.pulled: list[tuple[int, int]] = []

    def pull(self, start: int, past: int) -> Iterator[bytes]:
        self.pulled.append((start, past))
        for at in range(start, past, 2):
            yield b"".join(self.records[at : min(at + 2, past)])

    def found(self, *, read: int = 0, **wanted: object) -> list[Pending]:
        progress = Progress(read_ms=NOW_MS, queue_offset=read or 10**9, precision_ms=1_000)
        asked = {"topic": None, "since_ms": None, "before_ms": None} | wanted
        chosen = wanted_of(**asked, limit=1)  # type: ignore[arg-type]
        return list(pending_of_topic(self.pull, 0, len(self.records), progress, chosen))

    def keys(self, **arguments: object) -> list[str]:
        return [one.msg_id for one in self.found(**arguments)]  # type: ignore[arg-type]


def record_of(number: int, sent: Sent) -> bytes:
    properties = {
        Prop.TIMER_OUT_MS: str(sent.out_ms),
        Prop.UNIQ_KEY: sent.key,
        Prop.REAL_TOPIC: "T",
        Prop.REAL_QID: "0",
    }
    return encode_record(
        topic=TIMER_TOPIC,
        queue_id=0,
        flag=0,
        queue_offset=number,
        commit_log_offset=1_000 * number,
        sys_flag=0,
        born_timestamp=NOW_MS,
        born_host=bytes(8),
        store_timestamp=NOW_MS + number,
        store_host=bytes(8),
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=sent.key.encode(),
        properties=encode_properties(properties | sent.more),
    )


def timer(key: str, out_s: int = 100, **more: object) -> Sent:
    return Sent(NOW_MS + out_s * 1_000, key, {name: str(one) for name, one in more.items()})


def mark(key: str, out_s: int = 100, **more: object) -> Sent:
    return timer("mark", out_s, TIMER_DEL_UNIQKEY=f"T+{key}", **more)


def rolled(key: str, times: int, out_s: int = 100) -> Sent:
    """A copy as a real broker writes it."""
    return timer(key, out_s, TIMER_ROLL_TIMES=times)


def test_what_is_due_before_the_slot_that_is_read_has_left() -> None:
    topic = Topic(timer("gone", -1), timer("now", 0), timer("late but not read", -5))
    assert topic.keys() == ["now"]
    assert topic.keys(read=2) == ["now", "late but not read"]


def test_a_copy_that_a_real_broker_rolled_takes_the_place_of_the_one_before() -> None:
    topic = Topic(timer("a"), timer("b"), rolled("a", 1), rolled("a", 2), rolled("c", 7))
    found = topic.found()
    assert [(one.msg_id, one.rolls) for one in found] == [("b", 0), ("a", 2), ("c", 7)]
    assert [one.accepted_ms - NOW_MS for one in found] == [1, 3, 4]


def test_of_two_timers_with_one_id_as_many_stay_as_were_sent() -> None:
    topic = Topic(timer("a"), timer("a"), rolled("a", 1), timer("a", 101))
    assert [(one.root, one.rolls) for one in topic.found()] == [(1_000, 0), (2_000, 1), (3_000, 0)]


def test_a_copy_of_ours_names_the_first_one_and_keeps_its_time() -> None:
    hop = {"TIMER_ROLL_TIMES": 1, "TIMER_ROOT_OFFSET": 0, "TIMER_SRC_OFFSET": 0}
    (found,) = Topic(timer("a"), timer("a", **hop)).found()
    assert (found.rolls, found.root, found.accepted_ms) == (1, 0, NOW_MS)
    (found,) = Topic(timer("x", -1), timer("a", **hop | {"TIMER_ROOT_OFFSET": 77})).found()
    assert found.accepted_ms == NOW_MS + 1  # the first copy is gone


def test_a_timer_with_another_time_was_accepted_with_the_first() -> None:
    moved = timer("a", 50, TIMER_DEL_OFFSET=0, TIMER_DUE_MS=NOW_MS + 50_100)
    topic = Topic(timer("a"), timer("b"), moved, mark("a", TIMER_DEL_OFFSET=0))
    found = topic.found()
    assert [(one.msg_id, one.accepted_ms - NOW_MS) for one in found] == [("b", 1), ("a", 0)]
    assert found[1].due_ms == NOW_MS + 50_100
    (alone,) = Topic(timer("a", -1), timer("b", -1), moved).found()
    assert alone.accepted_ms == NOW_MS  # read for this, though nothing waits there


def test_a_mark_removes_what_has_its_key_in_its_slot_before_and_behind() -> None:
    topic = Topic(timer("a"), mark("a"), timer("a"), timer("a", 101), timer("b"), mark("c"))
    assert topic.keys() == ["a", "b"]
    assert topic.found()[0].root == 3_000
    of_one = Topic(timer("a"), timer("a"), rolled("a", 1), mark("a", TIMER_DEL_OFFSET=1_000))
    assert of_one.keys() == []
    ours = Topic(timer("a"), timer("a"), mark("a", TIMER_DEL_OFFSET=1_000))
    assert [one.root for one in ours.found()] == [0]


def test_messages_that_say_nothing_of_timers_are_passed_over() -> None:
    assert Topic(timer("a", TIMER_OUT_MS="soon"), timer("b", REAL_QID="x"), timer("c")).keys() == [
        "c"
    ]


def test_topic_and_due_times_choose() -> None:
    topic = Topic(timer("a", 1), timer("b", 2), timer("c", 3, REAL_TOPIC="U"), rolled("b", 1, 2))
    assert topic.keys(topic="U") == ["c"]
    assert topic.keys(topic="T", since_ms=NOW_MS + 3_000) == ["b"]
    assert topic.keys(since_ms=NOW_MS + 3_000, before_ms=NOW_MS + 3_001) == ["b"]
    assert topic.keys(before_ms=NOW_MS + 3_000) == ["a"]


def test_stretches_in_which_nothing_waits_are_not_read_again() -> None:
    gone = [timer("gone", -1)] * (STRETCH + 1)
    topic = Topic(*gone, timer("a"), timer("b", -1), timer("c"), *gone, timer("d"))
    assert topic.keys() == ["a", "c", "d"]
    first, second = STRETCH + 1, 2 * STRETCH + 5
    assert topic.pulled == [(0, second + 1), (first, first + 3), (second, second + 1)]


@pytest.mark.parametrize("name", ["r533-clean", "r533-crash"])
def test_stores_of_real_brokers_tell_the_same(name: str, tmp_path: Path) -> None:
    with StoreFiles.open(unpack_store(name, tmp_path)) as files:
        queue, log, checkpoint = files.timer_queue, files.commit_log, files.checkpoint
        assert queue is not None
        assert log is not None
        assert checkpoint is not None
        entries = list(queue.iterate(queue.min_offset))

        def pull(start: int, past: int) -> Iterator[bytes]:
            for number, (offset, size, _) in entries:
                if start <= number < past:
                    record = log.read(offset, size)
                    assert record is not None
                    yield bytes(record)

        progress = Progress(
            read_ms=files.read_ms,
            queue_offset=checkpoint.last_timer_queue_offset,
            precision_ms=files.precision_ms,
        )
        found = pending_of_topic(pull, queue.min_offset, queue.max_offset, progress, ALL)
        expected = find_pending(files)
        wheel = {
            (one.due_ms, one.root, one.accepted_ms, one.msg_id, one.rolls)
            for one in expected.page(wanted_of(topic=None, since_ms=None, before_ms=None, limit=99))
            if one.stored.topic == TIMER_TOPIC.encode()
        }
        assert {
            (one.due_ms, one.root, one.accepted_ms, one.msg_id, one.rolls) for one in found
        } == wheel
        assert wheel

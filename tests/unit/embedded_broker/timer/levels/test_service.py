"""The delay levels: times, order, offsets, failures."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedded_broker.errors import StoreDamagedError, StoreError
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.put_values import InnerMessage, PutResult, PutStatus
from embedded_broker.timer.delay_offsets import OFFSETS_FILE
from embedded_broker.timer.delivery import LatePut
from embedded_broker.timer.levels.service import ScheduleMessageService
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.delay import DEFAULT_LEVELS, parse_levels, retry_level
from rocketmq_py.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC
from rocketmq_py.protocol.sysflag import TRANSACTION_COMMIT
from tests.unit.embedded_broker.store.store_tools import delete_before
from tests.unit.embedded_broker.timer.timer_rig import (
    HOST,
    START_MS,
    Endless,
    FailingPuts,
    MovedClock,
    Rig,
    Short,
)

JAVA_FILE = (
    b'{\n\t"dataVersion":{\n\t\t"counter":3,\n\t\t"stateVersion":0,\n\t\t"timestamp":1700000000000'
    b'\n\t},\n\t"offsetTable":{3:0,4:2\n\t}\n}'
)


def send_level(rig: Rig, level: int, **properties: str) -> None:
    assert rig.send({"DELAY": str(level), **properties}).ok


def entry_times(rig: Rig, level: int) -> list[int]:
    queue = rig.store.consume_queue(SCHEDULE_TOPIC, level - 1)
    assert queue is not None
    return [code for _, (_, _, code) in queue.iterate(0)]


@pytest.mark.case("L1")
def test_the_default_text_gives_eighteen_levels_and_a_bad_one_fails() -> None:
    levels = parse_levels(DEFAULT_LEVELS)
    assert (len(levels), levels[2], levels[17]) == (18, 10_000, 7_200_000)
    assert len(Rig().levels._levels) == 18
    config = BrokerConfig({"messageDelayLevel": "1s 5x"})
    store = MessageStore(MemoryFileSystem(), config, MovedClock(), HOST)
    with pytest.raises(ConfigError, match="5x"):
        ScheduleMessageService(store, store.fs, config, store.clock)


@pytest.mark.case("L2")
def test_level_two_waits_five_seconds_and_its_entry_says_until_when() -> None:
    rig = Rig()
    send_level(rig, 2)
    assert entry_times(rig, 2) == [START_MS + 5000]
    rig.advance(4900)
    assert rig.messages() == []
    rig.advance(1300)
    (delivered,) = rig.messages()
    assert delivered.stored_at_ms == START_MS + 5000


def test_each_level_keeps_its_order_and_all_go_in_due_order() -> None:
    rig = Rig()
    for level in (3, 1, 2, 1):
        send_level(rig, level)
    rig.advance(500)
    send_level(rig, 1)
    deadline = rig.levels.next_deadline()
    assert deadline is not None
    assert deadline.due_ms == START_MS + 1000
    assert rig.levels.count() == 5
    rig.advance(20_000)
    assert rig.bodies() == [b"2", b"4", b"5", b"3", b"1"]
    assert (rig.levels.count(), rig.levels.next_deadline()) == (0, None)


@pytest.mark.case("L3")
def test_saved_offsets_beyond_the_queues_are_moved_back() -> None:
    fs = MemoryFileSystem()
    fs.write_file(OFFSETS_FILE, b'{"offsetTable":{1:500,2:700}}')
    rig = Rig(fs)
    assert rig.levels.offsets() == {1: 0, 2: 0}
    send_level(rig, 1)
    rig.close()
    fs.write_file(OFFSETS_FILE, b'{"offsetTable":{1:500,2:700}}')
    rig.open()
    assert rig.levels.offsets() == {1: 1, 2: 0}


def test_a_time_further_away_than_the_level_itself_counts_as_now() -> None:
    rig = Rig()
    send_level(rig, 3)
    rig.close()
    rig.clock.now_ms -= 3_600_000
    rig.open()
    rig.fire()
    assert rig.bodies() == [b"1"]


@pytest.mark.case("L4")
def test_levels_that_were_shortened_between_restarts_deliver_old_messages_at_once() -> None:
    rig = Rig()
    for level in (3, 4, 3):
        send_level(rig, level)
    rig.advance(500)
    rig.settings["messageDelayLevel"] = "1s 1s 1s 1s"
    rig.restart()
    send_level(rig, 3)
    assert entry_times(rig, 3) == [START_MS + 10_000] * 2 + [START_MS + 1500]
    rig.fire()
    assert rig.bodies() == [b"1", b"2", b"3"]
    rig.advance(1000)
    assert rig.bodies() == [b"1", b"2", b"3", b"4"]


@pytest.mark.case("L5")
def test_a_put_that_fails_is_tried_again_after_100_ms_in_order() -> None:
    rig = Rig()
    rig.store.hooks.listed.append(FailingPuts(PutStatus.SERVICE_NOT_AVAILABLE, 2))
    send_level(rig, 1)
    send_level(rig, 1)
    send_level(rig, 2)
    rig.store.hooks.listed.pop()
    hook = FailingPuts(PutStatus.SERVICE_NOT_AVAILABLE, 2)
    rig.store.hooks.listed.append(hook)
    rig.advance(1199)
    assert rig.bodies() == []
    rig.advance(1)
    assert rig.bodies() == [b"1", b"2"]
    assert hook.attempts == 4
    assert rig.levels.offsets()[1] == 2


ASYNC = {"enableScheduleAsyncDeliver": True}
SYNCED = {**ASYNC, "flushDiskType": "SYNC_FLUSH"}


@pytest.mark.case("L6")
def test_an_asynchronous_level_is_refused_behind_2001_unanswered_puts_and_keeps_its_order() -> None:
    rig = Rig(config={**SYNCED, "mappedFileSizeConsumeQueue": 60_000})
    for _ in range(2100):
        send_level(rig, 1)
    send_level(rig, 2)
    rig.advance(2000)
    assert rig.bodies() == [b"%d" % number for number in range(1, 2002)]
    assert rig.levels.offsets()[1] == 0
    assert rig.levels.count() == 2100 - 2001 + 1
    rig.flush()
    rig.advance(100)
    assert rig.levels.offsets()[1] == 2001
    assert rig.bodies() == [b"%d" % number for number in range(1, 2101)]
    rig.flush()
    rig.advance(100)
    assert rig.levels.offsets()[1] == 2100
    rig.advance(10_000)
    assert rig.bodies()[-1] == b"2101"


@pytest.mark.case("L6")
def test_offsets_move_in_order_when_answers_come_in_any_order() -> None:
    rig = Rig(config=ASYNC)
    puts: list[LatePut] = []

    def bridge(_message: InnerMessage) -> LatePut:
        puts.append(LatePut())
        return puts[-1]

    rig.levels.escape = bridge
    for _ in range(3):
        send_level(rig, 1)
    rig.advance(1000)
    stored = PutResult(PutStatus.PUT_OK)
    for number, expected in ((2, 0), (0, 1), (1, 3)):
        puts[number].finish(stored)
        rig.advance(10)
        assert rig.levels.offsets()[1] == expected
    assert rig.levels.next_deadline() is None


@pytest.mark.case("L6")
def test_a_failed_put_is_repeated_ever_more_slowly_and_blocks_its_level() -> None:
    rig = Rig(config=ASYNC)
    hook = FailingPuts(PutStatus.SERVICE_NOT_AVAILABLE, 6)
    send_level(rig, 1)
    rig.store.hooks.listed.append(hook)
    rig.advance(1000)
    assert hook.attempts == 1
    for wait_ms, attempts in ((99, 1), (1, 2), (200, 3), (300, 4), (400, 5)):
        rig.advance(wait_ms)
        assert hook.attempts == attempts
    send_level(rig, 1)
    send_level(rig, 2)
    rig.advance(499)
    assert hook.attempts == 5  # the first of level 1 is stuck, so its second waits
    rig.advance(1 + 599)
    assert rig.bodies() == []
    rig.advance(101)
    assert rig.bodies() == [b"1", b"2"]
    assert rig.levels.offsets()[1] == 2
    rig.advance(5000)
    assert rig.bodies() == [b"1", b"2", b"3"]


def test_a_message_that_is_gone_is_given_up_after_six_repeats() -> None:
    rig = Rig(config={**ASYNC, "mappedFileSizeCommitLog": 4096})
    rig.store.hooks.listed.append(FailingPuts(PutStatus.SERVICE_NOT_AVAILABLE, 2, topic="T"))
    for _ in range(40):
        send_level(rig, 1)
    rig.advance(1000)
    delete_before(rig.store, 4096)
    rig.advance(100)
    assert rig.levels.offsets()[1] == 0
    rig.advance(sum(range(100, 1700, 100)))
    assert rig.levels.offsets()[1] == 40
    assert rig.levels.next_deadline() is None
    assert rig.levels.skipped["unreadable"] == 2


@pytest.mark.parametrize("by_session", [False, True])
def test_a_repeat_that_the_disk_refuses_is_made_again(by_session: bool) -> None:
    rig = Rig(config=ASYNC)
    answers: list[PutResult | StoreError] = [
        PutResult(PutStatus.SERVICE_NOT_AVAILABLE),
        StoreError("no space left"),
        PutResult(PutStatus.PUT_OK),
    ]

    def bridge(_message: InnerMessage) -> PutResult:
        answer = answers.pop(0)
        if isinstance(answer, StoreError):
            raise answer
        return answer

    rig.levels.escape = bridge
    calls: list[Callable[[], None]] = []
    if by_session:
        rig.levels.session_timer = lambda _wait_ms, call: calls.append(call)
    send_level(rig, 1)
    rig.advance(1000)
    with pytest.raises(StoreError):
        calls.pop(0)() if by_session else rig.advance(100)
    if by_session:
        calls.pop(0)()
    rig.advance(1000)
    assert rig.levels.offsets()[1] == 1
    assert answers == []


def test_a_clean_stop_waits_for_the_sync_and_repeats_nothing() -> None:
    rig = Rig(config=SYNCED)
    asked: list[int] = []
    rig.levels.request_flush = lambda: asked.append(1)
    for _ in range(3):
        send_level(rig, 1)
    rig.advance(1000)
    assert rig.levels.offsets()[1] == 0
    assert asked
    rig.restart()
    rig.advance(5000)
    assert rig.bodies() == [b"1", b"2", b"3"]


def test_what_was_not_synced_is_repeated_after_a_crash() -> None:
    rig = Rig(config=SYNCED)
    send_level(rig, 1)
    rig.flush()
    rig.advance(1000)
    rig.crash()
    rig.advance(1000)
    assert rig.bodies() == [b"1", b"1"]


def test_without_asynchronous_delivery_a_bridge_gets_one_put_at_a_time() -> None:
    rig = Rig()
    puts: list[LatePut] = []

    def bridge(_message: InnerMessage) -> LatePut:
        puts.append(LatePut())
        return puts[-1]

    rig.levels.escape = bridge
    calls: list[Callable[[], None]] = []
    rig.levels.session_timer = lambda _wait_ms, call: calls.append(call)
    for _ in range(2):
        send_level(rig, 1)
    rig.advance(5000)
    assert len(puts) == 1
    puts[0].finish(PutResult(PutStatus.PUT_OK))
    while calls:
        calls.pop(0)()
    rig.fire()
    assert len(puts) == 2
    assert rig.levels.offsets()[1] == 1


def test_a_session_timer_waits_for_the_retry_when_there_is_one() -> None:
    rig = Rig()
    calls = []
    rig.levels.session_timer = lambda wait_ms, call: calls.append((wait_ms, call))
    send_level(rig, 1)
    rig.store.hooks.listed.append(FailingPuts(PutStatus.SERVICE_NOT_AVAILABLE, 1))
    rig.advance(5000)
    assert rig.levels.next_deadline() is None
    ((wait_ms, call),) = calls
    assert wait_ms == 100
    call()
    rig.fire()
    assert rig.bodies() == [b"1"]


@pytest.mark.case("L7")
def test_what_is_delivered_keeps_its_level_on_disk_and_does_not_wait_again() -> None:
    rig = Rig()
    send_level(rig, 3, KEYS="k", __STARTDELIVERTIME=str(START_MS + 99_000))
    rig.advance(10_000)
    (delivered,) = rig.messages()
    assert delivered.properties == {
        "UNIQ_KEY": "K1",
        "DELAY": "3",
        "KEYS": "k",
        "__STARTDELIVERTIME": str(START_MS + 99_000),
        "REAL_TOPIC": "T",
        "REAL_QID": "0",
    }
    assert (delivered.record.born_timestamp, delivered.record.born_host) == (START_MS - 5, HOST)


@pytest.mark.case("L8")
def test_the_level_of_a_retry_grows_with_the_tries_unless_one_is_given() -> None:
    assert [retry_level(0, tries) for tries in (0, 1, 15)] == [3, 4, 18]
    assert retry_level(5, 7) == 5
    rig = Rig()
    for tries in (0, 1, 15):
        put = InnerMessage("%RETRY%G", 0, b"x", {"DELAY": str(retry_level(0, tries))})
        assert rig.store.put(put).ok
    queues = [one.queue_id + 1 for one in rig.messages(SCHEDULE_TOPIC)]
    assert queues == [3, 4, 18]


@pytest.mark.case("L9")
def test_an_unknown_level_waits_one_second() -> None:
    assert Rig().levels.level_deliver_ms(999, START_MS) == START_MS + 1000


@pytest.mark.case("L10")
def test_a_crash_before_the_save_repeats_and_loses_nothing() -> None:
    rig = Rig()
    for _ in range(3):
        send_level(rig, 1)
    rig.flush()
    rig.advance(1000)
    rig.crash()
    rig.advance(1000)
    assert rig.bodies() == [b"1", b"2", b"3"] * 2
    rig.restart()
    rig.advance(10_000)
    assert len(rig.bodies()) == 6


@pytest.mark.case("F16")
def test_javas_offset_file_with_bare_keys_is_read_and_written() -> None:
    fs = MemoryFileSystem()
    fs.write_file(OFFSETS_FILE, JAVA_FILE)
    rig = Rig(fs)
    for _ in range(3):
        send_level(rig, 4)
    rig.abandon()
    rig.open()
    assert rig.levels.offsets() == {3: 0, 4: 2}
    rig.flush()
    assert fs.read_file(OFFSETS_FILE) == JAVA_FILE
    assert fs.read_file(OFFSETS_FILE + ".bak") == JAVA_FILE


def test_quoted_keys_and_a_missing_version_are_read_and_nonsense_is_not() -> None:
    for stored, expected in (
        (b'{"offsetTable":{"1":1}}', {1: 1}),
        (b'{"offsetTable":{}}', {1: 0}),
        (b'{"offsetTable":{"x":1,"1":"y"},"dataVersion":7}', None),
        (b"[1]", None),
    ):
        rig = Rig()
        send_level(rig, 1)
        rig.close()
        rig.fs.write_file(OFFSETS_FILE, stored)
        if expected is None:
            with pytest.raises(StoreDamagedError, match=OFFSETS_FILE):
                rig.open()
        else:
            rig.open()
            assert rig.levels.offsets() == expected


def test_offsets_are_written_only_when_they_changed_and_again_after_a_failure() -> None:
    rig = Rig()
    send_level(rig, 1)
    rig.flush()
    assert rig.levels.begin_flush().table is None
    rig.advance(1000)
    work = rig.levels.begin_flush()
    assert work.table is not None
    assert work.table["offsetTable"] == {1: 1}

    class Refusing:
        def save(self, content: object) -> None:
            raise StoreError("no")

    failing = type(work)(Refusing(), work.table, work.failed)  # type: ignore[arg-type]
    with pytest.raises(StoreError):
        failing.run()
    assert rig.levels.begin_flush().table is not None


def test_the_version_counts_every_step_of_moves() -> None:
    rig = Rig(config={"delayOffsetUpdateVersionStep": 2})
    for _ in range(5):
        send_level(rig, 1)
    rig.advance(1000)
    table = rig.levels.begin_flush().table
    assert table is not None
    assert table["dataVersion"] == {
        "counter": 2,
        "stateVersion": 0,
        "timestamp": START_MS + 1000,
    }


def test_messages_that_cannot_go_anywhere_are_skipped_and_counted() -> None:
    rig = Rig()
    for asked in ({}, {"REAL_TOPIC": "T", "REAL_QID": "x"}, {"REAL_TOPIC": HALF_TOPIC}):
        properties = {"DELAY": "1", "REAL_QID": "0", **asked}
        put = InnerMessage(SCHEDULE_TOPIC, 0, b"", properties)
        assert rig.store.put(put).ok
    send_level(rig, 1)
    rig.advance(1000)
    assert rig.bodies() == [b"1"]
    assert rig.levels.skipped == {"malformed": 3}


def test_a_committed_transaction_waits_at_its_level() -> None:
    rig = Rig()
    message = InnerMessage("T", 0, b"x", {"DELAY": "1"}, sys_flag=TRANSACTION_COMMIT)
    assert rig.store.put(message).ok
    rig.advance(1000)
    assert len(rig.messages()) == 1


def test_a_budget_ends_the_turn_and_the_rest_follows() -> None:
    rig = Rig()
    for _ in range(5):
        send_level(rig, 1)
    rig.clock.now_ms += 1000
    assert rig.fire(budget=Short(2)) == 2
    assert rig.fire() == 3


def test_a_closed_service_is_quiet() -> None:
    rig = Rig()
    send_level(rig, 1)
    rig.close()
    rig.levels.close()
    assert rig.levels.next_deadline() is None
    assert rig.jump(5000) == 0


def test_a_turn_that_ends_in_the_past_makes_no_new_message_early() -> None:
    rig = Rig()
    rig.send({"DELAY": "4"})
    rig.clock.now_ms += 100_000
    rig.send({"DELAY": "4"})
    turn_ms = START_MS + 40_000  # after which an overdue timer of the wheel comes first
    rig.levels.fire(turn_ms, horizon_ms=turn_ms, budget=Endless())
    rig.fire()
    assert rig.bodies() == [b"1"]
    rig.advance(30_000)
    assert [one.stored_at_ms - START_MS for one in rig.messages()] == [100_000, 130_000]

"""Records and the entries of consume queues are made to agree: each rule, seen from outside."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from embedded_broker.store.commit_log import Parts
from embedded_broker.store.consume_queue import ConsumeQueue
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.put_values import InnerMessage
from embedded_broker.store.queue_recovery import EntriesMissing, Misnamed, QueueRecovery
from rocketmq_py.protocol.names import SCHEDULE_TOPIC
from rocketmq_py.protocol.sysflag import INNER_BATCH, TRANSACTION_PREPARED
from tests.unit.embedded_broker.store.store_tools import message, new_store

FILE = 4096
SIZES = {"mappedFileSizeCommitLog": FILE, "mappedFileSizeConsumeQueue": 200}
T, U = ("T", 0), ("U", 0)


class Bench:
    """A store, its records, and one pass over them."""

    def __init__(self, *messages: InnerMessage) -> None:
        self.store: MessageStore = new_store(MemoryFileSystem(), config=SIZES)
        for one in messages:
            assert self.store.put(one).ok
        self.records: list[Parts] = list(self.store.log.scan_parts(0))

    def queue(self, key: tuple[str, int] = T) -> ConsumeQueue:
        return self.store.queues[key]

    def entries(self, key: tuple[str, int] = T) -> list[int | None]:
        """The commit-log offsets that a queue names; None where it names nothing."""
        queue = self.queue(key)
        found = [queue.entry(one) for one in range(queue.first_offset, queue.max_offset)]
        return [None if one is None else one[0] for one in found]

    def offsets(self, *numbers: int) -> list[int]:
        return [self.records[number][0] for number in numbers]

    def placing(self, *, start: int = 0, whole: bool = True, clean: bool = True) -> QueueRecovery:
        store = self.store
        return QueueRecovery(
            store.queues,
            store._queue,
            store._batch_queue,
            store._stored_code,
            start,
            whole=whole,
            clean=clean,
            log=store.log,
        )

    def pass_over(
        self, records: Sequence[Parts], **how: bool
    ) -> tuple[QueueRecovery, list[Misnamed]]:
        placing = self.placing(**how)
        for one in records:
            placing.see(one)
        return placing, placing.settle(self.store.log, self.store.log.max_offset)

    def rename(self, index: int, *, at: int, topic: str = "T", flag: int = 0) -> Parts:
        """Let a stored record name another queue and number, or have another flag."""
        offset, size = self.records[index][:2]
        segment, inside = self.store.log.files.locate(offset)
        data = bytearray(segment.read(inside, size))
        data[20:28] = at.to_bytes(8, signed=True)
        data[36:40] = flag.to_bytes(4)
        was = self.records[index][2].encode()
        name = data.rindex(was, 0, data.index(b"UNIQ_KEY"))
        data[name : name + len(was)] = topic.encode()
        segment.write(inside, data)
        self.records = list(self.store.log.scan_parts(0))
        return self.records[index]


def plain(count: int, topic: str = "T") -> list[InnerMessage]:
    return [message(number, topic) for number in range(count)]


# -- entries -------------------------------------------------------------------------------------


def test_entries_that_are_there_are_left_as_they_are() -> None:
    bench = Bench(*plain(5), *plain(3, "U"))
    placing, wrong = bench.pass_over(bench.records)
    assert (placing.added, wrong) == (0, [])
    assert placing.next_offsets == {T: 5, U: 3}
    assert bench.entries() == bench.offsets(0, 1, 2, 3, 4)


def test_entries_that_are_missing_at_the_end_are_added() -> None:
    bench = Bench(*plain(5))
    bench.queue().drop_from(2)
    placing, wrong = bench.pass_over(bench.records)
    assert (placing.added, wrong) == (3, [])
    assert bench.entries() == bench.offsets(0, 1, 2, 3, 4)


def test_an_entry_with_another_size_or_code_is_written_again() -> None:
    bench = Bench(*plain(5))
    offset, size, code = bench.records[2][0], bench.records[2][1], 0
    bench.queue().place(2, offset, size + 1, code)
    bench.queue().place(3, bench.records[3][0], bench.records[3][1], 77)
    placing, wrong = bench.pass_over(bench.records)
    assert (placing.added, wrong) == (2, [])
    assert bench.queue().entry(2) == (offset, size, code)
    assert bench.queue().entry(3) == (*bench.records[3][:2], 0)


@pytest.mark.parametrize("clean", [True, False])
def test_after_a_clean_stop_the_due_time_of_a_level_is_believed(*, clean: bool) -> None:
    bench = Bench(message(0, SCHEDULE_TOPIC, DELAY="3"))
    key = SCHEDULE_TOPIC, 0
    offset, size = bench.records[0][:2]
    bench.queue(key).place(0, offset, size, 12_345)  # by the levels of that time
    placing, _ = bench.pass_over(bench.records, clean=clean)
    assert placing.added == (0 if clean else 1)
    found = bench.queue(key).entry(0)
    assert found is not None
    assert (found[2] == 12_345) == clean


def test_entries_before_those_that_are_read_make_it_read_from_further_back() -> None:
    bench = Bench(*plain(5))
    bench.queue().drop_from(2)
    with pytest.raises(EntriesMissing):
        bench.pass_over(bench.records[3:], whole=False)
    bench.pass_over(bench.records[2:], whole=False)
    assert bench.entries() == bench.offsets(0, 1, 2, 3, 4)


def test_a_queue_without_its_oldest_files_is_filled_anew() -> None:
    bench = Bench(*plain(25))  # ten entries a file
    queue = bench.queue()
    queue.files.let_go_before(10 * 20)
    assert queue.first_offset == 10
    placing, wrong = bench.pass_over(bench.records)
    assert (placing.added, wrong) == (25, [])
    assert bench.entries() == bench.offsets(*range(25))


def test_an_entry_of_no_record_is_blanked() -> None:
    bench = Bench(*plain(5))
    offset, size = bench.records[2][:2]
    bench.queue().append([(offset + 3, size, 0)])
    placing, wrong = bench.pass_over(bench.records)
    assert (wrong, placing.next_offsets) == ([], {T: 5})
    assert bench.entries() == [*bench.offsets(0, 1, 2, 3, 4), None]


def test_queues_that_share_the_records_of_a_topic_are_not_judged() -> None:
    bench = Bench(*plain(3))
    shared = bench.store._queue("%LMQ%mine", 0)
    shared.append([(*bench.records[1][:2], 0)])
    _, wrong = bench.pass_over(bench.records)
    assert wrong == []
    assert bench.entries(("%LMQ%mine", 0)) == bench.offsets(1)


# -- records -------------------------------------------------------------------------------------


def test_a_record_that_names_another_queue_is_found_and_takes_nothing_from_it() -> None:
    bench = Bench(*plain(4), *plain(2, "U"))
    bench.rename(2, topic="U", at=2)
    placing, wrong = bench.pass_over(bench.records)
    offset, size = bench.records[2][:2]
    what = "the record names U queue 0 and number 2, but T queue 0 has it as 2"
    assert wrong == [Misnamed(offset, size, what)]
    assert bench.entries(U) == [*bench.offsets(4, 5), None]
    assert placing.next_offsets[U] == 2


def test_a_queue_that_only_a_misnamed_record_has_made_is_emptied() -> None:
    bench = Bench(*plain(4))
    bench.rename(2, topic="V", at=0)
    placing, wrong = bench.pass_over(bench.records)
    assert [one.offset for one in wrong] == bench.offsets(2)
    assert bench.entries(("V", 0)) == []
    assert placing.next_offsets["V", 0] == 0


def test_a_record_that_names_the_number_of_another_is_found() -> None:
    bench = Bench(*plain(6))
    bench.rename(4, at=1)
    _, wrong = bench.pass_over(bench.records)
    what = "the record names T queue 0 and number 1, but T queue 0 has it as 4"
    assert [(one.offset, one.what) for one in wrong] == [(bench.records[4][0], what)]
    assert bench.entries() == bench.offsets(0, 1, 2, 3, 4, 5)


def test_a_queue_of_messages_has_no_half_of_a_transaction() -> None:
    bench = Bench(*plain(3))
    offset = bench.rename(1, at=1, flag=TRANSACTION_PREPARED)[0]
    _, wrong = bench.pass_over([bench.records[0], bench.records[2]])  # such a one is not seen
    assert [one.offset for one in wrong] == [offset]
    assert "belongs to a transaction and to no queue" in wrong[0].what


@pytest.mark.parametrize("kept", [0, 2])
def test_of_two_records_with_a_number_the_later_one_has_it(kept: int) -> None:
    bench = Bench(*plain(4))
    bench.rename(2, at=0)  # the topic began again
    bench.rename(3, at=1)
    queue = bench.queue()
    queue.drop_from(2)
    queue.place(0, *bench.records[kept][:2], 0)
    placing, wrong = bench.pass_over(bench.records, clean=False)
    assert wrong == []
    assert bench.entries() == bench.offsets(2, 3)
    assert placing.next_offsets == {T: 2}


# -- numbers that cannot be ----------------------------------------------------------------------


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("index", [0, 3])
@pytest.mark.parametrize("number", [100, 1 << 40, (1 << 63) - 1, -1, -(1 << 63)])
def test_a_number_for_which_the_log_has_no_room_is_found(
    number: int, index: int, *, whole: bool
) -> None:
    bench = Bench(*plain(5))
    offset, size = bench.rename(index, at=number)[:2]
    placing, wrong = bench.pass_over(bench.records, whole=whole)
    assert wrong == [Misnamed(offset, size, f"the record names number {number} of T queue 0")]
    assert (placing.added, placing.next_offsets) == (0, {T: 5})
    assert bench.entries() == bench.offsets(0, 1, 2, 3, 4)


def test_a_negative_number_is_found_where_nothing_else_is_known_of_the_queue() -> None:
    bench = Bench(*plain(2))
    bench.queue().drop_from(0)
    plain_record, batch = bench.rename(0, at=-5), bench.rename(1, at=-5, flag=INNER_BATCH)
    placing, wrong = bench.pass_over(bench.records)
    what = "the record names number -5 of T queue 0"
    assert wrong == [Misnamed(*one[:2], what) for one in (plain_record, batch)]
    assert (placing.added, bench.queue().max_offset) == (0, 0)


@pytest.mark.parametrize("too_high", [0, 1])
def test_a_log_has_room_for_the_smallest_records(too_high: int) -> None:
    bench = Bench(*plain(5))
    number = bench.records[-1][0] // 91 + too_high
    record = bench.rename(4, at=number)
    bench.queue().drop_from(4)
    placing, wrong = bench.pass_over(bench.records)
    assert len(wrong) == too_high
    assert bench.queue().entry(number) == (None if too_high else (*record[:2], 0))
    assert placing.next_offsets == {T: 4 if too_high else number + 1}


@pytest.mark.parametrize("clean", [True, False])
def test_a_high_number_under_which_the_queue_has_the_record_is_believed(*, clean: bool) -> None:
    bench = Bench(*plain(2))
    high = bench.rename(1, at=50)  # there were records of many messages before
    bench.queue().drop_from(1)
    bench.queue().place(50, *high[:2], 0)
    placing, wrong = bench.pass_over(bench.records, clean=clean)
    assert (placing.added, wrong, placing.next_offsets) == (0, [], {T: 51})


def test_a_record_of_many_messages_may_have_a_high_number_and_so_may_those_behind_it() -> None:
    bench = Bench(*plain(3))
    bench.queue().drop_from(1)
    batch, behind = bench.rename(1, at=5, flag=INNER_BATCH), bench.rename(2, at=20)
    placing, wrong = bench.pass_over(bench.records)
    assert wrong == []
    assert bench.queue().entry(5) == (*batch[:2], 0)
    assert bench.queue().entry(20) == (*behind[:2], 0)
    assert placing.next_offsets == {T: 21}


def test_a_batch_of_which_nothing_can_be_proven_gets_no_entry_and_is_no_damage() -> None:
    bench = Bench(*plain(4))
    bench.rename(3, at=1 << 50, flag=INNER_BATCH)
    bench.queue().drop_from(3)
    placing, wrong = bench.pass_over(bench.records)
    assert (placing.added, wrong) == (0, [])
    assert bench.queue().max_offset == 3

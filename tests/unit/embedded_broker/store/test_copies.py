"""Copies of stored messages have the bytes of an ordinary put; all are stored or none."""

from __future__ import annotations

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.copies import CopyBatch, stored_parts, topic_field
from embedded_broker.store.memory_fs import MemoryFileSystem, MemorySegment
from embedded_broker.store.message_run import Arrivals
from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.put_values import InnerMessage, PutRefusal
from rocketmq_py.clock import SystemClock
from rocketmq_py.protocol.sysflag import TRANSACTION_COMMIT
from tests.records import encode_record

HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
SOURCE = topic_field("From") or b""


class FullDisk(MemoryFileSystem):
    """Refuses to write to files of one folder once it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = "nothing"

    def new_segment(self, path: str, size: int) -> MemorySegment:
        disk = self

        class Segment(MemorySegment):
            def write(self, at: int, data: bytes | bytearray | memoryview) -> None:
                if disk.refused in self.path:
                    raise StoreError("disk full")
                super().write(at, data)

        return Segment(path, size)


def opened(fs: MemoryFileSystem | None = None, **settings: object) -> MessageStore:
    config = BrokerConfig({"mappedFileSizeCommitLog": 1 << 16, **settings})
    store = MessageStore(fs or MemoryFileSystem(), config, SystemClock(), HOST)
    store.load()
    return store


def put(
    store: MessageStore, body: bytes, *, flag: int = 0, sys_flag: int = 0, times: int = 0
) -> tuple[int, int]:
    message = InnerMessage("From", 0, body, {"K": "v"}, flag, sys_flag, 5, HOST, times)
    result = store.put(message)
    assert result.ok, result
    return result.commit_log_offset, result.size


def copies_of(store: MessageStore, places: list[tuple[int, int]], *, code: int = 0) -> CopyBatch:
    copies = CopyBatch(store.log.max_offset, store_host=HOST, store_timestamp=77)
    queue = store.consume_queue("To", 2, create=True)
    assert queue is not None
    for offset, size in places:
        parts = stored_parts(store.log, offset, size, SOURCE)
        assert parts is not None
        source, properties, _ = parts
        field = topic_field("To") or b""
        assert copies.add(source, properties + b"N\x011\x02", queue, field, code)
    return copies


def test_a_copy_has_the_bytes_that_encoding_it_would_give() -> None:
    store = opened()
    places = [put(store, b"one", flag=3, times=4), put(store, b"", sys_flag=2)]
    begin = store.log.max_offset
    assert store.put_copies(copies_of(store, places))
    expected = b""
    for number, (flag, sys_flag, times, body) in enumerate([(3, 0, 4, b"one"), (0, 2, 0, b"")]):
        expected += encode_record(
            topic="To",
            queue_id=2,
            flag=flag,
            queue_offset=number,
            commit_log_offset=begin + len(expected),
            sys_flag=sys_flag,
            born_timestamp=5,
            born_host=HOST,
            store_timestamp=77,
            store_host=HOST,
            reconsume_times=times,
            prepared_transaction_offset=0,
            body=body,
            properties=b"K\x01v\x02N\x011\x02",
        )
    assert expected == bytes(store.log.files.read(begin, len(expected)) or b"")
    assert begin + len(expected) == store.log.max_offset
    assert store.max_offset("To", 2) == 2
    assert store.last_store_timestamp == 77


def test_arrival_is_told_once_for_each_queue() -> None:
    store = opened()
    places = [put(store, b"%d" % number) for number in range(5)]
    heard: list[Arrivals] = []
    store.on_arrival.append(heard.append)
    assert store.put_copies(copies_of(store, places, code=9))
    (one,) = heard
    assert (one.topic, one.queue_id, one.queue_offset, len(one.entries)) == ("To", 2, 0, 5)
    assert {code for _, _, code in one.entries} == {9}
    assert one.at(4).properties == {}


@pytest.mark.parametrize("folder", ["commitlog", "consumequeue/To"])
def test_nothing_is_stored_when_the_disk_refuses(folder: str) -> None:
    disk = FullDisk()
    store = opened(disk)
    places = [put(store, b"one"), put(store, b"two")]
    end = store.log.max_offset
    disk.refused = folder
    assert not store.put_copies(copies_of(store, places))
    assert (store.log.max_offset, store.max_offset("To", 2)) == (end, 0)
    disk.refused = "nothing"
    assert store.put_copies(copies_of(store, places))
    assert store.max_offset("To", 2) == 2


def test_copies_that_do_not_fit_in_the_file_are_refused() -> None:
    store = opened()
    places = [put(store, b"x" * 9000) for _ in range(4)]
    assert not store.put_copies(copies_of(store, places))
    assert store.max_offset("To", 2) == 0


def test_only_plain_records_of_the_topic_are_taken_apart() -> None:
    store = opened()
    offset, size = put(store, b"body")
    committed = put(store, b"body", sys_flag=TRANSACTION_COMMIT)
    assert stored_parts(store.log, offset, size, SOURCE) is not None
    assert stored_parts(store.log, offset, size, topic_field("Frog") or b"") is None
    assert stored_parts(store.log, offset, size - 1, SOURCE) is None
    assert stored_parts(store.log, offset + 1, size, SOURCE) is None
    assert stored_parts(store.log, store.log.max_offset, size, SOURCE) is None
    assert stored_parts(store.log, *committed, SOURCE) is None
    store.log.files.write(offset + 88, b"B")
    assert stored_parts(store.log, offset, size, SOURCE) is None  # the CRC tells


def test_a_long_topic_name_is_not_copied() -> None:
    assert topic_field("t" * 31) == b"\x1f" + b"t" * 31
    assert topic_field("t" * 32) is None


class Hook:
    """Lets everything pass."""

    name = "hook"

    def before_put(self, msg: InnerMessage, now_ms: int) -> PutRefusal | None:
        del msg, now_ms
        return None


class Uninterested(Hook):
    """Says that it need not see copies."""

    ignores_copies = True


def test_a_put_hook_that_says_nothing_about_copies_sees_every_message() -> None:
    store = opened()
    seen = [store.takes_copies]
    store.hooks.listed.append(Hook())
    seen.append(store.takes_copies)
    store.hooks.listed[:] = [Uninterested(), Uninterested()]
    seen.append(store.takes_copies)
    store.close()
    seen.append(store.takes_copies)
    assert seen == [True, False, True, False]

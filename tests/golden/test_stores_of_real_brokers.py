"""Stores that real brokers wrote open here with every message: see ``stores/README.md``."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from embedded_broker.core.filters import TagFilter
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.key_index import KeyIndex
from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.recovery import StoreRecovery
from rocketmq_py.protocol.message_codec import MessageRecord, decode_record, decode_records
from rocketmq_py.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketmq_py.protocol.tag_hash import tags_code
from tests.archives import unpack_store
from tests.unit.embedded_broker.store.store_tools import STORE_HOST, HandClock, message

NAMES = ("r533-clean", "r533-crash", "r497-levels")
LEVELS_MS = {5: 60_000, 6: 120_000}
EVER = 1 << 62


class Sent(NamedTuple):
    """One line of a manifest."""

    topic: str
    number: int
    queue_id: int
    due_ms: int
    msg_id: str


class Opened(NamedTuple):
    """A store that a real broker wrote, opened by ours, and what was sent into it."""

    name: str
    root: Path
    store: MessageStore
    report: StoreRecovery
    sent: list[Sent]
    index_bytes: bytes

    def of(self, topic: str) -> list[Sent]:
        return [one for one in self.sent if one.topic == topic]


def _open(name: str, root: Path) -> tuple[MessageStore, StoreRecovery]:
    store = MessageStore(DirectoryFileSystem(root), BrokerConfig(), HandClock(), STORE_HOST)
    store.level_deliver_ms = lambda level, stored: stored + LEVELS_MS[level]
    return store, store.load()


@pytest.fixture(params=NAMES)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    name = request.param
    unpack_store(name, tmp_path)
    lines = (tmp_path / f"{name}.tsv").read_text().splitlines()
    sent = []
    for line in lines:
        topic, number, queue_id, due_ms, msg_id = line.split("\t")
        sent.append(Sent(topic, int(number), int(queue_id), int(due_ms), msg_id))
    root = tmp_path / f"{name}.store"
    (index,) = (root / "index").iterdir()
    original_index = index.read_bytes()
    store, report = _open(name, root)
    return Opened(name, root, store, report, sent, original_index)


def _text(topic: str, number: int) -> str:
    return f"{topic}-{number}-" + ("中文" * 3000 if number % 5 == 0 else "")


def _check(record: MessageRecord, sent: Sent) -> None:
    assert record.properties["UNIQ_KEY"] == sent.msg_id
    assert record.properties["KEYS"] == f"FK{sent.number} ALL"
    assert record.properties["TAGS"] == f"Tag{sent.number % 3}"
    assert record.properties["no"] == str(sent.number)
    assert record.sys_flag == (769 if sent.number % 5 == 0 else 0)
    assert record.unpacked_body().decode() == _text(sent.topic, sent.number)


def test_the_store_is_recovered_without_touching_a_message(opened: Opened) -> None:
    report = opened.report
    assert report.clean == (opened.name != "r533-crash")
    assert report.truncated_bytes == 0
    assert (report.entries_added, report.entries_dropped) == (0, 0)
    assert report.records_read >= len(opened.sent)
    assert len(list((opened.root / "commitlog").iterdir())) == 1


def test_every_ordinary_message_is_pulled_from_its_queue(opened: Opened) -> None:
    store = opened.store
    expected = opened.of("FIX_normal")
    found = 0
    for queue_id in range(4):
        mine = [one for one in expected if one.queue_id == queue_id]
        assert store.max_offset("FIX_normal", queue_id) == len(mine)
        got = store.get("FIX_normal", queue_id, 0, 32)
        records = decode_records(b"".join(got.buffers))
        assert got.count == len(records) == len(mine)
        for offset, (record, sent) in enumerate(zip(records, mine, strict=True)):
            _check(record, sent)
            assert (record.queue_id, record.queue_offset) == (queue_id, offset)
            found += 1
        wanted = TagFilter(frozenset({tags_code("Tag1")}))
        tagged = store.get("FIX_normal", queue_id, 0, 32, wanted=wanted)
        assert tagged.count == len([one for one in mine if one.number % 3 == 1])
    assert found == len(expected)


def test_every_key_is_found_in_the_index_that_the_broker_wrote(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened.store
    if opened.report.clean:  # after a crash the original and we make it again
        monkeypatch.setattr(KeyIndex, "_put_keys", None)
    expected = opened.of("FIX_normal")
    every = [decode_record(one) for one in store.query("FIX_normal", "ALL", 64, 0, EVER)]
    assert [one.properties["UNIQ_KEY"] for one in every] == [one.msg_id for one in expected]
    for sent in expected:
        (by_key,) = store.query("FIX_normal", f"FK{sent.number}", 64, 0, EVER)
        _check(decode_record(by_key), sent)
        (by_id,) = store.query("FIX_normal", sent.msg_id, 1, 0, EVER, unique=True)
        assert bytes(by_id) == bytes(by_key)
    assert store.query("FIX_normal", "FK99", 64, 0, EVER) == []


def test_delay_levels_lie_in_their_queues_with_their_delivery_time(opened: Opened) -> None:
    store = opened.store
    expected = opened.of("FIX_sched")
    for level, delay_ms in LEVELS_MS.items():
        mine = [one for one in expected if one.number % 2 == level - 5]
        queue = store.consume_queue(SCHEDULE_TOPIC, level - 1)
        assert queue is not None
        entries = list(queue.iterate(0))
        assert len(entries) == len(mine)
        for (_, (offset, _, deliver_ms)), sent in zip(entries, mine, strict=True):
            record = store.record(offset)
            assert record is not None
            _check(record, sent)
            assert deliver_ms == record.store_timestamp + delay_ms
            assert 0 <= deliver_ms - sent.due_ms < 1000
            assert record.properties["REAL_TOPIC"] == "FIX_sched"


def test_timers_lie_in_the_timer_topic(opened: Opened) -> None:
    expected = opened.of("FIX_timer")
    queue = opened.store.consume_queue(TIMER_TOPIC, 0)
    if not expected:
        assert queue is None
        return
    assert queue is not None
    entries = list(queue.iterate(0))
    assert len(entries) == len(expected)
    for (_, (offset, size, _)), sent in zip(entries, expected, strict=True):
        record = opened.store.record(offset)
        assert record is not None
        assert record.size == size
        _check(record, sent)
        assert record.properties["TIMER_DELIVER_MS"] == str(sent.due_ms)


def test_the_store_goes_on_and_opens_again(opened: Opened) -> None:
    store = opened.store
    end = store.log.max_offset
    put = store.put(message(1, "FIX_normal", 0, KEYS="ALL"))
    assert put.commit_log_offset == end
    assert put.queue_offset == len([s for s in opened.of("FIX_normal") if s.queue_id == 0])
    store.close()
    again, report = _open(opened.name, opened.root)
    assert report.clean
    assert len(again.query("FIX_normal", "ALL", 64, 0, EVER)) == len(opened.of("FIX_normal")) + 1
    again.close()


def test_queues_and_index_are_made_again_exactly_as_the_broker_wrote_them(
    opened: Opened,
) -> None:
    opened.store.abandon()
    queues = _files(opened.root / "consumequeue")
    for path in [*queues, *_files(opened.root / "index")]:
        path.unlink()
    config = BrokerConfig(
        {
            "mappedFileSizeConsumeQueue": 600_000,
            "maxHashSlotNum": 50_000,
            "maxIndexNum": 200_000,
        }
    )
    store = MessageStore(DirectoryFileSystem(opened.root), config, HandClock(), STORE_HOST)
    store.level_deliver_ms = lambda level, stored: stored + LEVELS_MS[level]
    store.load()
    store.close()
    assert _files(opened.root / "consumequeue") == queues
    (index,) = _files(opened.root / "index").values()
    assert index == opened.index_bytes


def _files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

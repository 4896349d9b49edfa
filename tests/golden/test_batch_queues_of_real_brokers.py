"""BatchCQ topics of a real 5.3.3 broker open here byte for byte: see ``stores/README.md``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from embedded_broker.core.filters import TagFilter
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.batch_queue import BATCH_QUEUE_FOLDER
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.message_store import MessageStore
from rocketmq_py.protocol.message_codec import decode_records
from rocketmq_py.protocol.tag_hash import tags_code
from tests.archives import unpack_store
from tests.unit.embedded_broker.store.store_tools import STORE_HOST, HandClock

NAME = "r533-batchcq"
ENDS = {"B": 9, "S": 14, "M": 542}


class Pull(NamedTuple):
    """A pull of queue 0 and what the real broker answered: the first offsets of its records."""

    topic: str
    offset: int
    most: int
    tags: str
    status: str
    next_offset: int
    found: list[int]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return unpack_store(NAME, tmp_path)


def opened(root: Path) -> MessageStore:
    config = BrokerConfig({"mapperFileSizeBatchConsumeQueue": 8 * 46})
    store = MessageStore(DirectoryFileSystem(root), config, HandClock(), STORE_HOST)
    store.level_deliver_ms = lambda _, stored_ms: stored_ms + 1000
    return store


@pytest.fixture
def store(root: Path) -> Iterator[MessageStore]:
    store = opened(root)
    report = store.load()
    assert (report.entries_added, report.entries_dropped, store.problems) == (0, 0, [])
    yield store
    store.close()


def queue_files(root: Path) -> dict[str, bytes]:
    folder = root / BATCH_QUEUE_FOLDER
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_its_queues_stay_as_they_are_and_end_where_they_ended(root: Path) -> None:
    before = queue_files(root)
    store = opened(root)
    store.load()
    assert {topic: store.max_offset(topic, 0) for topic in ENDS} == ENDS
    store.close()
    assert queue_files(root) == before
    assert len(before) == 6


def test_the_same_bytes_are_made_again_from_its_log(root: Path) -> None:
    before = queue_files(root)
    shutil.rmtree(root / BATCH_QUEUE_FOLDER)
    store = opened(root)
    store.load()
    store.close()
    assert queue_files(root) == before


def test_pulls_are_answered_as_the_real_broker_did(root: Path, store: MessageStore) -> None:
    answers = json.loads((root.parent / f"{NAME}.json").read_text())
    pulls = [Pull(*one) for one in answers]
    assert {one.topic for one in pulls} == set(ENDS)
    for one in pulls:
        wanted = None if one.tags == "*" else TagFilter(frozenset({tags_code(one.tags)}))
        result = store.get(one.topic, 0, one.offset, one.most, wanted=wanted)
        found = [record.queue_offset for record in decode_records(b"".join(result.buffers))]
        answer = one._replace(
            status=result.status.name, next_offset=result.next_begin_offset, found=found
        )
        assert answer == one


def test_every_message_is_there_at_its_offset(store: MessageStore) -> None:
    for topic in ("B", "M"):
        messages = [store.message(topic, 0, offset) for offset in range(ENDS[topic])]
        assert [one and one.queue_offset for one in messages] == list(range(ENDS[topic]))
    big = store.messages("M", 0, 300)
    assert (len(big), big[0].body, big[-1].body) == (500, b"x0", b"x499")
    assert [one.body for one in store.messages("B", 0, 4)] == [b"b0", b"b1"]

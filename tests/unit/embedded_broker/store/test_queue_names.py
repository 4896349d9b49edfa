from __future__ import annotations

from pathlib import Path

import pytest

from embedded_broker.errors import StoreDamagedError
from embedded_broker.lifecycle.repair import open_without_damage
from embedded_broker.store.commit_log import time_problem
from embedded_broker.store.damaged_folder import DAMAGED_FOLDER
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.store.put_values import PutStatus
from embedded_broker.store.queue_names import destination, name_problem, queue_problem
from rocketmq_py.clock import LATEST_MS
from rocketmq_py.protocol.properties import Prop
from tests.unit.embedded_broker.store.store_tools import message, new_store

FILE = 1024
STORE_TIME_AT = 56
"""Of a record with IPv4 hosts."""
TOPIC = "orders"
SKIP = {"damagedRecords": "skip"}
NAMES = {
    "absolute": (TOPIC, "/rders"),
    "in two folders": (TOPIC, "or/ers"),
    "the folder above": ("no", ".."),
    "the folder itself": ("n", "."),
    "a space": (TOPIC, "or ers"),
    "no UTF-8": (TOPIC, "or\udcffers"),
}


def _store_with(fs: FileSystem, topic: str, *, clean: bool) -> list[int]:
    store = new_store(fs)
    offsets = []
    for number in range(6):
        msg = message(number)
        msg.topic = topic
        offsets.append(store.put(msg).commit_log_offset)
    store.begin_flush().run()
    if clean:
        store.close()
    else:
        store.abandon()
    return offsets


def _rewrite(fs: FileSystem, at: int, old: bytes, new: bytes) -> None:
    """Change bytes of the record that begins at an offset."""
    path = f"commitlog/{at - at % FILE:020d}"
    segment = fs.open_segment(path, FILE, create=False)
    inside = bytes(segment.view(at % FILE, 160)).index(old)
    segment.write(at % FILE + inside, new)
    segment.sync()
    segment.close()


def _damage_name(fs: FileSystem, at: int, old: str, new: str) -> None:
    named = bytes([len(old)])
    _rewrite(fs, at, named + old.encode(), named + new.encode("utf-8", "surrogateescape"))


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("damage", NAMES)
def test_a_topic_that_no_message_can_have_is_damage_like_any_other(
    tmp_path: Path, damage: str, clean: bool
) -> None:
    fs = DirectoryFileSystem(tmp_path / "house" / "store")
    topic, found = NAMES[damage]
    offsets = _store_with(fs, topic, clean=clean)
    _damage_name(fs, offsets[2], topic, found)
    with pytest.raises(StoreDamagedError, match=rf"at {offsets[2]} .*rocketmq-py store repair"):
        new_store(fs)
    store = new_store(fs, config=SKIP)
    assert store.message(topic, 0, 1) is not None
    assert store.message(topic, 0, 2) is None
    assert store.message(topic, 0, 5) is not None
    assert any(f"at {offsets[2]} (The specified topic" in line for line in store.problems)
    store.close()
    again = new_store(fs)
    assert again.problems == []
    again.close()
    assert fs.list("consumequeue") == [topic]
    assert [one.name for one in (tmp_path / "house").iterdir()] == ["store"]


@pytest.mark.parametrize("damage", NAMES)
def test_a_store_with_a_damaged_topic_name_is_repaired(tmp_path: Path, damage: str) -> None:
    fs = DirectoryFileSystem(tmp_path / "house" / "store")
    topic, found = NAMES[damage]
    offsets = _store_with(fs, topic, clean=False)
    _damage_name(fs, offsets[2], topic, found)
    sizes = {"mappedFileSizeCommitLog": FILE, "mappedFileSizeConsumeQueue": 100}
    sizes |= {"maxHashSlotNum": 8, "maxIndexNum": 16}
    report = open_without_damage(fs, config=sizes)
    assert report.damaged_places == 1
    assert [one.name for one in (tmp_path / "house").iterdir()] == ["store"]
    store = new_store(fs)
    assert store.problems == []
    assert store.message(topic, 0, 5) is not None
    store.close()


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("bit", [20, 30, 31])
def test_a_queue_number_that_no_topic_can_have_is_damage(clean: bool, bit: int) -> None:
    fs = MemoryFileSystem()
    offsets = _store_with(fs, TOPIC, clean=clean)
    segment = fs.open_segment(f"commitlog/{offsets[2] - offsets[2] % FILE:020d}", FILE)
    at = offsets[2] % FILE + 12 + 3 - bit // 8
    segment.write(at, bytes([segment.view(at, 1)[0] ^ 1 << bit % 8]))
    with pytest.raises(StoreDamagedError, match=f"at {offsets[2]} "):
        new_store(fs)
    store = new_store(fs, config=SKIP)
    assert store.message(TOPIC, 0, 5) is not None
    store.close()
    assert fs.list(f"consumequeue/{TOPIC}") == ["0"]


def _flip_time(fs: FileSystem, at: int, bit: int) -> None:
    """Turn one bit of the store time of the record that begins at an offset."""
    segment = fs.open_segment(f"commitlog/{at - at % FILE:020d}", FILE, create=False)
    place = at % FILE + STORE_TIME_AT + 7 - bit // 8
    segment.write(place, bytes([segment.view(place, 1)[0] ^ 1 << bit % 8]))
    segment.sync()
    segment.close()


IMPOSSIBLE = [49, 55, 62, 63]
"""Bits that lead behind the year 9999, or before 1970."""


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("bit", IMPOSSIBLE)
def test_a_store_time_that_no_message_can_have_is_damage(clean: bool, bit: int) -> None:
    fs = MemoryFileSystem()
    offsets = _store_with(fs, TOPIC, clean=clean)
    _flip_time(fs, offsets[2], bit)
    with pytest.raises(StoreDamagedError, match=f"at {offsets[2]} .*rocketmq-py store repair"):
        new_store(fs)
    store = new_store(fs, config=SKIP)
    assert any(f"at {offsets[2]} (store time " in line for line in store.problems)
    assert store.message(TOPIC, 0, 2) is None
    assert store.message(TOPIC, 0, 5) is not None
    assert store.last_store_timestamp <= LATEST_MS
    store.close()


@pytest.mark.parametrize("bit", IMPOSSIBLE)
def test_a_store_with_an_impossible_store_time_is_repaired(tmp_path: Path, bit: int) -> None:
    fs = DirectoryFileSystem(tmp_path)
    offsets = _store_with(fs, TOPIC, clean=False)
    _flip_time(fs, offsets[2], bit)
    sizes = {"mappedFileSizeCommitLog": FILE, "mappedFileSizeConsumeQueue": 100}
    sizes |= {"maxHashSlotNum": 8, "maxIndexNum": 16}
    assert open_without_damage(fs, config=sizes).damaged_places == 1
    store = new_store(fs)
    assert store.problems == []
    assert store.message(TOPIC, 0, 5) is not None
    store.close()


def test_a_store_time_of_1970_or_of_the_year_9999_is_none_of_a_damaged_message() -> None:
    for time_ms in (0, LATEST_MS):
        assert time_problem(time_ms) is None
    for time_ms in (-1, LATEST_MS + 1):
        assert str(time_ms) in str(time_problem(time_ms))


@pytest.mark.parametrize("name", ["or.ders/0", f"{TOPIC}/x", f"{TOPIC}/-1", f"{TOPIC}/007"])
def test_a_folder_that_no_queue_can_have_is_refused_or_set_aside(tmp_path: Path, name: str) -> None:
    fs = DirectoryFileSystem(tmp_path)
    _store_with(fs, TOPIC, clean=True)
    fs.write_file(f"consumequeue/{name}/{0:020d}", bytes(100))
    path = f"consumequeue/{name.removesuffix('/0')}"
    for _ in range(2):
        with pytest.raises(StoreDamagedError, match=rf"{path} .*rocketmq-py store repair"):
            new_store(fs)
        assert not fs.exists("abort")
    store = new_store(fs, config=SKIP)
    assert any(line.startswith(path) for line in store.problems)
    assert len(fs.list(DAMAGED_FOLDER)) == 1
    assert store.message(TOPIC, 0, 5) is not None
    store.close()
    again = new_store(fs)
    assert again.problems == []
    again.close()


def test_a_renamed_folder_of_a_topic_is_made_again_from_the_log(tmp_path: Path) -> None:
    fs = DirectoryFileSystem(tmp_path)
    _store_with(fs, TOPIC, clean=True)
    (tmp_path / "consumequeue" / TOPIC).rename(tmp_path / "consumequeue" / "or.ers")
    store = new_store(fs, config=SKIP)
    assert [store.message(TOPIC, 0, number) is not None for number in range(6)] == [True] * 6
    assert fs.list("consumequeue") == [TOPIC]
    store.close()


def test_a_foreign_file_in_a_queue_is_set_aside_when_damage_is_left_out(tmp_path: Path) -> None:
    fs = DirectoryFileSystem(tmp_path)
    _store_with(fs, TOPIC, clean=True)
    (tmp_path / "consumequeue" / TOPIC / "0" / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(StoreDamagedError, match=r"notes\.txt"):
        new_store(fs)
    store = new_store(fs, config=SKIP)
    assert store.message(TOPIC, 0, 5) is not None
    (kept,) = fs.list(DAMAGED_FOLDER)
    assert fs.read_file(f"{DAMAGED_FOLDER}/{kept}") == b"mine"
    store.close()


@pytest.mark.parametrize("topic", ["/rders", "or/ers", "..", ".", "", "or ers", "or.ers"])
def test_no_message_is_stored_under_such_a_name(topic: str) -> None:
    store = new_store()
    msg = message(0)
    msg.topic = topic
    refused = store.put(msg)
    assert refused.status is PutStatus.MESSAGE_ILLEGAL
    assert "The specified topic" in str(refused.remark)
    assert store.queues == {}


@pytest.mark.parametrize("queue_id", [-1, 1 << 20])
def test_no_message_is_stored_in_such_a_queue(queue_id: int) -> None:
    store = new_store()
    refused = store.put(message(0, queue_id=queue_id))
    assert refused.status is PutStatus.MESSAGE_ILLEGAL
    assert str(queue_id) in str(refused.remark)


def test_topics_of_rocketmq_itself_hold_the_name_of_a_cluster() -> None:
    for name in ("rmq_sys_REVIVE_LOG_my.cluster", "my cluster_REPLY_TOPIC", "%RETRY%g+t", "T-_9"):
        assert name_problem(name) is None
    for name in ("rmq_sys_REVIVE_LOG_a/b", "../x_REPLY_TOPIC", "rmq_sys_\x07", "T" * 256):
        assert name_problem(name) is not None
    assert queue_problem("T", 0) is None


@pytest.mark.parametrize(
    ("topic", "queue_id", "place"),
    [
        ("T", "3", ("T", 3)),
        ("or/ers", "3", None),
        ("T", "-3", None),
        ("T", "\u0663", None),
        ("T", "9" * 30, None),
        ("", "3", None),
    ],
)
def test_a_waiting_message_goes_only_where_one_can_be_stored(
    topic: str, queue_id: str, place: tuple[str, int] | None
) -> None:
    assert destination({Prop.REAL_TOPIC: topic, Prop.REAL_QID: queue_id}) == place
    assert destination({}) is None

"""Topics, groups and offsets over the end of a broker."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.clocks.session import Session
from embedded_broker.errors import StoreDamagedError, StoreError
from embedded_broker.store.config_files import EntriesText
from embedded_broker.store.fault_points import DiskFault
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.tables.consumers.request_modes import RequestModeTable
from embedded_broker.tables.files import TableFiles
from embedded_broker.tables.offsets.table import OffsetTable
from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.bodies.pop import POP, MessageRequestMode
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.lenient_json import dumps_fastjson, loads_lenient
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, consumer

COMMIT = {"consumerGroup": "g", "topic": "T", "queueId": "3", "commitOffset": "7"}


def use(peer: WirePeer) -> None:
    peer.create_topic("T", queues=5, perm=4, attributes="+message.type=DELAY")
    peer.heartbeat("c1", consumer("g", {"T": "*"}))
    assert peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, COMMIT).code == 0


def check(broker: EmbeddedBroker, peer: WirePeer) -> None:
    parts = broker._parts()
    with parts.door:
        topic, group = parts.tables.topics.get("T"), parts.tables.groups.get("g")
        offset = parts.tables.offsets.query("g", "T", 3)
    assert topic is not None
    assert (topic.read_queue_nums, topic.perm) == (5, 4)
    assert topic.attributes == {"message.type": "DELAY"}
    assert group is not None
    assert offset == 7


def test_a_closed_broker_gives_its_tables_to_the_next_one(tmp_path: Path, connect: Connect) -> None:
    for step in (use, None):
        with EmbeddedBroker(store=tmp_path, clock=VirtualClock()) as broker:
            peer = connect(broker.addr)
            if step is not None:
                step(peer)
            check(broker, peer)
    text = (tmp_path / "config" / "consumerOffset.json").read_text()
    assert '"T@g":{3:7' in text
    assert (tmp_path / "config" / "topics.json").exists()
    assert (tmp_path / "config" / "subscriptionGroup.json").exists()


def test_settings_are_saved_soon_and_offsets_after_their_interval(
    start_broker: StartBroker, connect: Connect
) -> None:
    session, fs = VirtualClock(), MemoryFileSystem()
    broker = start_broker(session_clock=session, fs=fs)
    use(connect(broker.addr))
    assert not fs.exists("config/topics.json")
    session.advance(0.1)
    topics = loads_lenient(fs.read_file("config/topics.json"))
    assert topics["topicConfigTable"]["T"]["readQueueNums"] == 5
    groups = loads_lenient(fs.read_file("config/subscriptionGroup.json"))
    assert "g" in groups["subscriptionGroupTable"]
    assert not fs.exists("config/consumerOffset.json")
    session.advance(4.9)
    offsets = loads_lenient(fs.read_file("config/consumerOffset.json"))
    assert {int(q): n for q, n in offsets["offsetTable"]["T@g"].items()} == {3: 7}


def saved(fs: MemoryFileSystem, path: str, key: str) -> dict[str, Any]:
    found: dict[str, Any] = loads_lenient(fs.read_file(path))[key]
    return found


def test_a_full_disk_loses_no_table_and_whoever_changes_one_is_told(
    start_broker: StartBroker, connect: Connect
) -> None:
    session, fs = VirtualClock(), MemoryFileSystem()
    broker = start_broker(session_clock=session, fs=fs)
    peer = connect(broker.addr)
    use(peer)
    session.advance(5)
    full = DiskFault("no space left on device", "config", left=None)
    fs.faults.add_write(full)
    assert peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, COMMIT | {"commitOffset": "60"}).code == 0
    session.advance(5)  # nobody can know before the first save has failed
    for _ in range(2):
        refused = peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, COMMIT | {"commitOffset": "61"})
        assert refused.code == 1
        assert "config/consumerOffset.json cannot be saved" in (refused.remark or "")
        session.advance(5)
    stored = saved(fs, "config/consumerOffset.json", "offsetTable")["T@g"]
    assert {int(queue): offset for queue, offset in stored.items()} == {3: 7}
    fs.faults.remove(full)
    session.advance(5)  # the space is back: saved without another commit
    stored = saved(fs, "config/consumerOffset.json", "offsetTable")["T@g"]
    assert {int(queue): offset for queue, offset in stored.items()} == {3: 61}
    again = peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, COMMIT | {"commitOffset": "62"})
    assert again.code == 0


def generations(fs: MemoryFileSystem, path: str) -> list[dict[str, Any]]:
    """What can be read of a table: its file and the one before it."""
    found = []
    for one in (path, f"{path}.bak"):
        with suppress(BodyError):
            content = loads_lenient(fs.read_file(one)) if fs.exists(one) else None
            found += [content] if isinstance(content, dict) else []
    return found


def test_saves_that_found_no_room_are_made_up_for_without_another_change(
    start_broker: StartBroker, connect: Connect
) -> None:
    session, fs = VirtualClock(), MemoryFileSystem()
    broker = start_broker(session_clock=session, fs=fs)
    peer = connect(broker.addr)
    use(peer)
    broker.send("Levels", b"one", delay_level=1)
    session.advance(30)
    broker._parts().flush_everything()  # the offsets of levels are written by a thread of its own
    paths = [
        f"config/{name}.json"
        for name in ("topics", "subscriptionGroup", "consumerOffset", "delayOffset")
    ]
    assert all(generations(fs, path) for path in paths)
    full = DiskFault("no space left on device", "config", left=None)
    fs.faults.add_write(full)
    peer.create_topic("Late")
    peer.heartbeat("c2", consumer("late", {"T": "*"}))
    assert peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, COMMIT | {"commitOffset": "60"}).code == 0
    broker.send("Levels", b"two", delay_level=1)
    for _ in range(6):
        session.advance(5)
    assert [path for path in paths if not generations(fs, path)] == []

    fs.faults.remove(full)
    session.advance(5)
    assert "Late" in saved(fs, "config/topics.json", "topicConfigTable")
    assert "late" in saved(fs, "config/subscriptionGroup.json", "subscriptionGroupTable")
    stored = saved(fs, "config/consumerOffset.json", "offsetTable")["T@g"]
    assert {int(queue): offset for queue, offset in stored.items()} == {3: 60}


def test_a_topic_that_cannot_be_saved_is_refused(
    start_broker: StartBroker, connect: Connect
) -> None:
    session, fs = VirtualClock(), MemoryFileSystem()
    peer = connect(start_broker(session_clock=session, fs=fs).addr)
    peer.create_topic("Before")
    session.advance(1)
    full = DiskFault("no space left on device", "config", left=None)
    fs.faults.add_write(full)
    peer.create_topic("Unsaved")
    session.advance(1)
    fields = {"topic": "Late", "defaultTopic": "TBW102", "readQueueNums": "1"} | {
        "writeQueueNums": "1",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    refused = peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
    assert refused.code == 1
    assert "config/topics.json cannot be saved" in (refused.remark or "")
    fs.faults.remove(full)
    session.advance(5)
    names = saved(fs, "config/topics.json", "topicConfigTable")
    assert {"Before", "Unsaved"} <= set(names)
    assert "Late" not in names
    assert peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields).code == 0


@pytest.mark.parametrize(
    "path", ["config/topics.json", "config/subscriptionGroup.json", "config/consumerOffset.json"]
)
@pytest.mark.parametrize("content", [b"", b"{", b'{"offsets":{}}'])
def test_a_table_that_cannot_be_read_stops_the_opening_unless_it_may_be_skipped(
    path: str, content: bytes
) -> None:
    fs = MemoryFileSystem()
    with EmbeddedBroker(fs=fs, tcp=False) as broker:
        broker.send("T", b"x")
    fs.write_file(path, content)
    fs.remove(path + ".bak")
    with pytest.raises(StoreDamagedError, match=path):
        EmbeddedBroker(fs=fs, tcp=False).start()
    with EmbeddedBroker(fs=fs, tcp=False, config={"damagedRecords": "skip"}) as broker:
        assert any(path in line for line in broker.recovery.problems)
        assert broker.topics.names() == ["T"]


@pytest.mark.parametrize(
    "path",
    [
        "config/topics.json",
        "config/consumerOffset.json",
        "config/delayOffset.json",
        "config/timermetrics",
        "config/virtualClock.json",
    ],
)
@pytest.mark.parametrize("what", ["deleted", "changed", "swapped"])
def test_a_file_that_was_damaged_is_said_once_and_written_anew_at_opening(
    path: str, what: str
) -> None:
    fs = MemoryFileSystem()

    def open_it() -> EmbeddedBroker:
        clock = VirtualClock(datetime(2030, 1, 1, tzinfo=UTC))
        return EmbeddedBroker(fs=fs, tcp=False, clock=clock)

    with open_it() as broker:
        broker.send("T", b"x", delay=60)
        broker.send("T", b"y", delay_level=4)
        parts = broker._parts()
        with parts.door:
            parts.tables.offsets.commit("g", "T", 0, 0)
    if what == "deleted":
        fs.remove(path)
    elif what == "changed":
        text = fs.read_file(path)
        fs.write_file(path, text.replace(b"0", b"1"))
    else:
        fs.write_file(path + ".crc32", b"12 34")
    broker = open_it().start()
    assert any(path in line for line in broker.recovery.problems)
    broker.crash()
    with open_it() as broker:
        assert not broker.recovery.problems


def test_who_loses_the_offsets_of_levels_is_told_what_comes_again() -> None:
    fs = MemoryFileSystem()
    with EmbeddedBroker(fs=fs, tcp=False) as broker:
        broker.send("T", b"x", delay_level=1)
    fs.remove("config/delayOffset.json")
    with EmbeddedBroker(fs=fs, tcp=False) as broker:
        assert "levels may be delivered again" in "".join(broker.recovery.problems)


def test_a_save_that_fails_is_logged_and_made_up_for_at_close(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session, fs = VirtualClock(), MemoryFileSystem()
    write = fs.write_file

    def full(path: str, data: bytes) -> None:
        if path.startswith("config/topics.json"):
            raise StoreError("no space left")
        write(path, data)

    with EmbeddedBroker(clock=VirtualClock(), session_clock=session, fs=fs) as broker:
        connect(broker.addr).create_topic("T")
        monkeypatch.setattr(fs, "write_file", full)
        session.advance(0.1)
        assert "could not save config/topics.json; trying again: no space left" in caplog.text
        assert "Traceback" not in caplog.text
        monkeypatch.setattr(fs, "write_file", write)
    topics = loads_lenient(fs.read_file("config/topics.json"))
    assert "T" in topics["topicConfigTable"]


def test_a_topic_with_messages_that_is_in_no_file_is_made_anew() -> None:
    fs = MemoryFileSystem()
    with EmbeddedBroker(fs=fs, tcp=False) as broker:
        broker.send("T", b"x", queue=2)
    fs.remove("config/topics.json")
    fs.remove("config/topics.json.bak")

    with EmbeddedBroker(fs=fs, tcp=False) as broker:
        assert broker.topics.names() == ["T"]
        assert broker.topics["T"].queues == 8  # those of the template
        assert [one.body for one in broker.messages.in_topic("T")] == [b"x"]


def test_a_topic_that_was_in_no_file_has_room_for_its_waiting_timers(
    start_broker: StartBroker, connect: Connect
) -> None:
    fs = MemoryFileSystem()
    broker = start_broker(session_clock=VirtualClock(), fs=fs)
    answer = connect(broker.addr).send("new", properties={"TIMER_DELAY_SEC": "60"}, e="3")
    assert answer.code == 0
    killed = fs.copy()
    assert not killed.exists("config/topics.json")
    with EmbeddedBroker(fs=killed, clock=VirtualClock()) as later:
        assert later.topics["new"].queues > 3
        later.clock.advance(60)
        assert later.topics["new"].max_offset(queue=3) == 1


class Counted:
    """Counts the entries whose text is made for the files of a broker's tables."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entries = 0
        put = EntriesText.put

        def counted(text: EntriesText, name: str, value: object) -> None:
            self.entries += 1
            put(text, name, value)

        monkeypatch.setattr(EntriesText, "put", counted)


def test_a_topic_costs_the_file_one_entry_however_many_there_are(
    start_broker: StartBroker, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, fs = VirtualClock(), MemoryFileSystem()
    peer = connect(start_broker(session_clock=session, fs=fs).addr)
    counted = Counted(monkeypatch)
    peer.create_topic("First")
    session.advance(1)
    at_first = counted.entries
    for number in range(300):
        peer.create_topic(f"T{number}")
        if number % 3 == 2:
            session.advance(0.1)

    assert len(saved(fs, "config/topics.json", "topicConfigTable")) == at_first + 300
    assert counted.entries == at_first + 300


def test_a_commit_costs_the_file_one_entry_however_many_there_are(
    start_broker: StartBroker, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, fs = VirtualClock(), MemoryFileSystem()
    broker = start_broker(session_clock=session, fs=fs)
    parts = broker._parts()
    with parts.door:
        for number in range(1000):
            parts.tables.offsets.commit(f"g{number}", "T", 0, 1)
    session.advance(5)
    counted = Counted(monkeypatch)
    for _ in range(10):
        with parts.door:
            parts.tables.offsets.commit("g7", "T", 0, 2)
            parts.tables.offsets.commit("g7", "T", 1, 3)
            parts.tables.offsets.commit("g8", "T", 0, 4)
        session.advance(5)

    assert counted.entries == 20
    assert len(saved(fs, "config/consumerOffset.json", "offsetTable")) == 1000


def test_the_files_are_those_of_the_whole_tables(
    start_broker: StartBroker, connect: Connect
) -> None:
    session, fs = VirtualClock(), MemoryFileSystem()
    broker = start_broker(session_clock=session, fs=fs)
    for number in range(30):
        use(connect(broker.addr))
        broker.topics.create(f"T{number * 7 % 30}", queues=1)
        session.advance(5)
    gone = {"topic": "T7"}
    assert connect(broker.addr).ask(RequestCode.DELETE_TOPIC_IN_BROKER, gone).code == 0
    session.advance(5)
    parts = broker._parts()
    with parts.door:
        documents = parts.table_files.documents()
    assert "T7" not in documents["config/topics.json"]["topicConfigTable"]
    assert len(documents) == 7
    for path, document in documents.items():
        if fs.exists(path):  # those of POP are written with the first pop
            assert fs.read_file(path) == dumps_fastjson(document, pretty=True)
    assert sum(map(fs.exists, documents)) == 4


def test_a_large_table_is_saved_less_often(start_broker: StartBroker, connect: Connect) -> None:
    session, fs = VirtualClock(), MemoryFileSystem()
    broker = start_broker(session_clock=session, fs=fs)
    peer = connect(broker.addr)
    for number in range(4000):
        broker._parts().tables.topics.put(TopicConfig(f"T{number}"))
    session.advance(1)
    peer.create_topic("Late")
    session.advance(0.19)
    assert "Late" not in saved(fs, "config/topics.json", "topicConfigTable")
    session.advance(0.02)
    assert "Late" in saved(fs, "config/topics.json", "topicConfigTable")


def test_what_must_be_durable_before_is_made_so_before_a_file_is_written() -> None:
    session, fs = VirtualClock(), MemoryFileSystem()
    files = TableFiles(fs, Session(session), lambda work: work(), list[str]().append, False)
    table, seen = OffsetTable(), list[bool]()
    path = "config/consumerOffset.json"

    def before() -> None:
        seen.append(fs.exists(path))
        if len(seen) == 1:
            raise StoreError("no room")

    files.keep(table, path, 5, before)
    table.commit("g", "T", 0, 1)
    files.save()
    assert (seen, fs.exists(path), table.unsaved) == ([False], False, "no room")
    assert [files.unsaved] == ["no room"]
    files.save()
    assert (seen, fs.exists(path), table.unsaved) == ([False, False], True, None)
    assert [files.unsaved] == [None]


def test_a_save_that_waits_for_its_thread_is_made_up_for_when_the_broker_crashes() -> None:
    session, fs, waiting = VirtualClock(), MemoryFileSystem(), list[Callable[[], None]]()
    files = TableFiles(fs, Session(session), waiting.append, list[str]().append, False)
    table, path = RequestModeTable(), "config/messageRequestMode.json"
    files.keep(table, path)
    table.put(MessageRequestMode("T", "G", POP, 0))
    files.save()
    assert (len(waiting), fs.exists(path)) == (1, False)
    for write in files.begin_saves():  # as a crash does, which drops what waits
        write()
    assert saved(fs, path, "messageRequestModeMap")["T"]["G"]["mode"] == POP

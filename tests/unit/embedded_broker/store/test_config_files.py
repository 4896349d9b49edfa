from __future__ import annotations

import contextlib
from pathlib import Path
from random import Random
from typing import Any

import pytest

from embedded_broker.errors import StoreDamagedError, StoreError
from embedded_broker.store.config_files import EntriesText, JsonConfigFile
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.fault_points import DiskFault
from embedded_broker.store.memory_fs import MemoryFileSystem
from rocketmq_py.protocol.lenient_json import dumps_fastjson, loads_lenient


def test_nothing_is_loaded_where_nothing_is() -> None:
    assert JsonConfigFile(MemoryFileSystem(), "config/topics.json").load() is None


def test_the_previous_file_becomes_the_backup() -> None:
    fs = MemoryFileSystem()
    file = JsonConfigFile(fs, "config/topics.json")
    file.save({"a": 1})
    assert fs.list("config") == ["topics.json", "topics.json.crc32"]
    file.save({"a": 2})
    assert fs.list("config") == ["topics.json", "topics.json.bak", "topics.json.crc32"]
    assert file.load() == {"a": 2}
    fs.remove("config/topics.json")
    assert file.load() == {"a": 1}


@pytest.mark.parametrize("damage", [b"", b"  \n", b'{"a":', b"\xff\xfe{"])
def test_an_unreadable_file_gives_way_to_its_backup(damage: bytes) -> None:
    fs = MemoryFileSystem()
    file = JsonConfigFile(fs, "config/topics.json")
    file.save({"a": 1})
    file.save({"a": 2})
    fs.write_file("config/topics.json", damage)
    file = JsonConfigFile(fs, "config/topics.json")
    assert file.load() == {"a": 1}
    assert file.problem is not None
    assert file.problem.startswith("config/topics.json ")
    file.save({"a": 3})
    assert file.load() == {"a": 3}
    assert loads_lenient(fs.read_file("config/topics.json.bak")) == {"a": 1}
    assert fs.read_file("damaged/0001-topics.json") == damage


def test_java_writes_bare_integer_keys_and_we_read_and_write_them() -> None:
    fs = MemoryFileSystem()
    fs.write_file("config/delayOffset.json", b'{\n\t"offsetTable":{5:0,6:12\n\t}\n}')
    file = JsonConfigFile(fs, "config/delayOffset.json")
    loaded = file.load()
    assert loaded is not None
    assert {int(key): value for key, value in loaded["offsetTable"].items()} == {5: 0, 6: 12}
    file.save({"offsetTable": {5: 0, 6: 13}})
    assert b"{5:0,6:13" in fs.read_file("config/delayOffset.json")


def test_a_failed_save_leaves_the_previous_content_in_the_backup() -> None:
    fs = MemoryFileSystem()
    file = JsonConfigFile(fs, "config/topics.json", pretty=False)
    file.save({"a": 1})
    assert fs.read_file("config/topics.json") == b'{"a":1}'
    fs.faults.add_write(DiskFault("no space left on device", "config", left=None))
    with pytest.raises(StoreError):
        file.save({"a": 2})
    assert file.load() == {"a": 1}


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_disk_that_is_full_at_any_byte_of_two_saves_leaves_a_readable_generation(
    tmp_path: Path, *, on_disk: bool
) -> None:
    last = {"a": 3, "text": "xyz"}
    size = len(dumps_fastjson(last, pretty=True))
    for room in range(2 * size):
        fs = DirectoryFileSystem(tmp_path / str(room)) if on_disk else MemoryFileSystem()
        file = JsonConfigFile(fs, "config/topics.json")
        file.save({"a": 0, "text": "xyz"})
        file.save({"a": 1, "text": "xyz"})
        fs.faults.add_write(DiskFault("no space left on device", left=None, room=room, of_all=True))
        saved = {"a": 1, "text": "xyz"}
        for content in ({"a": 2, "text": "xyz"}, last):
            with contextlib.suppress(StoreError):
                file.save(content)
                saved = content
        # A second process reads what the first one saved last, never an older or a torn one.
        assert JsonConfigFile(fs, "config/topics.json").load() == saved
        fs.faults.clear()
        file.save(last)
        assert JsonConfigFile(fs, "config/topics.json").load() == last
        assert not fs.exists("config/topics.json.tmp")


@pytest.mark.parametrize("damage", [b"", b'{"a":', b"null", b"[]"])
def test_files_of_which_none_can_be_read_are_damage(damage: bytes) -> None:
    fs = MemoryFileSystem()
    fs.write_file("config/topics.json", damage)
    fs.write_file("config/topics.json.bak", b"")
    with pytest.raises(StoreDamagedError, match=r"config/topics\.json .* store repair"):
        JsonConfigFile(fs, "config/topics.json").load()
    assert fs.read_file("config/topics.json") == damage


def test_a_digit_that_changed_is_noticed_and_a_save_that_was_cut_off_is_not() -> None:
    fs = MemoryFileSystem()
    file = JsonConfigFile(fs, "config/topics.json")
    file.save({"a": 11})
    file.save({"a": 12})
    for generation, noticed in ((b'{"a":13}', True), (fs.read_file("config/topics.json"), False)):
        fs.write_file("config/topics.json", generation)
        again = JsonConfigFile(fs, "config/topics.json")
        assert again.load() is not None
        assert (again.problem is not None) == noticed
    fs.rename("config/topics.json.bak", "config/topics.json")  # died between sum and rename
    cut_off = JsonConfigFile(fs, "config/topics.json")
    assert cut_off.load() == {"a": 11}
    assert cut_off.problem is None


def test_a_file_that_is_gone_gives_way_to_its_backup_and_says_so() -> None:
    fs = MemoryFileSystem()
    fs.write_file("config/topics.json.bak", b'{"a":1}')
    file = JsonConfigFile(fs, "config/topics.json")
    assert file.load() == {"a": 1}
    assert file.problem is not None
    assert "config/topics.json is missing" in file.problem


def test_a_file_of_which_only_the_checksum_is_left_is_missed() -> None:
    fs = MemoryFileSystem()
    JsonConfigFile(fs, "config/topics.json").save({"a": 1})
    fs.remove("config/topics.json")
    file = JsonConfigFile(fs, "config/topics.json")
    assert file.load() is None
    assert file.problem == "config/topics.json is missing, although its checksum lies there"


def test_a_text_of_entries_is_that_of_the_whole_object_after_every_change() -> None:
    random = Random(7)
    text, table = EntriesText("table"), dict[str, Any]()
    for step in range(200):
        name = random.choice(["T", "a b", 'quo"ted', "%RETRY%g", "中", "zz"]) + str(
            random.randrange(20)
        )
        table[name] = random.choice([{0: step, 12: 5}, {"b": [1, 2], "a": None, "c": {}}, step])
        text.put(name, table[name])
        head = {"dataVersion": {"counter": step}, "forbiddenTable": {}}
        whole = {**head, "table": table}
        assert text.of(head) == dumps_fastjson(whole, pretty=True)
    assert (text.written, len(text)) == (200, len(table))


def test_a_text_without_entries_is_that_of_an_empty_object() -> None:
    assert EntriesText("t").of({"a": 1}) == dumps_fastjson({"a": 1, "t": {}}, pretty=True)


class _Noted(MemoryFileSystem):
    """Notes what a save does, so that a power loss can be played at each step of it."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[str, str, Any]] = []

    def write_file(self, path: str, data: bytes) -> None:
        self.steps.append(("write", path, bytes(data)))
        super().write_file(path, data)

    def sync_file(self, path: str) -> None:
        self.steps.append(("sync", path, None))
        super().sync_file(path)

    def rename(self, source: str, target: str) -> None:
        self.steps.append(("rename", source, target))
        super().rename(source, target)


def _after_power_loss(
    before: MemoryFileSystem, steps: list[tuple[str, str, Any]], left: str
) -> MemoryFileSystem:
    """Play steps of a save; what was written and not synced is `left` as it may be."""
    fs = before.copy()
    unsynced: dict[str, tuple[bytes | None, bytes]] = {}
    for kind, path, more in steps:
        if kind == "write":
            was = fs.read_file(path) if fs.exists(path) else None
            unsynced[path] = (unsynced.get(path, (was, b""))[0], more)
            fs.write_file(path, more)
        elif kind == "sync":
            unsynced.pop(path, None)
        else:
            fs.rename(path, more)
            if path in unsynced:
                unsynced[more] = unsynced.pop(path)
    for path, (was, data) in unsynced.items():
        there = {"old": was, "new": data, "empty": b"", "zeros": bytes(len(data))}[left]
        if there is None:
            fs.remove(path)
        else:
            fs.write_file(path, there)
    return fs


@pytest.mark.parametrize("left", ["old", "new", "empty", "zeros"])
def test_a_power_loss_at_any_step_of_a_save_is_no_damage(left: str) -> None:
    fs = _Noted()
    file = JsonConfigFile(fs, "config/topics.json")
    for number in (11, 12):
        file.save({"a": number})
    before = fs.copy()
    fs.steps.clear()
    file.save({"a": 13})
    for count in range(len(fs.steps) + 1):
        lost = _after_power_loss(before, fs.steps[:count], left)
        again = JsonConfigFile(lost, "config/topics.json")
        found = again.load()
        assert (found, again.problem) in [({"a": 12}, None), ({"a": 13}, None)], fs.steps[:count]
        again.save({"a": 14})
        last = JsonConfigFile(lost, "config/topics.json")
        assert (last.load(), last.problem) == ({"a": 14}, None)
        assert loads_lenient(lost.read_file("config/topics.json.bak")) == found


def test_a_save_that_died_between_its_two_names_is_not_lost_by_the_next_one() -> None:
    fs = MemoryFileSystem()
    file = JsonConfigFile(fs, "config/topics.json")
    for number in (11, 12):
        file.save({"a": number})
    fs.rename("config/topics.json", "config/topics.json.tmp")  # as if 12 were on its way
    again = JsonConfigFile(fs, "config/topics.json")
    assert (again.load(), again.problem) == ({"a": 12}, None)
    fs.faults.add_write(DiskFault("no space left on device", left=None))
    with pytest.raises(StoreError):
        again.save({"a": 13})
    assert JsonConfigFile(fs, "config/topics.json").load() == {"a": 12}


def test_a_sum_that_found_no_room_makes_no_false_note() -> None:
    fs = MemoryFileSystem()
    file = JsonConfigFile(fs, "config/topics.json")
    for number in (11, 12):
        file.save({"a": number})
    fs.faults.add_write(DiskFault("no space left", "config/topics.json.crc32", left=None, room=3))
    with pytest.raises(StoreError):
        file.save({"a": 13})
    again = JsonConfigFile(fs, "config/topics.json")
    assert (again.load(), again.problem) == ({"a": 12}, None)


def test_the_file_of_another_table_gives_way_to_the_backup() -> None:
    fs = MemoryFileSystem()
    file = JsonConfigFile(fs, "config/topics.json", key="topicConfigTable")
    file.save({"topicConfigTable": {"A": 1}})
    file.save({"topicConfigTable": {"B": 2}})
    fs.write_file("config/topics.json", b'{"offsetTable":{}}')
    again = JsonConfigFile(fs, "config/topics.json", key="topicConfigTable")
    assert again.load() == {"topicConfigTable": {"A": 1}}
    assert again.problem is not None
    assert "has no topicConfigTable: another file stands in its place" in again.problem

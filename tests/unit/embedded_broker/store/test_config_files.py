from __future__ import annotations

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.config_files import JsonConfigFile
from embedded_broker.store.fs import MemoryFileSystem


def test_nothing_is_loaded_where_nothing_is() -> None:
    assert JsonConfigFile(MemoryFileSystem(), "config/topics.json").load() is None


def test_the_previous_file_becomes_the_backup() -> None:
    fs = MemoryFileSystem()
    file = JsonConfigFile(fs, "config/topics.json")
    file.save({"a": 1})
    assert fs.list("config") == ["topics.json"]
    file.save({"a": 2})
    assert fs.list("config") == ["topics.json", "topics.json.bak"]
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
    assert file.load() == {"a": 1}
    assert not fs.exists("config/topics.json")
    file.save({"a": 3})
    assert file.load() == {"a": 3}


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
    class Broken(MemoryFileSystem):
        broken = False

        def write_file(self, path: str, data: bytes) -> None:
            if self.broken and not path.endswith(".bak"):
                raise StoreError(f"{path}: no space left on device")
            super().write_file(path, data)

    fs = Broken()
    file = JsonConfigFile(fs, "config/topics.json", pretty=False)
    file.save({"a": 1})
    assert fs.read_file("config/topics.json") == b'{"a":1}'
    fs.broken = True
    with pytest.raises(StoreError):
        file.save({"a": 2})
    assert file.load() == {"a": 1}

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.directory_fs import DirectoryFileSystem


def test_a_segment_is_a_sparse_file_of_its_size(tmp_path: Path) -> None:
    fs = DirectoryFileSystem(tmp_path / "store")
    segment = fs.open_segment("commitlog/0", 1 << 30)
    segment.write(5, b"abc")
    status = (tmp_path / "store/commitlog/0").stat()
    assert status.st_size == 1 << 30
    assert status.st_blocks * 512 < 1 << 20
    assert bytes(segment.view(4, 5)) == b"\0abc\0"
    assert segment.view(0, 4).readonly
    segment.close()
    segment.close()


def test_a_view_sees_later_writes_and_outlives_the_handle(tmp_path: Path) -> None:
    segment = DirectoryFileSystem(tmp_path).open_segment("a", 4096)
    segment.write(0, b"____")
    view = segment.view(0, 4)
    segment.write(0, b"abcd")
    segment.close()
    assert bytes(view) == b"abcd"
    for call in (segment.view, segment.read):
        with pytest.raises(StoreError, match="closed"):
            call(0, 1)


def test_the_end_of_the_data_is_found_without_reading_the_holes(tmp_path: Path) -> None:
    fs = DirectoryFileSystem(tmp_path)
    segment = fs.open_segment("a", 64 << 20)
    assert segment.data_end() in {0, 64 << 20}
    segment.write(9 << 20, b"x")
    end = segment.data_end()
    assert 9 << 20 < end <= 64 << 20
    segment.close()


def test_another_length_is_an_error_that_names_both(tmp_path: Path) -> None:
    fs = DirectoryFileSystem(tmp_path)
    (tmp_path / "a").write_bytes(b"123")
    with pytest.raises(StoreError, match="length 3 instead of 4 bytes"):
        fs.open_segment("a", 4)
    with pytest.raises(StoreError, match="cannot open"):
        fs.open_segment("b", 4, create=False)
    (tmp_path / "empty").write_bytes(b"")
    assert fs.open_segment("empty", 4).size == 4


def test_a_full_disk_is_an_error_and_not_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = DirectoryFileSystem(tmp_path).open_segment("a", 4096)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StoreError, match="No space left"):
        segment.write(0, b"x")
    monkeypatch.setattr(os, "fdatasync", full)
    with pytest.raises(StoreError, match="cannot sync"):
        segment.sync()


def test_a_write_that_the_system_cut_short_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = DirectoryFileSystem(tmp_path).open_segment("a", 4096)
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data)[:2], at))
    segment.write(3, b"abcdefg")
    assert bytes(segment.view(2, 9)) == b"\0abcdefg\0"


def test_small_files_and_folders(tmp_path: Path) -> None:
    fs = DirectoryFileSystem(tmp_path / "new" / "store")
    assert fs.list("config") == []
    fs.write_file("config/a.json", b"1")
    fs.sync_file("config/a.json")
    fs.rename("config/a.json", "config/a.json.bak")
    fs.sync_dir("config")
    assert fs.list("config") == ["a.json.bak"]
    assert fs.exists("config/a.json.bak")
    assert fs.read_file("config/a.json.bak") == b"1"
    assert fs.size("config/a.json.bak") == 1
    fs.remove("config/a.json.bak")
    fs.remove("config/a.json.bak")
    for call in (fs.read_file, fs.size, fs.sync_file, fs.sync_dir):
        with pytest.raises(StoreError):
            call("config/missing")
    with pytest.raises(StoreError):
        fs.rename("config/missing", "config/b")


@pytest.mark.parametrize("path", ["../x", "consumequeue/../../x", "/etc/x", "a//b", "a/."])
def test_no_name_leads_out_of_the_directory(tmp_path: Path, path: str) -> None:
    fs = DirectoryFileSystem(tmp_path / "store")
    with pytest.raises(StoreError, match="not a path inside the store"):
        fs.write_file(path, b"x")
    with pytest.raises(StoreError, match="not a path inside the store"):
        fs.open_segment(path, 20)


def test_failures_of_the_disk_name_the_file(tmp_path: Path) -> None:
    fs = DirectoryFileSystem(tmp_path)
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(StoreError, match="file"):
        fs.write_file("file/below", b"x")
    with pytest.raises(StoreError, match="file"):
        fs.open_segment("file/below", 20)
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    with pytest.raises(StoreError, match="folder"):
        fs.remove("folder")
    with pytest.raises(StoreError, match="folder"):
        fs.write_file("folder", b"x")


def test_another_system_than_posix_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("embedded_broker.store.directory_fs._IS_POSIX", False)
        with pytest.raises(StoreError, match="POSIX"):
            DirectoryFileSystem("store")
    assert repr(DirectoryFileSystem(tmp_path)) == f"DirectoryFileSystem({str(tmp_path)!r})"

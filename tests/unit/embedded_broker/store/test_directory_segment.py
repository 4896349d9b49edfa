from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store import directory_segment
from embedded_broker.store.directory_fs import DirectoryFileSystem

_PAGE = 4096


@pytest.fixture
def fs(tmp_path: Path) -> DirectoryFileSystem:
    return DirectoryFileSystem(tmp_path)


def test_a_hole_is_read_without_a_map(
    fs: DirectoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at a hole through a map takes a block, and a full tmpfs then ends the process."""
    segment = fs.open_segment("a", 64 * _PAGE)
    segment.write(40 * _PAGE, b"far")
    with monkeypatch.context() as patch:
        patch.setattr(mmap, "mmap", None)
        assert segment.read(40 * _PAGE - 2, 6) == b"\0\0far\0"
        assert segment.read(0, 4) == bytes(4)
    segment.write(0, b"near")
    assert bytes(segment.view(0, 6)) == b"near\0\0"
    assert bytes(segment.view(40 * _PAGE, 4)) == b"far\0"
    assert bytes(segment.view(20 * _PAGE, 4)) == bytes(4)
    assert segment.view(20 * _PAGE, 4).readonly
    assert segment._solid < 40 * _PAGE
    segment.close()


def test_what_is_appended_behind_a_map_is_seen_through_it(fs: DirectoryFileSystem) -> None:
    segment = fs.open_segment("a", 64 * _PAGE)
    for number in range(2000):
        segment.write(number * 100, b"%0100d" % number)
        assert bytes(segment.view(number * 100, 100)) == b"%0100d" % number
    assert segment._solid >= 200_000
    segment.close()


@pytest.mark.parametrize("writable", [True, False])
def test_a_long_range_with_a_hole_in_it_shows_every_byte(
    fs: DirectoryFileSystem, monkeypatch: pytest.MonkeyPatch, writable: bool
) -> None:
    monkeypatch.setattr(directory_segment, "_COPIED_MAX", 16)
    segment = fs.open_segment("a", 64 * _PAGE)
    segment.write(0, b"first")
    segment.write(30 * _PAGE, b"last")

    def refused(*_: object) -> None:
        raise OSError(28, "No space left on device")

    if not writable:
        monkeypatch.setattr(os, "posix_fallocate", refused)
    view = segment.view(0, 30 * _PAGE + 4)
    assert bytes(view) == b"first" + bytes(30 * _PAGE - 5) + b"last"
    segment.close()


def test_the_data_end_where_the_last_write_does_or_where_it_was_found(
    fs: DirectoryFileSystem, tmp_path: Path
) -> None:
    segment = fs.open_segment("a", 64 * _PAGE)
    assert segment.data_end() == 0
    segment.write(10, b"12345")
    assert segment.data_end() == 15
    segment.close()
    again = DirectoryFileSystem(tmp_path).open_segment("a", 64 * _PAGE)
    assert 15 <= again.data_end() <= 64 * _PAGE
    again.close()


def test_a_file_that_was_removed_is_noticed_by_the_sync(
    fs: DirectoryFileSystem, tmp_path: Path
) -> None:
    segment = fs.open_segment("a", _PAGE)
    segment.write(0, b"x")
    segment.sync()
    (tmp_path / "a").unlink()
    with pytest.raises(StoreError, match="a was removed while the broker used it"):
        segment.sync()
    segment.close()


def test_a_file_that_was_cut_is_an_error_and_no_short_answer(
    fs: DirectoryFileSystem, tmp_path: Path
) -> None:
    segment = fs.open_segment("a", 2 * _PAGE)
    os.truncate(tmp_path / "a", 100)
    with pytest.raises(StoreError, match="it was cut to 100 bytes while it was open"):
        segment.read(90, 20)
    segment.close()


def test_a_closed_file_takes_nothing(fs: DirectoryFileSystem) -> None:
    segment = fs.open_segment("a", _PAGE, may_rest=True)
    segment.close()
    segment.close()
    for call in (lambda: segment.write(0, b"x"), segment.sync, lambda: segment.view(0, 1)):
        with pytest.raises(StoreError):
            call()

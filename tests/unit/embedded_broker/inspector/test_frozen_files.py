"""Nothing can be changed through it, whatever is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.inspector.frozen_files import FrozenFileSystem
from tests.unit.embedded_broker.inspector.store_tools import fingerprint

CALLS: list[Callable[[FrozenFileSystem], object]] = [
    lambda fs: fs.remove("a"),
    lambda fs: fs.rename("a", "b"),
    lambda fs: fs.write_file("a", b"x"),
    lambda fs: fs.sync_file("a"),
    lambda fs: fs.sync_dir(""),
    lambda fs: fs.lock("lock", "me"),
    lambda fs: fs.unlock("lock"),
    lambda fs: fs.open_segment("a", 4).write(0, b"x"),
    lambda fs: fs.open_segment("new", 4, create=True),
    lambda fs: fs.open_segment("a", 5),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a").write_bytes(b"1234")
    (tmp_path / "empty").touch()
    return tmp_path


@pytest.mark.parametrize("call", CALLS)
def test_every_change_is_refused_and_leaves_the_files_alone(
    root: Path, call: Callable[[FrozenFileSystem], object]
) -> None:
    before = fingerprint(root)
    with pytest.raises(StoreError):
        call(FrozenFileSystem(root))
    assert fingerprint(root) == before


def test_files_are_read_and_empty_ones_are_not_listed(root: Path) -> None:
    fs = FrozenFileSystem(root)
    segment = fs.open_segment("a", 4)
    assert bytes(segment.view(1, 2)) == b"23"
    segment.close()
    assert fs.list("") == ["a"]
    assert fs.list("nowhere") == []

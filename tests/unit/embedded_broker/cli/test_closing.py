"""What could not be saved is known after the end, whichever part of the broker it was."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from embedded_broker import EmbeddedCluster
from embedded_broker.cli.closing import nodes_of, unsaved_lines
from embedded_broker.errors import StoreError
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.message_store import MessageStore


def test_nothing_is_missing_after_a_clean_end(tmp_path: Path) -> None:
    with EmbeddedCluster(brokers=2, tcp=False, store=tmp_path, topics=["T"]) as cluster:
        cluster.stop("broker-b")
        nodes = nodes_of(cluster)
    assert list(nodes) == ["broker-a"]
    assert list(unsaved_lines(nodes)) == []


def test_a_store_that_is_gone_is_named_with_its_broker(tmp_path: Path) -> None:
    with EmbeddedCluster(brokers=2, tcp=False, store=tmp_path) as cluster:
        cluster["broker-b"].send("T", b"x")
        nodes = nodes_of(cluster)
        shutil.rmtree(tmp_path / "broker-b")
    (line,) = unsaved_lines(nodes)
    assert line.startswith("not everything of broker-b is saved: ")
    assert "was removed while the broker used it" in line


def test_what_fails_in_an_unforeseen_way_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(store: MessageStore) -> None:
        store.abandon()
        raise ValueError("nobody thought of it")

    monkeypatch.setattr(MessageStore, "close", fail)
    with EmbeddedCluster(brokers=1, tcp=False, store=tmp_path) as cluster:
        nodes = nodes_of(cluster)
    (line,) = unsaved_lines(nodes)
    assert line == "not everything of broker-a is saved: ValueError('nobody thought of it')"


def test_a_table_alone_that_is_not_saved_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = DirectoryFileSystem.write_file

    def full(fs: DirectoryFileSystem, path: str, data: bytes) -> None:
        if path.startswith("config/topics.json"):
            raise StoreError("no space left")
        write(fs, path, data)

    with EmbeddedCluster(brokers=1, tcp=False, store=tmp_path) as cluster:
        monkeypatch.setattr(DirectoryFileSystem, "write_file", full)
        cluster["broker-a"].topics.create("T")
        nodes = nodes_of(cluster)
    assert list(unsaved_lines(nodes)) == ["not everything of broker-a is saved: no space left"]

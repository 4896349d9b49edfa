"""Files with secrets belong to the broker's user alone, from their first byte on."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_broker import AuthUser, EmbeddedBroker, UserAcl
from embedded_broker.store.config_files import JsonConfigFile
from embedded_broker.store.damaged_folder import set_aside
from embedded_broker.store.directory_fs import DirectoryFileSystem

USERS = "config/auth.json"


@pytest.fixture(autouse=True)
def _everybody_may_read() -> Iterator[None]:
    """Let no mask of the machine hide a mode that is too wide."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def private_files(folder: Path) -> dict[str, int]:
    return {one.name: mode(one) for one in sorted(folder.rglob("*auth.json*"))}


def test_a_file_of_secrets_is_private_when_it_is_opened_and_stays_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = DirectoryFileSystem(tmp_path)
    made: dict[str, int] = {}
    really_open = os.open

    def seen(path: Path, flags: int, mode: int = 0o777) -> int:
        fd = really_open(path, flags, mode)
        if flags & os.O_CREAT:
            made.setdefault(Path(path).name, stat.S_IMODE(os.fstat(fd).st_mode))
        return fd

    monkeypatch.setattr(os, "open", seen)
    for number in range(3):
        JsonConfigFile(fs, USERS).save({"users": {"number": number}})
        JsonConfigFile(fs, "config/topics.json").save({"number": number})
    monkeypatch.undo()
    assert made["auth.json.tmp"] == made["auth.json.crc32"] == 0o600
    assert made["topics.json.tmp"] == 0o644
    names = {"auth.json", "auth.json.bak", "auth.json.crc32"}
    assert private_files(tmp_path) == dict.fromkeys(sorted(names), 0o600)
    assert mode(fs.root / set_aside(fs, USERS)) == 0o600


def test_a_file_that_an_earlier_version_left_open_to_others_is_closed(tmp_path: Path) -> None:
    fs = DirectoryFileSystem(tmp_path)
    for name in (USERS, f"{USERS}.bak", f"{USERS}.tmp", "damaged/0001-auth.json"):
        fs.write_file(name, b"{}")
        (tmp_path / name).chmod(0o644)
    fs.write_file("config/topics.json", b"{}")
    fs.lock("lock", "a test")
    assert set(private_files(tmp_path).values()) == {0o600}
    assert mode(tmp_path / "config" / "topics.json") == 0o644
    fs.unlock("lock")


def test_secrets_of_users_are_private_in_the_store_and_in_its_copies(tmp_path: Path) -> None:
    owner = AuthUser(username="owner", password="hidden-one", superuser=True)
    store = tmp_path / "store"
    with EmbeddedBroker(store=store, acl=UserAcl(users=[owner]), tcp=False) as broker:
        copy = broker.snapshot(tmp_path / "copy")
    with EmbeddedBroker(store=store, tcp=False) as broker:
        second = broker.snapshot(tmp_path / "second")  # without accounts the file is only copied
    for folder in (store, copy, second):
        assert "auth.json" in private_files(folder)
        assert set(private_files(folder).values()) == {0o600}

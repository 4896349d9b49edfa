from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from embedded_broker.errors import StoreError, StoreLockedError
from embedded_broker.store.directory_lock import holder_of
from embedded_broker.store.fs import DirectoryFileSystem

_HOLDER = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
os.write(fd, sys.argv[2].encode())
print("locked", flush=True)
sys.stdin.read()
"""


def _held_by_another_process(path: Path, text: str) -> subprocess.Popen[bytes]:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(path), text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"locked\n"
    return holder


def _end(holder: subprocess.Popen[bytes]) -> None:
    holder.communicate(timeout=30)


@pytest.mark.case("K13")
def test_a_second_owner_in_this_process_is_told_the_first(tmp_path: Path) -> None:
    first, second = DirectoryFileSystem(tmp_path), DirectoryFileSystem(tmp_path / "." / "")
    first.lock("lock", "broker-a")
    with pytest.raises(StoreLockedError, match="broker-a of this process"):
        second.lock("lock", "broker-b")
    first.unlock("lock")
    second.lock("lock", "broker-b")
    second.unlock("lock")
    second.unlock("lock")


@pytest.mark.case("K13")
def test_an_owner_in_another_process_is_named(tmp_path: Path) -> None:
    holder = _held_by_another_process(tmp_path / "lock", "lock")  # as a real broker writes it
    try:
        with pytest.raises(StoreLockedError, match=f"process {holder.pid}"):
            DirectoryFileSystem(tmp_path).lock("lock", "broker-b")
    finally:
        _end(holder)
    fs = DirectoryFileSystem(tmp_path)
    fs.lock("lock", "broker-b")
    fs.unlock("lock")


@pytest.mark.case("K13")
def test_an_embedded_broker_in_another_process_is_named_with_its_name(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from embedded_broker.store.fs import DirectoryFileSystem\n"
        "DirectoryFileSystem(sys.argv[1]).lock('lock', 'broker-x')\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[4],
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"locked\n"
    try:
        with pytest.raises(StoreLockedError, match=f"broker-x, process {holder.pid}"):
            DirectoryFileSystem(tmp_path).lock("lock", "broker-b")
    finally:
        _end(holder)


def test_the_file_starts_with_the_original_word_and_ends_with_it_when_unlocked(
    tmp_path: Path,
) -> None:
    fs = DirectoryFileSystem(tmp_path)
    fs.lock("lock", "broker-a")
    assert (tmp_path / "lock").read_bytes().startswith(b"lock\nheld by broker-a")
    # Reading closed a handle of the file, which drops a POSIX lock: take it anew for the rest.
    fs.unlock("lock")
    assert (tmp_path / "lock").read_bytes() == b"lock"


def test_a_child_of_a_fork_neither_owns_nor_frees_the_lock(tmp_path: Path) -> None:
    fs = DirectoryFileSystem(tmp_path)
    fs.lock("lock", "broker-a")
    child = os.fork()
    if child == 0:
        fs.unlock("lock")
        try:
            DirectoryFileSystem(tmp_path).lock("lock", "child")
        except StoreLockedError as error:
            os._exit(0 if "broker-a" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    fs.unlock("lock")


def test_a_lock_file_that_cannot_be_opened_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(StoreError, match="cannot open"):
        DirectoryFileSystem(tmp_path).lock("lock", "broker-a")


def test_who_holds_a_lock_is_told_without_taking_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert holder_of(lock) is None
    holder = _held_by_another_process(lock, "lock")
    try:
        assert holder_of(lock) == f"process {holder.pid}"
    finally:
        _end(holder)
    assert holder_of(lock) is None
    assert lock.read_bytes() == b"lock"


def test_looking_at_a_lock_of_this_process_does_not_give_it_back(tmp_path: Path) -> None:
    fs = DirectoryFileSystem(tmp_path)
    fs.lock("lock", "broker-a")
    assert holder_of(tmp_path / "lock") == "broker-a of this process"
    ask = "import sys, pathlib; from embedded_broker.store.directory_lock import holder_of; "
    command = [sys.executable, "-c", ask + "print(holder_of(pathlib.Path(sys.argv[1])))"]
    seen = subprocess.run(
        [*command, str(tmp_path / "lock")], capture_output=True, text=True, check=True
    )
    assert seen.stdout.strip() == f"broker-a, process {os.getpid()}"
    fs.unlock("lock")

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from embedded_broker.errors import StoreError, StoreLockedError
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.directory_lock import holder_of

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
        "from embedded_broker.store.directory_fs import DirectoryFileSystem\n"
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


def test_a_forked_child_that_lives_longer_keeps_nobody_out(tmp_path: Path) -> None:
    """A lock of a folder belongs to whoever inherited its descriptor, unlike that of the file."""
    program = (
        "import os, sys\n"
        "from embedded_broker.store.directory_fs import DirectoryFileSystem\n"
        "DirectoryFileSystem(sys.argv[1]).lock('lock', 'broker-x')\n"
        "if os.fork():\n"
        "    os._exit(0)\n"
        "print('alone', flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[4],
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"alone\n"
    assert parent.wait(30) == 0
    try:
        fs = DirectoryFileSystem(tmp_path)
        fs.lock("lock", "broker-b")
        fs.unlock("lock")
    finally:
        parent.communicate()


def test_a_folder_is_locked_even_if_its_lock_file_was_deleted(tmp_path: Path) -> None:
    first = DirectoryFileSystem(tmp_path)
    first.lock("lock", "broker-a")
    assert first.look() is None
    (tmp_path / "lock").unlink()
    ask = (
        "import sys\n"
        "from embedded_broker.store.directory_fs import DirectoryFileSystem\n"
        "DirectoryFileSystem(sys.argv[1]).lock('lock', 'broker-b')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[4],
    )
    assert f"in use by process {os.getpid()}, though its file lock was deleted" in done.stderr
    assert "lock was replaced by another one while the broker used it" in str(first.look())
    for change in (
        lambda: first.write_file("a", b"1"),
        lambda: first.rename("a", "b"),
        lambda: first.remove("a"),
        lambda: first.open_segment("a", 20),
    ):
        with pytest.raises(StoreError, match="nothing more is stored"):
            change()
    first.unlock("lock")
    first.lock("lock", "broker-a")
    first.write_file("a", b"1")
    first.unlock("lock")


def test_a_full_disk_does_not_keep_the_owner_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lock").write_bytes(b"lock")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        fs = DirectoryFileSystem(tmp_path)
        fs.lock("lock", "broker-a")
    assert (tmp_path / "lock").read_bytes() == b"lock"
    fs.unlock("lock")

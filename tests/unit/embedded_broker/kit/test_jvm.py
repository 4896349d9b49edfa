"""A child process: its lines as they come, its end, and what is said when it fails."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from embedded_broker.kit.backend import BackendError
from embedded_broker.kit.jvm import Jvm, running
from embedded_broker.kit.real import wait_until
from tests.unit.embedded_broker.kit.conftest import FakeProgram

ROOT = Path(__file__).parents[4]
STAYS = "exec sleep 60"


def test_a_line_is_found_while_the_program_runs(fake_program: FakeProgram) -> None:
    fake_program("java", f'echo "args $*"; echo "boot success"; {STAYS}')
    with running(["-version"]) as jvm:
        assert jvm.wait_for_line("boot", 20) == "boot success"
        assert jvm.said() == ["args -version", "boot success"]
        assert jvm.process.poll() is None
    assert jvm.process.poll() is not None


def test_a_program_that_ends_fails_the_wait_at_once_with_what_it_printed(
    fake_program: FakeProgram,
) -> None:
    fake_program("java", "echo 'port 9876 is taken'; exit 1")
    with running([]) as jvm, pytest.raises(BackendError, match=r"(?s)ended.*port 9876 is taken"):
        jvm.wait_for_line("boot success", 600)  # a wait to its limit would be a hang


def test_a_line_that_does_not_come_in_time_fails_with_the_limit(fake_program: FakeProgram) -> None:
    fake_program("java", STAYS)
    with running([]) as jvm, pytest.raises(BackendError, match=r"not in 0\.05 s"):
        jvm.wait_for_line("boot success", 0.05)


def test_the_rows_of_a_table_and_the_exit_status_are_read(fake_program: FakeProgram) -> None:
    fake_program("java", r"printf 'row\ta\tb\nother\tc\nrow\td\n'; exit 3")
    with running([]) as jvm:
        assert jvm.finish(20) == 3
        assert jvm.table("row") == [["a", "b"], ["d"]]


def test_a_program_that_does_not_end_in_time_fails_the_wait_with_what_it_printed(
    fake_program: FakeProgram,
) -> None:
    fake_program("java", f"echo 'Exception in main'; {STAYS}")
    with running([]) as jvm:
        jvm.wait_for_line("Exception", 20)
        with pytest.raises(BackendError, match=r"(?s)runs after 0\.05 s.*Exception in main"):
            jvm.finish(0.05)


def test_only_the_last_lines_are_kept_when_asked(fake_program: FakeProgram) -> None:
    fake_program("java", "for i in 1 2 3 4 5; do echo $i; done")
    jvm = Jvm.start([], keep=2)
    jvm.finish(20)
    assert jvm.said() == ["4", "5"]
    jvm.end()


def test_the_end_can_be_polite_or_not_and_may_be_asked_for_twice(
    tmp_path: Path, fake_program: FakeProgram
) -> None:
    last = tmp_path / "last"
    fake_program("java", f"trap 'echo bye > {last}; exit 0' TERM; echo up; while :; do :; done")
    for politely in (False, True):
        jvm = Jvm.start([])
        jvm.wait_for_line("up", 20)
        jvm.end(politely=politely)
        jvm.end(politely=politely)
        assert jvm.process.poll() is not None
        assert last.exists() == politely


def test_without_java_the_error_names_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendError, match="no program java is on PATH"):
        Jvm.start([])


OWNER = """
import os, signal
from embedded_broker.kit.jvm import Jvm
jvm = Jvm.start([])
print(jvm.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_program_does_not_outlive_a_test_run_that_was_killed(fake_program: FakeProgram) -> None:
    fake_program("java", STAYS)
    owner = subprocess.run(
        [sys.executable, "-c", OWNER], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    assert owner.returncode == -signal.SIGKILL
    program = Path(f"/proc/{int(owner.stdout)}/stat")
    wait_until(lambda: ended(program), "the program ends", timeout=20)


def ended(stat: Path) -> bool:
    """Whether the process is gone, or dead and not yet buried by its new parent."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True

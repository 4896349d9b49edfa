"""Jars are fetched once, by one process, and a failure says what Maven said."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from embedded_broker.kit.backend import BackendError
from embedded_broker.kit.maven import cache_folder, fetched, release
from tests.unit.embedded_broker.kit.conftest import FakeProgram

FAKE_MAVEN = 'echo run >> "$RUNS"; grep -o "<artifactId>[a-z-]*" pom.xml > seen; mkdir -p lib'


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "runs"
    monkeypatch.setenv("RUNS", str(path))
    return path


def test_a_release_is_fetched_once_and_found_again(
    tmp_path: Path, runs: Path, fake_program: FakeProgram
) -> None:
    fake_program("mvn", FAKE_MAVEN)
    first = release("5.3.3", "rocketmq-namesrv", "rocketmq-broker", cache=tmp_path)
    assert first == release("5.3.3", "rocketmq-namesrv", "rocketmq-broker", cache=tmp_path)
    assert first.is_dir()
    assert runs.read_text() == "run\n"
    seen = (first.parent / "seen").read_text().split()
    assert seen[1:] == ["<artifactId>rocketmq-namesrv", "<artifactId>rocketmq-broker"]


def test_two_who_want_the_same_jars_at_once_fetch_them_once(
    tmp_path: Path, runs: Path, fake_program: FakeProgram
) -> None:
    fake_program("mvn", f"sleep 0.3; {FAKE_MAVEN}")
    threads = [
        threading.Thread(target=fetched, args=("one", "g:a:1"), kwargs={"cache": tmp_path})
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert runs.read_text() == "run\n"


def test_what_maven_said_is_in_the_error_and_the_next_call_tries_again(
    tmp_path: Path, runs: Path, fake_program: FakeProgram
) -> None:
    fake_program("mvn", "echo 'could not find artifact g:a:9'; exit 1")
    with pytest.raises(BackendError, match=r"(?s)g:a:9; it said:.*could not find artifact g:a:9"):
        fetched("one", "g:a:9", cache=tmp_path)
    fake_program("mvn", "echo '[ERROR] no g:a:9'; echo '[ERROR] for help use -X'; exit 1")
    with pytest.raises(BackendError, match=r"it said:\n\[ERROR\] no g:a:9$"):
        fetched("one", "g:a:9", cache=tmp_path)
    fake_program("mvn", FAKE_MAVEN)
    assert fetched("one", "g:a:9", cache=tmp_path).is_dir()


def test_without_maven_the_error_names_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendError, match="no program mvn is on PATH"):
        fetched("one", "g:a:1", cache=tmp_path)


def test_jars_are_kept_where_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCKETMQ_PY_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "rocketmq-py"
    monkeypatch.setenv("ROCKETMQ_PY_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"

"""A broker that cannot be started: each test says so in a sentence, only the first one tries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.conftest import RunKit

TWO_TESTS = """
@pytest.mark.parametrize("number", range(2))
def test_it(rocketmq_producer, number):
    pass
"""


def test_what_is_missing_is_said_without_a_traceback(
    run_kit: RunKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ROCKETMQ_PY_CACHE", str(tmp_path / "cache"))
    result = run_kit(TWO_TESTS, "--rocketmq=process:5.3.3")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["--rocketmq=process:5.3.3: *no program mvn is on PATH*"] * 2)
    result.stdout.no_fnmatch_line("*During handling*")
    result.stdout.no_fnmatch_line("*remote_fixture*")


def test_what_the_servers_said_is_in_the_error_and_they_are_tried_once(
    run_kit: RunKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, script in {
        "mvn": "mkdir lib",
        "java": f"echo started >> {tmp_path}/starts; echo 'no room on this machine'; exit 1",
    }.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("ROCKETMQ_PY_CACHE", str(tmp_path / "cache"))
    result = run_kit(TWO_TESTS, "--rocketmq=process:5.3.3")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*the program ended; it printed:*", "no room on this machine"])
    assert (tmp_path / "starts").read_text().split() == ["started"]

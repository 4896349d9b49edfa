"""Tests in other languages move the clock of our broker, break it and look in, over HTTP.

The Java test is one of JUnit, with an unmodified 5.3.3 client and the JDK's own HTTP client.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_broker.kit.maven import fetched
from tests.interop.conftest import serving_words
from tests.interop.java_tools import CACHE, QUICK, ROOT, compiled, jars

JUNIT = "org.junit.platform:junit-platform-console-standalone:1.11.4"
OPTIONS = ("--control-port", "0", "--clock", "frozen", "--set", "timerMaxDelaySec=3456000")
RUN_SECONDS = 240
EXAMPLES = ROOT / "examples" / "control"


@pytest.fixture
def words() -> Iterator[dict[str, str]]:
    """The addresses of a served broker on a frozen clock."""
    with serving_words(*OPTIONS) as said:
        yield said


def run(*command: str, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )


@pytest.mark.smoke
@pytest.mark.case("K26")
def test_a_junit_test_moves_the_clock_breaks_the_disk_and_looks_in(words: dict[str, str]) -> None:
    junit = fetched("junit-1.11.4", JUNIT, cache=CACHE)
    (console,) = junit.glob("*.jar")
    path = compiled("ControlTest", jars("5.3.3", "rocketmq-client"), str(console))
    properties = [f"-D{name}={words[name]}" for name in ("namesrv", "control")]
    launcher = "org.junit.platform.console.ConsoleLauncher"
    command = ["java", "-Xmx256m", *QUICK, *properties, "-cp", path, launcher, "execute"]
    done = run(
        *command,
        "--select-class=ControlTest",
        "--details=tree",
        "--disable-banner",
        "--disable-ansi-colors",
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 tests successful" in done.stdout


def assert_thirty_days_passed(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert '"fired":1' in first
    assert '"count":1' in second


def test_the_java_example_runs_as_it_is(words: dict[str, str]) -> None:
    assert_thirty_days_passed(run("java", str(EXAMPLES / "Later.java"), words["control"]))


def test_the_go_example_runs_as_it_is(words: dict[str, str], tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("go is not on PATH")
    cache = str(tmp_path / "go")
    done = run("go", "run", str(EXAMPLES / "later.go"), words["control"], GOCACHE=cache)
    assert_thirty_days_passed(done)

"""A new user: an empty environment, the wheel, and the first test of the README.

Only what the wheel and its dependencies bring is there. The user stands in an empty folder and has
nothing of the checkout.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STEP_S = 300
PYTHON_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
NOT_FOUND = re.compile(r"No matching distribution|Failed to establish|ConnectionError|Temporary")

FIXTURE_TEST = """
from datetime import timedelta
from rocketmq_py import Message


def test_a_reminder_arrives(rocketmq_producer, rocketmq_recorder, rocketmq_topic):
    arrived = rocketmq_recorder(rocketmq_topic)
    rocketmq_producer.send(Message(rocketmq_topic, b"renew", delay=timedelta(days=2)))
    arrived.expect("renew", within=timedelta(days=2), after=timedelta(days=2))
"""


def run(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as the user does: no path of the checkout, no plugin of its suite."""
    env = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST"))
    }
    return subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=STEP_S,
    )


def first_test_of_readme() -> str:
    """Give the first test that the README shows."""
    blocks: list[str] = PYTHON_BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    return next(block for block in blocks if "def test_" in block)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, folder=ROOT)
    assert done.returncode == 0, done.stdout
    (path,) = folder.glob("*.whl")
    return path


@pytest.mark.timeout(4 * STEP_S)
def test_a_new_user_installs_the_wheel_and_runs_a_first_test(wheel: Path, tmp_path: Path) -> None:
    began = time.monotonic()
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    project = tmp_path / "project"
    project.mkdir()

    done = run(python, "-m", "pip", "install", "-q", f"{wheel}[test]", folder=project)
    if done.returncode and NOT_FOUND.search(done.stdout):
        assert not os.environ.get("CI"), done.stdout
        pytest.skip("the dependencies of the wheel cannot be installed here")
    assert done.returncode == 0, done.stdout
    (project / "test_readme.py").write_text(first_test_of_readme(), encoding="utf-8")
    (project / "test_fixture.py").write_text(FIXTURE_TEST, encoding="utf-8")
    done = run(python, "-m", "pytest", "-W", "error", folder=project)
    took_s = time.monotonic() - began

    print(f"environment, installation and first tests: {took_s:.1f} s")
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    told = run(python, "-m", "pytest", "--fixtures", folder=project).stdout
    assert "rocketmq_recorder" in told
    where = "import rocketmq_py; print(rocketmq_py.__file__)"
    assert str(tmp_path) in run(python, "-c", where, folder=project).stdout

"""The recipes of examples/testing run as they say themselves, and the kit gets on with others.

A recipe whose package is missing is skipped, and says which. In CI that is a failure.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.pages import ROOT, pytest_options, python

FOLDER = ROOT / "examples" / "testing"
NEEDS = {
    "anyio": ("anyio", "trio"),
    "asyncio": ("pytest_asyncio",),
    "celery": ("celery",),
    "django": ("django",),
    "fastapi": ("fastapi", "httpx2"),
    "unittest": (),
}
"""Recipe to the packages that it uses."""
TIMEOUT_S = 300


def run(*arguments: str, folder: Path) -> str:
    """Run Python as a user does, in another process; give what it said."""
    done = python(*arguments, folder=folder)
    assert done.returncode == 0, done.stdout
    return done.stdout


def commands_of(recipe: Path) -> list[list[str]]:
    """Give the commands at the end of a recipe's docstring: in rows of their own, or behind it."""
    told = ast.get_docstring(ast.parse(recipe.read_text(encoding="utf-8"))) or ""
    return [
        line.split() for line in re.findall(r"^(?:    |Run it with: )(.+)$", told, re.MULTILINE)
    ]


def test_every_recipe_is_known() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == sorted(
        f"test_with_{name}" for name in NEEDS
    )


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("name", NEEDS)
def test_a_recipe_runs(name: str, tmp_path: Path) -> None:
    missing = [package for package in NEEDS[name] if find_spec(package) is None]
    if missing:
        reason = f"{', '.join(missing)} not installed (make recipes)"
        assert not os.environ.get("CI"), f"{reason}: in CI a missing package is a failure"
        pytest.skip(reason)
    commands = commands_of(FOLDER / f"test_with_{name}.py")
    if name == "unittest":
        (command,) = commands
        assert command[:3] == ["python", "-m", "unittest"]
        assert "OK" in run("-W", "error", *command[1:], "-v", folder=ROOT)
        return
    install, command = commands
    packages = [one.replace("_", "-") for one in NEEDS[name]]
    assert install == ["pip", "install", *packages]
    assert command[0] == "pytest"
    shutil.copy(FOLDER / command[1], tmp_path)
    loop = ["-o", "asyncio_default_fixture_loop_scope=function"] if name == "asyncio" else []
    blocked = [] if name == "asyncio" else ["-p", "no:asyncio"]
    options = [*pytest_options(), *loop, *blocked, "-p", "no:cacheprovider", "-W", "error"]
    told = run("-m", *command, "-q", *options, folder=tmp_path)
    assert " passed" in told
    assert "skipped" not in told


SUITE = """
from datetime import timedelta
import pytest
from rocketmq_py import Message

@pytest.mark.parametrize("minutes", range(1, 9))
def test_in_time(rocketmq_producer, rocketmq_topic, rocketmq_recorder, minutes):
    arrived, span = rocketmq_recorder(rocketmq_topic), timedelta(minutes=minutes)
    rocketmq_producer.send(Message(rocketmq_topic, b"x", delay=span))
    arrived.expect(b"x", within=span, after=span)

def test_seed(rocketmq_broker):
    print(f"<{rocketmq_broker.seed}>")
"""
BLOCKED = ("-p", "no:asyncio", "-p", "no:anyio", "-p", "no:celery", "-p", "no:cacheprovider")


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("scope", ["function", "session"])
def test_tests_run_in_random_order_and_side_by_side(tmp_path: Path, scope: str) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE, encoding="utf-8")
    options = [*pytest_options(), *BLOCKED, f"--rocketmq-scope={scope}", "-W", "error"]
    told = run("-m", "pytest", *options, "-n", "2", folder=tmp_path)
    assert "9 passed" in told
    assert "Using --randomly-seed=" in told
    assert "2 workers" in told


@pytest.mark.timeout(TIMEOUT_S)
def test_the_seed_of_pytest_randomly_repeats_the_brokers_choices(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE, encoding="utf-8")

    def seed(order: str) -> str:
        options = [*pytest_options(), *BLOCKED, "-s", "-k", "seed", "-p", "no:xdist"]
        told = run("-m", "pytest", *options, f"--randomly-seed={order}", folder=tmp_path)
        return told.partition("<")[2].partition(">")[0]

    first = seed("7")
    assert first == seed("7")
    assert first != seed("8")

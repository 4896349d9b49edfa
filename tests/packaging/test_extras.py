"""Each extra, alone in a fresh environment: it gives what it promises, and others are named.

What an extra promises is in ``programs/``. What the others would give is tried as well
(``programs/missing.py``): what is said then names the extra to install. Each environment takes
seconds of pip, so `make test` tries the one without extras only, and `make long` all of them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketmq_py.errors import how_to_install
from tests.packaging.environment import INSTALL_SECONDS, Environment
from tests.packaging.test_declared import EXTRAS

pytestmark = pytest.mark.timeout(INSTALL_SECONDS)
With = Callable[[str], Environment]
SILENT = {"fast"}
"""Without it the same works, slower: nothing is missing."""
PROGRAMS = {
    "control": ["control"],
    "fast": ["fast"],
    "grpc": ["grpc_client"],
    "lz4": ["compressed", "lz4"],
    "metrics": ["metrics"],
    "otel": ["otel"],
    "zstd": ["compressed", "zstd"],
}
"""The program, with its arguments, that tries an extra. Other extras have tests of their own."""


def assert_others_are_named(environment: Environment, *there: str) -> None:
    """Every extra that is not there is named when what it would give is asked for.

    And what is there is not imported by what does not need it.
    """
    assert environment.program("alone").startswith("works on 3.")
    others = sorted(set(EXTRAS) - SILENT - set(there))
    told: dict[str, list[str]] = json.loads(environment.program("missing", *others))
    assert set(told) == set(others)
    for extra, sentences in told.items():
        for sentence in sentences:
            assert how_to_install(extra) in sentence, (extra, sentence)


def test_every_extra_is_tried() -> None:
    of_their_own = {name for name in globals() if name.startswith("test_with_")}
    tried = {name.removeprefix("test_with_") for name in of_their_own} | set(PROGRAMS)
    assert tried == set(EXTRAS)


def test_alone_everything_that_needs_no_extra_works(alone: Environment, tmp_path: Path) -> None:
    assert_others_are_named(alone)
    options = alone.run("python", "-I", "-m", "spark_connector", "options")
    assert "nameServer" in options.stdout, options.stderr
    bundle = alone.run("python", "-I", "-m", "spark_connector", "bundle", str(tmp_path / "b.zip"))
    assert "for --py-files" in bundle.stdout, bundle.stderr


def test_alone_the_command_says_what_to_install(alone: Environment) -> None:
    done = alone.run("rocketmq-py", "serve")
    assert done.stdout == ""
    assert done.stderr == f"rocketmq-py needs typer: {how_to_install('cli')}\n"
    assert done.returncode == 1


@pytest.mark.slow
def test_with_acl(with_extra: With, tmp_path: Path) -> None:
    environment = with_extra("acl")
    assert environment.program("acl", str(tmp_path)) == "works"
    assert_others_are_named(environment, "acl")


@pytest.mark.slow
def test_with_cli(with_extra: With, tmp_path: Path) -> None:
    environment = with_extra("cli")
    environment.program("cli", str(tmp_path))
    version = environment.run("rocketmq-py", "--version")
    assert (version.stderr, version.returncode) == ("", 0)
    timers = environment.run("rocketmq-py", "timers", str(tmp_path))
    assert "Reminders" in timers.stdout, timers.stderr
    picture = environment.run("rocketmq-py", "timers", str(tmp_path), "--png", "timers.png")
    assert picture.returncode != 0
    assert how_to_install("plot") in picture.stderr
    assert "Traceback" not in picture.stderr
    accounts = tmp_path / "plain_acl.yml"
    accounts.write_text("accounts: []\n", encoding="utf-8")
    refused = environment.run("rocketmq-py", "serve", "--acl", str(accounts))
    assert refused.returncode != 0
    assert how_to_install("acl") in refused.stderr
    assert "Traceback" not in refused.stderr
    assert_others_are_named(environment, "cli")


@pytest.mark.slow
def test_with_containers(with_extra: With) -> None:
    environment = with_extra("containers")
    nowhere = "unix:///nowhere/engine.sock"
    program = Path(__file__).parent / "programs" / "containers.py"
    done = environment.run("python", "-I", str(program), DOCKER_HOST=nowhere)
    assert f"no container engine answers at {nowhere}" in done.stdout, done.stderr
    assert_others_are_named(environment, "containers")


@pytest.mark.slow
@pytest.mark.parametrize("extra", PROGRAMS)
def test_the_program_of_an_extra_works(with_extra: With, extra: str) -> None:
    environment = with_extra(extra)
    assert environment.program(*PROGRAMS[extra]) == "works"
    assert_others_are_named(environment, extra)


@pytest.mark.slow
def test_with_plot(with_extra: With, tmp_path: Path) -> None:
    environment = with_extra("plot")
    assert environment.program("plot", str(tmp_path)) == "works"
    assert_others_are_named(environment, "plot")


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.slow
def test_with_spark(with_extra: With) -> None:
    if shutil.which("java") is None:
        pytest.skip("java is not on PATH")
    environment = with_extra("spark")
    assert environment.program("spark").endswith("[b'later']")
    assert_others_are_named(environment, "spark")


# What a user's tests get, and what a run of pytest imports before one of them asks.

IMPORTED_BY_A_RUN = """
import sys

OURS = {"compat", "embedded_broker", "rocketmq_py", "spark_connector", "testcontainers", "docker"}


def ours():
    return sorted(name for name in sys.modules if name.partition(".")[0] in OURS)


def pytest_collection_finish(session):
    print("\\nCOLLECTED", *ours())


def pytest_sessionfinish(session):
    print("\\nFINISHED", *ours())
"""
A_TEST = "def test_one(): pass\n"
A_TEST_WITH_A_BROKER = """
from datetime import timedelta

from rocketmq_py import Message


def test_two(rocketmq_broker, rocketmq_producer, rocketmq_topic):
    rocketmq_producer.send(Message(rocketmq_topic, b"x", delay=timedelta(days=2)))
    rocketmq_broker.clock.advance(days=2)
    assert [m.body for m in rocketmq_broker.messages.in_topic(rocketmq_topic)] == [b"x"]
"""
PLUGIN = [
    "embedded_broker",
    "embedded_broker.kit",
    "embedded_broker.kit.fixtures",
    "embedded_broker.kit.plugin",
    "embedded_broker.kit.skipping",
    "embedded_broker.pytest_plugin",
]


@pytest.mark.slow
def test_with_test(with_extra: With, tmp_path: Path) -> None:
    environment = with_extra("test")
    (tmp_path / "conftest.py").write_text(IMPORTED_BY_A_RUN, encoding="utf-8")
    (tmp_path / "test_one.py").write_text(A_TEST, encoding="utf-8")
    without = environment.run("pytest", "-s", "-p", "no:cacheprovider", cwd=tmp_path)
    assert "1 passed" in without.stdout, without.stdout + without.stderr
    lines = {line.split()[0]: line.split()[1:] for line in without.stdout.splitlines() if line}
    assert lines["COLLECTED"] == PLUGIN
    assert lines["FINISHED"] == sorted([*PLUGIN, "embedded_broker.kit.leftovers"])

    (tmp_path / "test_two.py").write_text(A_TEST_WITH_A_BROKER, encoding="utf-8")
    done = environment.run("pytest", "-p", "no:cacheprovider", "-W", "error", cwd=tmp_path)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    container = environment.run("pytest", "--rocketmq=container", cwd=tmp_path)
    assert how_to_install("containers") in container.stdout, container.stderr
    assert_others_are_named(environment, "test")

"""Servers that the interop tests talk to: ours as a process, and a real 5.3.3 pair."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rocketmq_py import DefaultMQProducer
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC
from tests.interop.container_engine import VERSION, NoEngineError, engine, load
from tests.interop.java_tools import ROOT, missing_tools
from tests.interop.real_broker import RealCluster, real_cluster
from tests.interop.scenarios import Cell, table
from tests.needs import skip_without

BEGIN_FIRST = ("test_kit_on_real_brokers.py", "test_kit_on_a_broker_of_4x.py")
"""They take longest; all other files run beside them."""


@pytest.hookimpl(trylast=True)  # after what puts tests into a random order
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything here; without Java or Maven skip it on a user's machine, fail it in CI."""
    here = Path(__file__).parent
    items.sort(key=lambda item: item.path.name not in BEGIN_FIRST)
    missing = missing_tools()
    for item in items:
        if here not in item.path.parents:
            continue
        item.add_marker(pytest.mark.interop)
        item.add_marker(pytest.mark.timeout(600))
        if missing and not os.environ.get("CI"):
            item.add_marker(pytest.mark.skip(reason=f"{', '.join(missing)} not found"))


@pytest.fixture(scope="session", autouse=True)
def tools() -> None:
    """In CI a missing tool is a failure with its name."""
    if missing := missing_tools():
        pytest.fail(f"not found on this machine: {', '.join(missing)}")


Done = Callable[[str, str, Cell], None]
_DONE = "client and scenario"


@pytest.fixture
def done(request: pytest.FixtureRequest) -> Done:
    """Note what became of a client and a scenario, for the table at the end."""

    def note(client: str, scenario: str, cell: Cell) -> None:
        request.node.user_properties.append((_DONE, (client, scenario, cell.told(scenario))))

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the table of clients and scenarios, whichever worker ran them."""
    told: dict[tuple[str, str], str] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == _DONE:
                    client, scenario, text = value
                    told[client, scenario] = text
    if told:
        terminalreporter.section("clients and scenarios")
        for line in table(told):
            terminalreporter.write_line(line)


QUEUES = 4
Serve = Callable[..., contextlib.AbstractContextManager[str]]


@contextlib.contextmanager
def serving(*options: str) -> Iterator[str]:
    """`rocketmq-py serve` as a process on free ports; yields the name server's address."""
    with serving_words(*options) as words:
        yield words["namesrv"]


@contextlib.contextmanager
def serving_words(*options: str) -> Iterator[dict[str, str]]:
    """The same; yields the words of its ready line: where everything is."""
    command = [sys.executable, "-c", "from embedded_broker.cli import main; main()", "serve"]
    ports = ["--namesrv-port", "0", "--broker-port", "0"]
    process = subprocess.Popen(
        [*command, *ports, *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline() if process.stdout else ""
        words = dict(word.split("=", 1) for word in line.split()[1:])
        assert line.startswith("ready "), f"serve printed {line!r}"
        yield words
    finally:
        process.terminate()
        status = process.wait(20)
        if process.stdout is not None:
            process.stdout.close()
    assert status == 0


@pytest.fixture
def serve() -> Serve:
    return serving


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """A real 5.3.3 name server and broker, shared by the tests of this folder."""
    with real_cluster(tmp_path_factory.mktemp("real")) as cluster:
        yield cluster


OnBoth = Callable[[str], contextlib.AbstractContextManager[str]]


@pytest.fixture(params=["embedded", "real"])
def on_both(request: pytest.FixtureRequest, serve: Serve) -> OnBoth:
    """Run the test on our broker and on the real one: ``with on_both(topic) as namesrv_addr``.

    The broker has the topic then, with `QUEUES` queues.
    """

    @contextlib.contextmanager
    def start(topic: str) -> Iterator[str]:
        if request.param == "embedded":
            with serve("--topic", topic) as address:
                yield address
        else:
            cluster: RealCluster = request.getfixturevalue("real")
            with DefaultMQProducer("topics", namesrv_addr=cluster.namesrv_addr) as producer:
                producer.create_topic(AUTO_CREATE_TOPIC, topic, QUEUES)
            yield cluster.namesrv_addr

    return start


@pytest.fixture(scope="session")
def engine_image() -> Iterator[str]:
    """The name of an image of RocketMQ at an engine that testcontainers reaches.

    Where no engine answers, or none may start a container, the test is skipped with the reason.
    """
    skip_without("testcontainers")
    from testcontainers.core.config import ConnectionMode, testcontainers_config

    with pytest.MonkeyPatch.context() as patch:
        try:
            with engine() as variables:
                for name, value in variables.items():
                    patch.setenv(name, value)
                if variables:  # testcontainers has read its variables when it was imported
                    config, mode = testcontainers_config, ConnectionMode.docker_host
                    patch.setattr(config, "tc_host_override", "127.0.0.1")
                    patch.setattr(config, "connection_mode_override", mode)
                    patch.setattr(config, "ryuk_disabled", True)
                yield load(VERSION)
        except NoEngineError as error:
            pytest.skip(str(error))

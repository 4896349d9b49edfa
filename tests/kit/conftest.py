"""Runs of pytest inside a test, with the plugin and nothing that depends on the machine."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest

RunKit = Callable[..., pytest.RunResult]

QUIET = ("-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider", "-p", "no:timeout")
NOT_NEEDED = (
    "embedded_broker.cli",
    "embedded_broker.containers",
    "embedded_broker.kit.rocketmq_container",
    "embedded_broker.kit.container",
    "rocketmq_py.telemetry.metrics",
    "rocketmq_py.telemetry.spans",
)
SOURCES = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session", autouse=True)
def _everything_is_imported() -> None:
    """A run inside forgets what it has imported, and then there would be two of each class."""
    for package in ("rocketmq_py", "embedded_broker"):
        for path in sorted((SOURCES / package).rglob("*.py")):
            name = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
            if not name.startswith(NOT_NEEDED):
                import_module(name.removesuffix(".__init__"))


_INSTALLED = [*entry_points(group="pytest11", name="rocketmq")]
HEAD = """
from datetime import UTC, datetime, timedelta
import pytest
from embedded_broker import EmbeddedBroker, TopicSpec, VirtualClock
from rocketmq_py import (
    ConsumeConcurrentlyStatus, DefaultMQAdminExt, DefaultMQProducer, DefaultMQPushConsumer, Message,
)

MINUTE = timedelta(minutes=1)

def done(messages, context):
    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

def later(messages, context):
    return ConsumeConcurrentlyStatus.RECONSUME_LATER
"""


@pytest.fixture
def run_kit(pytester: pytest.Pytester) -> RunKit:
    """Runs the tests of a text, with options; ``separate`` in a process of its own."""

    def run(tests: str, *options: str, separate: bool = False) -> pytest.RunResult:
        pytester.makepyfile(HEAD + tests if tests else "def test_plain(): pass")
        if _INSTALLED:
            named: tuple[str, ...] = ()
        else:
            named = ("-p", "embedded_broker.pytest_plugin")
        arguments = (*named, *QUIET, *options)
        if separate:
            return pytester.runpytest_subprocess(*arguments)
        return pytester.runpytest_inprocess(*arguments)

    return run

"""The pytest plugin ``rocketmq``: brokers, clients, clocks and recorders for tests.

Answers: which fixtures, options and marks a project gets by installing the package. ``pytest
--fixtures`` explains the fixtures. Must not know: how they work. Nothing but pytest is imported
before a test asks for one of them. Read on: ``embedded_broker/kit/fixtures.py``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

try:
    import pytest  # noqa: F401 - so that what is missing is named with its remedy
except ModuleNotFoundError as error:
    from rocketmq_py.errors import how_to_install

    raise ModuleNotFoundError(
        f"the pytest plugin needs pytest ({error}): {how_to_install('test')}",
        name=error.name,
    ) from error

from embedded_broker.kit.fixtures import (
    _rocketmq_fixture,
    rocketmq_aio_consumer,
    rocketmq_aio_producer,
    rocketmq_broker,
    rocketmq_clock,
    rocketmq_cluster,
    rocketmq_consumer,
    rocketmq_endpoints,
    rocketmq_faults,
    rocketmq_group,
    rocketmq_producer,
    rocketmq_recorder,
    rocketmq_store,
    rocketmq_topic,
)
from embedded_broker.kit.plugin import (
    pytest_addoption,
    pytest_configure,
    pytest_configure_node,
    pytest_fixture_setup,
    pytest_report_header,
    pytest_runtest_call,
    pytest_runtest_makereport,
    pytest_runtest_setup,
    pytest_runtest_teardown,
    pytest_unconfigure,
)

if TYPE_CHECKING:
    from embedded_broker.kit.clients import AsyncConsumers, Consumers, Recorders
    from embedded_broker.kit.recorder import AsyncRecorder, Recorder
    from embedded_broker.kit.store import Store

_MODULE_OF = {
    "AsyncConsumers": "clients",
    "AsyncRecorder": "recorder",
    "Consumers": "clients",
    "Recorder": "recorder",
    "Recorders": "clients",
    "Store": "store",
}
"""The classes of what fixtures give, for annotations."""

__all__ = [
    "AsyncConsumers",
    "AsyncRecorder",
    "Consumers",
    "Recorder",
    "Recorders",
    "Store",
    "_rocketmq_fixture",
    "pytest_addoption",
    "pytest_configure",
    "pytest_configure_node",
    "pytest_fixture_setup",
    "pytest_report_header",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
    "pytest_unconfigure",
    "rocketmq_aio_consumer",
    "rocketmq_aio_producer",
    "rocketmq_broker",
    "rocketmq_clock",
    "rocketmq_cluster",
    "rocketmq_consumer",
    "rocketmq_endpoints",
    "rocketmq_faults",
    "rocketmq_group",
    "rocketmq_producer",
    "rocketmq_recorder",
    "rocketmq_store",
    "rocketmq_topic",
]


def __getattr__(name: str) -> object:
    """Load a class on its first use (PEP 562)."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"embedded_broker.kit.{module}"), name)

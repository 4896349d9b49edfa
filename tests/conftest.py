"""What holds for every test of the tree."""

from __future__ import annotations

from importlib.metadata import entry_points

from hypothesis import settings

# The plugin comes with the installed package, unless that was installed before there was one.
_installed = [*entry_points(group="pytest11", name="rocketmq")]
pytest_plugins = [
    "pytester",
    "tests.certificates",
    *([] if _installed else ["embedded_broker.pytest_plugin"]),
]

# A deadline in milliseconds would make a busy machine fail the tests; tests/perf measures time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

"""What holds for every test of the tree."""

from __future__ import annotations

import signal
from importlib.metadata import entry_points

from hypothesis import settings

# The plugin comes with the installed package, unless that was installed before there was one.
_installed = [*entry_points(group="pytest11", name="rocketmq")]
pytest_plugins = [
    "pytester",
    "tests.certificates",
    "tests.needs",
    *([] if _installed else ["embedded_broker.pytest_plugin"]),
]

# A deadline in milliseconds would make a busy machine fail the tests; tests/perf measures time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# A shell starts background jobs with SIGINT ignored, and children inherit that. Tests that
# interrupt a program with SIGINT have to pass there as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

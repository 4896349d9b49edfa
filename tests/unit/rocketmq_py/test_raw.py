"""The names of bulk tools: in `rocketmq_py.raw`, and none of them imported before it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rocketmq_py
from rocketmq_py import raw


def test_importing_the_package_imports_no_tool() -> None:
    probe = (
        "import sys; before = set(sys.modules); import rocketmq_py.raw; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "rocketmq_py",
        "rocketmq_py._version",
        "rocketmq_py.lazy_names",
        "rocketmq_py.raw",
    ]


def test_every_tool_says_where_it_comes_from() -> None:
    assert set(raw.__all__) == set(raw._MODULE_OF)
    assert sorted(raw.__all__) == raw.__all__
    assert set(raw.__all__) <= set(dir(raw))


@pytest.mark.parametrize("name", raw.__all__)
def test_a_tool_is_found_and_kept(name: str) -> None:
    thing = getattr(raw, name)
    assert thing is vars(raw)[name]


def test_two_names_are_also_where_they_were() -> None:
    assert set(raw.__all__) & set(rocketmq_py.__all__) == {"QueueAccess", "QueueBounds"}
    assert raw.QueueAccess is rocketmq_py.QueueAccess
    assert raw.QueueBounds is rocketmq_py.QueueBounds


def test_an_unknown_tool_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'RawMesages'"):
        _ = raw.RawMesages  # type: ignore[attr-defined]

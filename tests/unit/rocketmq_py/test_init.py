"""The public names: all there, none imported before it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rocketmq_py


def test_importing_the_package_imports_nothing_else() -> None:
    probe = (
        "import sys; before = set(sys.modules); import rocketmq_py; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "rocketmq_py",
        "rocketmq_py._version",
        "rocketmq_py.lazy_names",
    ]


def test_every_name_says_where_it_comes_from() -> None:
    assert set(rocketmq_py.__all__) == {*rocketmq_py._MODULE_OF, "__version__"}
    assert sorted(rocketmq_py.__all__) == rocketmq_py.__all__
    assert set(rocketmq_py.__all__) <= set(dir(rocketmq_py))


@pytest.mark.parametrize("name", rocketmq_py.__all__)
def test_a_public_name_is_found_and_kept(name: str) -> None:
    thing = getattr(rocketmq_py, name)
    assert thing is getattr(rocketmq_py, name)
    assert thing is vars(rocketmq_py)[name]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Mesage'"):
        _ = rocketmq_py.Mesage  # type: ignore[attr-defined]


def test_every_error_that_a_send_or_a_recall_names_is_public() -> None:
    for name in (
        "BatchRefusedError",
        "MessageQueueSelector",
        "ProducerConfig",
        "PushConsumerConfig",
        "RecallNotSupportedError",
        "RequestCode",
        "ResponseCode",
        "SendCallback",
    ):
        assert name in rocketmq_py.__all__

"""Calls in the background that cannot begin are failures like others."""

from __future__ import annotations

import threading

import pytest

from rocketmq_py import MQClientException
from spark_connector.servers.back_off import in_background


def test_what_runs_in_the_background_gives_its_result() -> None:
    assert in_background(lambda: 7).result(30) == 7


def test_without_a_thread_the_call_has_failed_and_nobody_waits_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(MQClientException, match="can't start new thread"):
        in_background(lambda: 7).result(30)

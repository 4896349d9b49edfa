"""A peer that brings about many log lines gets few of them."""

from __future__ import annotations

import logging

import pytest

from embedded_broker.remoting import rate_limited_log
from embedded_broker.remoting.rate_limited_log import EVERY_NS, RateLimitedLog


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records]


def test_one_line_is_written_each_second_and_the_next_one_counts_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now_ns = 0
    monkeypatch.setattr(rate_limited_log, "monotonic_ns", lambda: now_ns)
    lines = RateLimitedLog(logging.getLogger("peers"))
    for at_ns in (0, 1, EVERY_NS - 1, EVERY_NS, 2 * EVERY_NS):
        now_ns = at_ns
        lines.warn(f"at {at_ns}")
    assert lines_of(caplog) == [
        "at 0",
        f"at {EVERY_NS}; 2 more lines like this were left out since the last one",
        f"at {2 * EVERY_NS}",
    ]


def test_kinds_are_counted_apart(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("peers")
    RateLimitedLog(logger).warn("one kind")
    RateLimitedLog(logger).warn("another")
    assert lines_of(caplog) == ["one kind", "another"]


def test_a_line_repeats_only_the_beginning_of_what_a_peer_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    RateLimitedLog(logging.getLogger("peers")).warn("%s" + "x" * 10_000)
    (line,) = lines_of(caplog)
    assert line == "%s" + "x" * 298 + "..."

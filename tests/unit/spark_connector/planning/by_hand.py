"""A tracker that looks at every call and waits for every answer, and time that a test moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve

from rocketmq_py import QueueAccess
from spark_connector.options.read_options import read_options
from spark_connector.planning.tracker import Tracker

GUARD_S = 30.0


class HandClock:
    """The connector's time in seconds, which moves when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


def set_clock(monkeypatch: pytest.MonkeyPatch, clock: Callable[[], float]) -> None:
    for module in (
        "planning.tracker",
        "planning.broker_watch",
        "planning.group_offsets",
        "planning.required_queues",
        "servers.back_off",
    ):
        monkeypatch.setattr(f"spark_connector.{module}.monotonic", clock)


def tracker(access: QueueAccess, **options: object) -> Tracker:
    given = {"nameServer": "h:1", "subscribe": "T", "startingOffsets": "earliest"}
    given |= {"routeRefreshMs": "1", "missingQueueGraceMs": "0"}
    given |= {name: str(value) for name, value in options.items()}
    if "subscribePattern" in given or "assign" in given:
        del given["subscribe"]
    made = Tracker(access, read_options(given, streaming=True))
    made._watch._wait_s = 0.0
    if "offsetPollIntervalMs" not in options:  # every call looks, however soon it comes
        made._watch._options = evolve(made._options, offset_poll_interval_ms=0)
    # A slow machine is no slow broker: every answer of this process's brokers is waited for.
    made._watch._patience_s = made._watch._recheck_s = made._watch._hurried_s = GUARD_S
    if made._group is not None:
        made._group._patience_s = GUARD_S
    return made

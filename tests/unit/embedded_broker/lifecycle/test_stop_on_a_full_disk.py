"""A broker that stops on a full disk: its store is recovered from bytes, and not called damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.fault_points import DiskFault

COUNT = 6
FULL = "no space left on device"


@pytest.mark.parametrize("engine", ["wheel", "sliced"])
@pytest.mark.parametrize("path", ["timermeta.tmp", "timermetrics.tmp", "delayOffset.json.tmp"])
def test_nothing_is_wrong_with_it_when_it_is_opened_again(
    tmp_path: Path, path: str, engine: Literal["wheel", "sliced"]
) -> None:
    fs = DirectoryFileSystem(tmp_path)
    with EmbeddedBroker(
        fs=fs, clock=VirtualClock(), tcp=False, topics=["T"], engine=engine
    ) as broker:
        for number in range(COUNT):
            broker.send("T", b"%d" % number, delay=10 + number)
        broker.clock.advance(12)
        fs.faults.add_write(DiskFault(FULL, f"config/{path}", left=None))
    fs.faults.clear()
    with EmbeddedBroker(fs=fs, clock=VirtualClock(), tcp=False, engine=engine) as broker:
        assert broker.recovery.problems == ()
        broker.clock.advance(60)
        left = sorted(one.body for one in broker.messages.in_topic("T"))
        assert left == [b"%d" % number for number in range(COUNT)]

"""Masters whose slaves act for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from embedded_broker import VirtualClock
from embedded_broker.ha import synchronize
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.ha.acting_group import ACTING, QUICK, START, Group, Groups


@pytest.fixture
def start_group(
    start_broker: StartBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Groups:
    monkeypatch.setattr(synchronize, "TURN_MS", 20)  # between looks at the master's tables

    def start(**more: Any) -> Group:
        other = start_broker(broker_name="broker-b", topics=["T"])
        config = {"namesrvAddr": other.namesrv_addr, **QUICK, **ACTING, **more}
        master = start_broker(
            config={**config, "haListenPort": 0},
            store=tmp_path / "master",
            topics=["T"],
            clock=VirtualClock(START),
        )
        slave = start_broker(
            config={**config, "brokerRole": "SLAVE", "brokerId": 1},
            store=tmp_path / "slave",
            clock=VirtualClock(START),
        )
        group = Group(other, master, slave)
        slave.wait_for(lambda _: "T" in slave._parts().tables.topics)
        return group

    return start

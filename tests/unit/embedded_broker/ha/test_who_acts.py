"""Which broker delivers what is due, when name servers and disks fail beside the master."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.ha import registration
from embedded_broker.ha.request_line import RequestLine
from embedded_broker.ha.synchronize import SlaveSynchronize
from embedded_broker.lifecycle import acting
from embedded_broker.timer.wheel.engine import TimerMessageStore
from rocketmq_py.protocol.codes import RequestCode
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.ha.acting_group import ACTING, QUICK, Group, Groups, forget
from tests.unit.embedded_broker.wire_peer import Connect

ASKED = RequestCode.EXCHANGE_BROKER_HA_INFO


def make_way(group: Group) -> None:
    """Let the slave end, as a master does that comes back."""
    parts = group.slave._parts()
    assert parts.durability.replication.make_way is not None
    with parts.door:
        assert parts.durability.replication.make_way() is not None


def test_a_slave_that_has_made_way_acts_again_only_when_its_master_is_silent(
    start_group: Groups, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(registration, "TURN_S", 3600)  # the master comes back and waits
    monkeypatch.setattr(acting, "MADE_WAY_MS", 0)
    group = start_group()
    group.lose_master()
    group.other.close()
    make_way(group)
    group.master.restart()
    group.other.restart()
    group.slave.wait_for(
        lambda _: group.acts() or group.master.journal.requests(code=ASKED),
    )
    assert not group.acts()
    assert caplog.text.count("slave_acts_as_master") == 1


def test_a_name_server_that_starts_again_lets_no_second_slave_act_beside_the_first(
    start_group: Groups,
    start_broker: StartBroker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    group = start_group()
    config = {"namesrvAddr": group.other.namesrv_addr, **QUICK, **ACTING}
    second = start_broker(config={**config, "brokerRole": "SLAVE", "brokerId": 2})
    second.wait_for(lambda _: "T" in second._parts().tables.topics)
    group.lose_master()
    register, is_late = SlaveSynchronize._register, [True]

    def first_comes_late(one: SlaveSynchronize, name_server: RequestLine) -> None:
        if one._header.broker_id == 1 and is_late[0]:
            raise ConnectionError("not yet")
        register(one, name_server)

    monkeypatch.setattr(SlaveSynchronize, "_register", first_comes_late)
    group.other.restart()
    acts = group.timers_of(second)
    second.wait_for(
        lambda _: acts.should_running_dequeue or group.slave.journal.requests(code=ASKED)
    )
    assert not acts.should_running_dequeue
    is_late[0] = False
    assert group.acts()
    assert "slave_makes_way" not in caplog.text


def test_a_slave_that_acts_takes_over_no_table_of_a_master_that_wakes(
    start_group: Groups, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "TURN_S", 3600)
    group = start_group()
    group.send(b"level", level=2)
    refused: list[RequestLine] = []

    def refuse(_: SlaveSynchronize, name_server: RequestLine) -> None:
        refused.append(name_server)
        raise ConnectionError("not now")

    # It cannot learn that the master is gone, and goes on to ask it for its tables.
    monkeypatch.setattr(SlaveSynchronize, "_register", refuse)
    monkeypatch.setattr(SlaveSynchronize, "_lives", lambda *_: False)
    forget(group.master, connect(group.other.namesrv_addr))
    group.slave.wait_for(lambda _: group.acts())
    group.slave.clock.advance(5)
    assert group.elsewhere() == [b"level"]
    levels = group.slave._parts().levels
    assert levels.offsets() == {2: 1}
    seen = len(refused)
    # Between two of its attempts lies one turn from begin to end.
    group.slave.wait_for(lambda _: len(refused) > seen + 1)
    assert levels.offsets() == {2: 1}


def fail_once(monkeypatch: pytest.MonkeyPatch, broker_timers: list[TimerMessageStore]) -> list[str]:
    """Let the disk refuse once to tell what was released; gives who was refused."""
    change, refused = TimerMessageStore.set_should_running_dequeue, list[str]()

    def refuse(timers: TimerMessageStore, running: Any) -> None:
        if running and not refused and timers not in broker_timers:
            refused.append("refused")
            raise StoreError("the disk does not answer")
        change(timers, running)

    monkeypatch.setattr(TimerMessageStore, "set_should_running_dequeue", refuse)
    return refused


def test_a_slave_whose_disk_refuses_acts_later(
    start_group: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = start_group()
    group.send(b"due", seconds=5)
    refused = fail_once(monkeypatch, [])
    group.lose_master()
    assert refused
    group.pass_time(5)
    assert group.elsewhere() == [b"due"]


def test_a_master_whose_disk_refuses_comes_back_later(
    start_group: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "TURN_S", 0.02)
    group = start_group()
    group.send(b"due", b"later", seconds=5)
    group.lose_master()
    refused = fail_once(monkeypatch, [group.timers_of(group.slave)])
    group.return_master()
    assert refused
    group.pass_time(5)
    assert group.delivered() == Counter([b"due", b"later"])
    assert group.elsewhere() == []

"""A broker that only delays: what is due goes to a broker of the topic, once and not early."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.clocks import timeline
from embedded_broker.clocks.timeline import DOOR_BUDGET_MS
from embedded_broker.timer.wheel.release import TimerDequeuePutMessageService
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.core.pop.popper import Popper
from tests.unit.embedded_broker.wire_peer import Connect

Delays = Callable[..., EmbeddedBroker]


@pytest.fixture
def target(start_broker: StartBroker) -> EmbeddedBroker:
    return start_broker(topics=["T"])


@pytest.fixture
def start_delays(start_broker: StartBroker, target: EmbeddedBroker) -> Delays:
    def start(**arguments: Any) -> EmbeddedBroker:
        more = arguments.pop("config", {})
        config = {"escapeNamesrvAddr": target.namesrv_addr, **more}
        return start_broker(config=config, topics=["T"], broker_name="delays", **arguments)

    return start


def bodies(broker: EmbeddedBroker) -> list[bytes]:
    return [one.body for one in broker.messages.in_topic("T")]


def test_what_is_due_goes_to_the_other_broker_and_a_jump_ends_when_it_is_there(
    start_delays: Delays, target: EmbeddedBroker
) -> None:
    delays = start_delays()
    for seconds in (1, 2, 3600):
        delays.send("T", b"%d" % seconds, delay=timedelta(seconds=seconds), tags="a", keys="k")
    delays.send("T", b"level", delay_level=1)
    delays.clock.advance(0.999)
    assert bodies(target) == []
    delays.clock.advance(10)
    assert sorted(bodies(target)) == [b"1", b"2", b"level"]
    delays.clock.advance(3600)
    assert sorted(bodies(target)) == [b"1", b"2", b"3600", b"level"]
    assert bodies(delays) == []
    found = {one.body: one for one in target.messages.in_topic("T")}[b"1"]
    assert (found.tags, found.keys) == ("a", ("k",))
    assert found.properties["TIMER_OUT_MS"].isdecimal()
    sent = target.journal.requests(code=RequestCode.SEND_MESSAGE_V2)[0].fields
    assert sent["a"] == "InnerProducerGroup_delays_0"
    assert "TIMER_SRC_OFFSET" not in sent["i"]  # an offset of another log


def test_a_long_delay_hops_at_home(start_delays: Delays, target: EmbeddedBroker) -> None:
    delays = start_delays(config={"timerRollWindowSlot": 60})
    delays.send("T", b"far", delay=timedelta(seconds=150))
    for _ in range(149):
        delays.clock.advance(1)
    assert delays.timers.count() == 1
    assert bodies(target) == []
    delays.clock.advance(1)
    assert bodies(target) == [b"far"]
    rolls = target.messages.in_topic("T")[0].properties["TIMER_ROLL_TIMES"]
    assert int(rolls) >= 2


def test_what_was_popped_here_comes_back_here(start_delays: Delays, target: EmbeddedBroker) -> None:
    delays = start_delays()
    delays.send("T", b"popped")
    popper = Popper(delays)
    assert popper.bodies(invisible_ms=60_000) == [b"popped"]
    delays.clock.advance(65)
    assert popper.bodies() == [b"popped"]
    revive = "rmq_sys_REVIVE_LOG_DefaultCluster"
    assert len(target.messages.in_topic(revive)) == 0
    assert len(delays.messages.in_topic(revive)) == 1


def test_a_refusal_is_tried_again_until_it_is_there_once(
    start_delays: Delays, target: EmbeddedBroker
) -> None:
    delays = start_delays()
    for number in (1, 2, 3):
        refusal = target.faults.on(RequestCode.SEND_MESSAGE_V2, topic="T", nth=number)
        refusal.respond(ResponseCode.SYSTEM_BUSY)
    delays.send("T", b"late", delay=timedelta(seconds=1))
    delays.send("T", b"level", delay_level=1)
    delays.clock.advance(2)
    target.wait_for(lambda _: len(bodies_inside(target)) == 2)
    delays.wait_for(lambda _: delays._parts().timers.count() == 0)
    assert sorted(bodies(target)) == [b"late", b"level"]


def bodies_inside(broker: EmbeddedBroker) -> list[int]:
    queues = broker._parts().store.queues
    return [1 for (topic, _), queue in queues.items() if topic == "T" for _ in queue.iterate(0)]


def test_a_topic_that_nobody_has_waits_until_somebody_has(
    start_delays: Delays, target: EmbeddedBroker, connect: Connect
) -> None:
    delays = start_delays()
    delays.send("Late", b"x", delay=timedelta(seconds=1))
    delays.clock.advance(5)
    assert delays.timers.count() == 1
    connect(target.addr).create_topic("Late", queues=1)
    delays.wait_for(lambda _: delays._parts().timers.count() == 0)
    assert [one.body for one in target.messages.in_topic("Late")] == [b"x"]


@pytest.mark.parametrize(
    "code", [ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE]
)
def test_a_broker_that_has_it_all_the_same_is_not_asked_again(
    start_delays: Delays, target: EmbeddedBroker, code: int
) -> None:
    delays = start_delays()
    target.faults.on(RequestCode.SEND_MESSAGE_V2, topic="T", nth=1).respond(code)
    delays.send("T", b"x", delay=timedelta(seconds=1))
    delays.clock.advance(2)
    assert delays.timers.count() == 0
    assert len(target.journal.requests(code=RequestCode.SEND_MESSAGE_V2)) == 1


def test_after_a_clean_restart_nothing_is_delivered_twice(
    start_delays: Delays, target: EmbeddedBroker, tmp_path: Path
) -> None:
    delays = start_delays(store=tmp_path / "delays")
    for number in range(20):
        delays.send("T", b"%d" % number, delay=timedelta(seconds=1))
    delays.send("T", b"later", delay=timedelta(seconds=1, milliseconds=400))
    delays.clock.advance(1.2)
    assert len(bodies(target)) == 20
    delays.restart()
    delays.clock.advance(60)
    assert len(bodies(target)) == 21


def test_who_consumes_at_the_target_needs_no_second_delay_at_the_target(
    start_delays: Delays, target: EmbeddedBroker
) -> None:
    delays = start_delays()
    delays.send("T", b"x", delay=timedelta(seconds=30))
    delays.clock.advance(30)
    assert bodies(target) == [b"x"]
    assert target.timers.count() == 0


@pytest.mark.parametrize(
    ("setting", "arguments"),
    [
        ("timerEngine", {"engine": "sliced"}),
        ("tcp", {"tcp": False}),
    ],
)
def test_a_broker_that_could_not_deliver_elsewhere_is_refused(
    setting: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=setting):
        EmbeddedBroker(config={"escapeNamesrvAddr": "127.0.0.1:9876"}, **arguments)


def test_a_jump_ends_when_all_has_left_also_where_each_message_takes_the_time_of_a_turn(
    start_delays: Delays, target: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed_ns, act = [0], TimerDequeuePutMessageService._act

    def slow(service: TimerDequeuePutMessageService, *arguments: Any) -> bool:
        passed_ns[0] += 2 * DOOR_BUDGET_MS * 1_000_000
        return act(service, *arguments)

    monkeypatch.setattr(timeline, "monotonic_ns", lambda: passed_ns[0])
    monkeypatch.setattr(TimerDequeuePutMessageService, "_act", slow)
    delays = start_delays()
    for number in range(5):
        delays.send("T", b"%d" % number, delay=timedelta(seconds=1))
    delays.clock.advance(2)
    assert sorted(bodies(target)) == [b"0", b"1", b"2", b"3", b"4"]
    assert delays.timers.count() == 0

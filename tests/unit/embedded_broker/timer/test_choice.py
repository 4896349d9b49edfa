"""Which engine a broker gets, and which store it may open."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.timer.engine import TimerMessageStore
from embedded_broker.timer.sliced.engine import SlicedTimerStore
from rocketmq_py.errors import ConfigError


def broker(store: Path, clock: VirtualClock, **arguments: object) -> EmbeddedBroker:
    return EmbeddedBroker(tcp=False, store=store, clock=clock, **arguments)  # type: ignore[arg-type]


def test_the_wheel_is_the_default_and_the_option_and_the_argument_choose() -> None:
    with EmbeddedBroker(tcp=False) as first:
        assert isinstance(first._core().timers, TimerMessageStore)
    with EmbeddedBroker(tcp=False, engine="sliced") as second:
        assert isinstance(second._core().timers, SlicedTimerStore)
        assert second.config["timerEngine"] == "sliced"
        assert "rmq_sys_slice_timer" in second.topics
    with EmbeddedBroker(tcp=False, config={"timerEngine": "sliced"}) as third:
        assert isinstance(third._core().timers, SlicedTimerStore)


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        ({"engine": "tree"}, "timerEngine"),
        ({"engine": "wheel", "config": {"timerEngine": "sliced"}}, "engine"),
        ({"levels": "some"}, "levels"),
        ({"config": {"timeSliceLength": 0}}, "timeSliceLength"),
        ({"config": {"sliceCell": "disk"}}, "sliceCell"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, object], setting: str) -> None:
    with pytest.raises(ConfigError, match=setting):
        EmbeddedBroker(tcp=False, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(("before", "after"), [("wheel", "sliced"), ("sliced", "wheel")])
def test_a_store_in_which_timers_of_the_other_engine_wait_is_refused(
    tmp_path: Path, before: str, after: str
) -> None:
    clock = VirtualClock()
    with broker(tmp_path, clock, engine=before, topics=["T"]) as first:
        first.send("T", b"x", delay=100)
    with pytest.raises(ConfigError, match="timerEngine"):
        broker(tmp_path, clock, engine=after).start()
    with broker(tmp_path, clock, engine=before) as again:
        clock.advance(101)
        assert again.topics["T"].count() == 1
    with broker(tmp_path, clock, engine=after) as other:
        other.send("T", b"y", delay=5)
        clock.advance(6)
        assert other.topics["T"].count() == 2


def test_levels_cannot_be_switched_while_messages_wait_at_them(tmp_path: Path) -> None:
    clock = VirtualClock()
    with broker(tmp_path, clock, engine="sliced", topics=["T"]) as first:
        first.send("T", b"x", delay_level=2)
    with pytest.raises(ConfigError, match="levels"):
        broker(tmp_path, clock, engine="sliced", levels="off").start()
    with broker(tmp_path, clock, engine="sliced"):
        clock.advance(5)
    with broker(tmp_path, clock, engine="sliced", levels="off") as off:
        off.send("T", b"y", delay_level=2)
        off.send("T", b"z", delay_level=3)
        clock.advance(6)
        assert off.topics["T"].count() == 2
    with pytest.raises(ConfigError, match="levels"):
        broker(tmp_path, clock, engine="sliced").start()
    with broker(tmp_path, clock, engine="sliced", levels="off") as off:
        clock.advance(10)
        assert [one.body for one in off.messages.in_topic("T")] == [b"x", b"y", b"z"]
    with broker(tmp_path, clock, engine="sliced") as on:
        on.send("T", b"w", delay_level=2)
        clock.advance(100)
        assert [one.body for one in on.messages.in_topic("T")] == [b"x", b"y", b"z", b"w"]


@pytest.mark.parametrize("engine", ["wheel", "sliced"])
def test_without_levels_the_timers_serve_them(engine: str) -> None:
    clock = VirtualClock()
    with EmbeddedBroker(
        tcp=False,
        clock=clock,
        config={"timerEngine": engine},
        levels="off",
        topics=["T"],
    ) as one:
        one.send("T", b"x", delay_level=3)
        one.send("T", b"y", delay=1)
        assert one.timers.count() == 2
        clock.advance(9)
        assert one.topics["T"].count() == 1
        clock.advance(2)
        assert one.topics["T"].count() == 2


def test_without_levels_and_timers_a_level_is_refused() -> None:
    with (
        EmbeddedBroker(
            tcp=False, engine="sliced", levels="off", config={"timerWheelEnable": False}
        ) as one,
        pytest.raises(Exception, match="timerWheelEnable"),
    ):
        one.send("T", b"x", delay_level=3)

"""Which engine a broker gets, and which store it may open."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.timer.delay_offsets import DelayOffsetFile
from embedded_broker.timer.slices.engine import SlicedTimerStore
from embedded_broker.timer.wheel.engine import TimerMessageStore
from rocketmq_py.errors import ConfigError


def broker(store: Path, clock: VirtualClock, **arguments: object) -> EmbeddedBroker:
    return EmbeddedBroker(tcp=False, store=store, clock=clock, **arguments)  # type: ignore[arg-type]


def test_the_wheel_is_the_default_and_the_option_and_the_argument_choose() -> None:
    with EmbeddedBroker(tcp=False) as first:
        assert isinstance(first._parts().timers, TimerMessageStore)
    with EmbeddedBroker(tcp=False, engine="sliced") as second:
        assert isinstance(second._parts().timers, SlicedTimerStore)
        assert second.config["timerEngine"] == "sliced"
        assert "rmq_sys_slice_timer" in second.topics
    with EmbeddedBroker(tcp=False, config={"timerEngine": "sliced"}) as third:
        assert isinstance(third._parts().timers, SlicedTimerStore)


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        ({"engine": "tree"}, "timerEngine"),
        ({"engine": "wheel", "config": {"timerEngine": "sliced"}}, "engine"),
        ({"levels": "some"}, "levels"),
        ({"config": {"timeSliceLength": 0}}, "timeSliceLength"),
        ({"config": {"sliceCell": "message"}}, "sliceCell"),
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


WHEEL: Mapping[str, object] = {"engine": "wheel"}
SLICED: Mapping[str, object] = {"engine": "sliced"}
NO_LEVELS: Mapping[str, object] = {"engine": "sliced", "levels": "off"}


class Store:
    """A store in memory that one broker after another opens."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.fs = MemoryFileSystem()

    def open(self, arguments: Mapping[str, object]) -> EmbeddedBroker:
        return EmbeddedBroker(
            tcp=False,
            topics=["T"],
            clock=self.clock,
            fs=self.fs,
            **arguments,  # type: ignore[arg-type]
        )

    def bodies(self, broker: EmbeddedBroker) -> list[bytes]:
        return [one.body for one in broker.messages.in_topic("T")]


@pytest.mark.parametrize("arguments", [WHEEL, SLICED, NO_LEVELS])
def test_a_broker_that_died_right_after_its_first_timer_starts_again(
    arguments: Mapping[str, object],
) -> None:
    store = Store()
    first = store.open(arguments).start()
    first.send("T", b"x", delay=3600)
    first.crash()
    with store.open(arguments) as again:
        assert again.timers.count() == 1
        store.clock.advance(3599)
        assert store.bodies(again) == []
        store.clock.advance(2)
        assert store.bodies(again) == [b"x"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (WHEEL, SLICED),
        (WHEEL, NO_LEVELS),
        (SLICED, WHEEL),
        (SLICED, NO_LEVELS),
        (NO_LEVELS, SLICED),
        (NO_LEVELS, WHEEL),
        (NO_LEVELS, {"engine": "wheel", "levels": "off"}),
    ],
)
def test_counts_saved_too_late_open_no_store_for_the_other_engine(
    before: Mapping[str, object], after: Mapping[str, object]
) -> None:
    store = Store()
    first = store.open(before).start()
    first.send("T", b"x", delay=50)
    first.crash()
    with pytest.raises(ConfigError, match="not stopped cleanly"):
        store.open(after).start()
    with store.open(before) as again:
        assert again.timers.count() == 1
    with pytest.raises(ConfigError, match="1 messages wait"):
        store.open(after).start()
    with store.open(before) as again:
        store.clock.advance(51)
        assert store.bodies(again) == [b"x"]
    with store.open(after) as other:
        other.send("T", b"y", delay=5)
        store.clock.advance(6)
        assert store.bodies(other) == [b"x", b"y"]


def test_timers_of_the_other_engine_that_left_and_were_counted_do_not_bar_a_store_for_ever() -> (
    None
):
    store = Store()
    with store.open(WHEEL) as first:
        first.send("T", b"x", delay=5)
        store.clock.advance(6)
    for body in (b"y", b"z"):
        broker = store.open(SLICED).start()
        broker.send("T", body, delay=5)
        store.clock.advance(6)
        broker.crash()
    with store.open(SLICED) as last:
        assert store.bodies(last) == [b"x", b"y", b"z"]
    with store.open(WHEEL) as again:
        again.send("T", b"w", delay=5)
        store.clock.advance(6)
        again.crash()
    with pytest.raises(ConfigError, match="it must be wheel: the store was not stopped cleanly"):
        store.open(SLICED).start()


def test_messages_that_a_level_left_in_the_shared_queue_are_no_timers_later() -> None:
    store = Store()
    with store.open(NO_LEVELS) as off:
        off.send("T", b"timer", delay=5)
        store.clock.advance(6)
    on = store.open(WHEEL).start()
    on.send("T", b"level", delay_level=2)
    on.crash()
    with pytest.raises(ConfigError, match="'off' is not possible: it must be on while 1 messages"):
        store.open(NO_LEVELS).start()
    with store.open(WHEEL) as on:
        assert on._parts().levels.count() == 1
        store.clock.advance(6)
        assert store.bodies(on) == [b"timer", b"level"]
    with store.open(NO_LEVELS) as off:
        off.send("T", b"again", delay=5)
        store.clock.advance(6)
        assert store.bodies(off) == [b"timer", b"level", b"again"]
        assert off._parts().timers.lost == {}


def test_a_level_does_not_repeat_what_the_engine_left_in_its_queue_when_the_broker_dies() -> None:
    store = Store()
    with store.open(NO_LEVELS) as off:
        off.send("T", b"timer", delay=5)
        store.clock.advance(6)
    store.open(SLICED).start().crash()
    with store.open(SLICED) as on:
        store.clock.advance(60)
        assert store.bodies(on) == [b"timer"]


def test_timers_in_the_shared_queue_are_known_without_the_file_that_names_their_owner() -> None:
    store = Store()
    off = store.open(NO_LEVELS).start()
    off.send("T", b"x", delay=50)
    off.crash()
    for name in (DelayOffsetFile(store.fs).path, DelayOffsetFile(store.fs).path + ".bak"):
        store.fs.remove(name)
    for other in (WHEEL, SLICED):
        with pytest.raises(ConfigError, match="not stopped cleanly"):
            store.open(other).start()
    with store.open(NO_LEVELS) as again:
        store.clock.advance(51)
        assert store.bodies(again) == [b"x"]


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

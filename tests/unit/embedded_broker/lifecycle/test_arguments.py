"""Arguments are checked before anything is opened."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, EmbeddedCluster, TopicSpec
from embedded_broker.clocks.clock import VirtualClock, WallClock
from embedded_broker.store.memory_fs import MemoryFileSystem
from rocketmq_py.clock import SystemClock
from rocketmq_py.errors import ConfigError


@pytest.mark.case("K28")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "my-machine"])  # noqa: S104
def test_a_host_that_others_can_reach_needs_allow_remote_and_says_why(host: str) -> None:
    with pytest.raises(ConfigError, match=r"Anybody who can reach .*allow_remote=True"):
        EmbeddedBroker(host=host)

    assert not EmbeddedBroker(host=host, allow_remote=True).is_running


@pytest.mark.case("K14")
def test_a_bad_option_is_refused_at_construction_and_opens_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store"

    with pytest.raises(ConfigError, match="did you mean timerPrecisionMs"):
        EmbeddedBroker(store=store, config={"timerPrecisonMs": 100})
    with pytest.raises(ConfigError, match="from 0 to 2147483647"):
        EmbeddedBroker(store=store, config={"timerMaxDelaySec": -5})

    assert not store.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"profile": "rocketmq-6"}, "rocketmq-5.x"),
        ({"defaults": "mine"}, "embedded, upstream"),
        ({"namesrv_port": 70_000}, "0 .any free port. to 65535"),
        ({"namesrv_port": 9876, "broker_port": 9876}, "differ from namesrv_port"),
        ({"tcp": False, "inproc": False}, "nobody could reach"),
        ({"tcp": False, "listener_factory": print}, "no listener"),
        ({"store": "x", "fs": MemoryFileSystem()}, "either store or fs"),
        ({"topics": "T"}, "a list of names"),
        ({"topics": ["a b"]}, "illegal characters"),
        ({"topics": [TopicSpec("T", queues=0)]}, "queues = 0 .* topic T .* from 1 to 1024"),
        ({"topics": {"T": 0}}, "queues = 0 .* topic T .* from 1 to 1024"),
        ({"topics": {"A": 1, "T": 1025}}, "queues = 1025 .* topic T .* from 1 to 1024"),
        ({"topics": {"T": "6"}}, "queues = '6' .* topic T .* an integer"),
        ({"topics": {"T": True}}, "queues = True .* topic T .* an integer"),
        ({"topics": {"T": TopicSpec("T")}}, "queues = TopicSpec.* topic T .* an integer"),
        ({"topics": {7: 1}}, r"topics = \{7: 1\} .* names and their queues; \(7, 1\) is none"),
        ({"topics": [7]}, r"topics = \[7\] .* a list of names.*; 7 is none"),
        ({"topics": [("T", 7)]}, r"a list of names.*; \('T', 7\) is none"),
        ({"topics": 7}, "topics = 7 .* a list of names"),
        ({"topics": ["T", TopicSpec("T", queues=6)]}, "topic T is there twice, and differs"),
        ({"topics": [TopicSpec("T", message_type="Delay")]}, "UNSPECIFIED, NORMAL"),  # type: ignore[arg-type]
        ({"broker_name": "a b"}, "illegal characters"),
        ({"cluster_name": ""}, "blank"),
        ({"namesrv_port": "9876"}, "namesrv_port = '9876' .* 0 .any free port. to 65535"),
        (
            {"clock": VirtualClock},
            r"clock = <class .*VirtualClock'> .* not the class.*VirtualClock\(\)",
        ),
        ({"clock": "virtual"}, r"clock = 'virtual' .* such as VirtualClock\(\)"),
        ({"session_clock": 5}, "session_clock = 5 "),
        ({"store": 3}, "store = 3 .* path of a directory, or None"),
        ({"store": b"x"}, "store = b'x' "),
        ({"store": ""}, "store = '' "),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EmbeddedBroker(**arguments)


@pytest.mark.parametrize(
    ("topics", "queues"),
    [
        ({"A": 1, "B": 6}, {"A": 1, "B": 6}),
        ([TopicSpec("A", queues=1), "B"], {"A": 1, "B": 4}),
        (["A", "A"], {"A": 4}),
        (("A", TopicSpec("B", queues=2)), {"A": 4, "B": 2}),
        ({}, {}),
    ],
)
@pytest.mark.parametrize("kind", [EmbeddedBroker, EmbeddedCluster])
def test_a_topic_has_as_many_queues_as_were_asked_for(
    kind: Callable[..., EmbeddedBroker | EmbeddedCluster], topics: Any, queues: dict[str, int]
) -> None:
    with kind(topics=topics, tcp=False) as made:
        broker = made.brokers[-1] if isinstance(made, EmbeddedCluster) else made

        assert {name: broker.topics[name].queues for name in broker.topics.names()} == queues


def test_a_cluster_refuses_a_store_that_is_no_path() -> None:
    with pytest.raises(ConfigError, match="store = 3 "):
        EmbeddedCluster(store=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["vip_port"])
def test_an_argument_of_a_later_version_does_not_exist(name: str) -> None:
    arguments: dict[str, Any] = {name: None}

    with pytest.raises(TypeError, match=name):
        EmbeddedBroker(**arguments)


def test_a_clock_that_is_not_ours_is_read_and_cannot_be_moved() -> None:
    broker = EmbeddedBroker(clock=SystemClock())

    assert isinstance(broker.clock, WallClock)


def test_one_clock_for_both_times_stays_one_clock() -> None:
    clock = VirtualClock()

    arguments = EmbeddedBroker(clock=clock, session_clock=clock)._arguments

    assert arguments.clock is clock
    assert arguments.session_clock is clock


def test_the_seed_is_drawn_when_none_is_given() -> None:
    make: Callable[[], EmbeddedBroker] = EmbeddedBroker

    assert EmbeddedBroker(seed=7).seed == 7
    assert make().seed != make().seed

"""The option that chooses a broker, and what a broker says about itself."""

from __future__ import annotations

from typing import Self

import pytest

from embedded_broker.kit.backend import Ability, Backend, BackendError, BackendSpec, parse_backend
from embedded_broker.kit.remote import RemoteFixtureBroker
from rocketmq_py.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "spec", "shown"),
    [
        ("embedded", BackendSpec("embedded"), "embedded"),
        (" embedded ", BackendSpec("embedded"), "embedded"),
        ("process:5.3.3", BackendSpec("process", "5.3.3"), "process:5.3.3"),
        (
            "container",
            BackendSpec("container", "apache/rocketmq:5.3.3"),
            "container:apache/rocketmq:5.3.3",
        ),
        (
            "container:localhost/mq:dev",
            BackendSpec("container", "localhost/mq:dev"),
            "container:localhost/mq:dev",
        ),
        ("127.0.0.1:9876", BackendSpec("address", "127.0.0.1:9876"), "127.0.0.1:9876"),
        ("mq.example.org:9876", BackendSpec("address", "mq.example.org:9876"), None),
        ("[::1]:9876", BackendSpec("address", "[::1]:9876"), None),
    ],
)
def test_the_option_names_a_broker(text: str, spec: BackendSpec, shown: str | None) -> None:
    assert spec == parse_backend(text)
    assert (shown or text) == str(parse_backend(text))
    assert parse_backend(str(spec)) == spec


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "embedded, process:VERSION, container[:IMAGE] or HOST:PORT"),
        ("embeded", "embedded, process:VERSION, container[:IMAGE] or HOST:PORT"),
        ("embedded:5.3.3", "embedded alone"),
        ("process", "such as process:5.3.3"),
        ("process:latest", "such as process:5.3.3"),
        ("container:", "container:IMAGE"),
        ("container:a b", "container:IMAGE"),
        ("localhost:0", "from 1 to 65535"),
        ("localhost:70000", "from 1 to 65535"),
    ],
)
def test_a_bad_value_is_refused_with_what_is_possible(text: str, advice: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_backend(text)
    assert "--rocketmq" in str(caught.value)
    assert advice in str(caught.value)


class Bare(Backend):
    name = "mq.example.org:9876"
    stopped = 0

    @property
    def namesrv_addr(self) -> str:
        return self.name

    def start(self) -> Self:
        return self

    def stop(self) -> None:
        self.stopped += 1

    def create_topic(self, name: str, queues: int = 4) -> None:
        raise AssertionError(name)


class Making(Bare):
    abilities = frozenset({Ability.CREATE_TOPICS})

    def __init__(self) -> None:
        self.made: list[tuple[str, int]] = []

    def create_topic(self, name: str, queues: int = 4) -> None:
        self.made.append((name, queues))


def test_in_strict_mode_only_topics_of_a_group_are_made_on_a_broker_that_is_reached() -> None:
    backend = Making()
    bench = RemoteFixtureBroker(backend, strict=True, patience_s=1)
    for topic in ("Orders", "%DLQ%billing"):
        bench.ready_topic(topic)
    assert backend.made == [("%DLQ%billing", 1)]
    RemoteFixtureBroker(backend, strict=False, patience_s=1).ready_topic("Orders")
    assert backend.made[1:] == [("Orders", 4)]
    RemoteFixtureBroker(Bare(), strict=False, patience_s=1).ready_topic("%DLQ%billing")


def test_a_broker_says_what_it_lacks_and_stops_at_the_end_of_its_block() -> None:
    with Bare() as bare:
        assert bare.abilities == frozenset()
        sentence = "mq.example.org:9876 does not offer a clock that the test moves"
        assert sentence == bare.why_not(Ability.VIRTUAL_CLOCK)
        with pytest.raises(BackendError, match="crashes on purpose"):
            bare.reopen(crash=True)
    assert bare.stopped == 1

"""May two clients share one instance."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import fields

from compat.ons import ONSClientException, ONSFactory
from rocketmq_py import (
    ClientClosedError,
    ConfigError,
    Credentials,
    DefaultMQAdminExt,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    QueueAccess,
)
from rocketmq_py.client import sharing
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.pool import acquire_instance
from rocketmq_py.config import ClientConfig
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.rocketmq_py.conftest import ClusterMaker
from tests.unit.rocketmq_py.consumer.inbox import Inbox, consumer
from tests.unit.rocketmq_py.producer.conftest import ProducerMaker
from tests.unit.rocketmq_py.scripted import ScriptedCluster

Acquire = Callable[..., ClientInstance]


class Hook:
    def before_request(self, address: str, request: RemotingCommand) -> None:
        """Look at nothing."""

    def after_response(
        self, address: str, request: RemotingCommand, response: RemotingCommand
    ) -> None:
        """Look at nothing."""


@pytest.fixture
def acquire() -> Iterator[Acquire]:
    made: list[ClientInstance] = []

    def make(*hooks: Hook, **settings: Any) -> ClientInstance:
        config = ClientConfig(instance_name="shared", **settings)
        made.append(acquire_instance(config, hooks))
        return made[-1]

    yield make
    for instance in made:
        instance.shutdown()


@pytest.fixture
def start() -> Iterator[ProducerMaker]:
    made: list[DefaultMQProducer] = []

    def make(namesrv_addr: str, group: str = "G", **settings: object) -> DefaultMQProducer:
        producer = DefaultMQProducer(
            group,
            namesrv_addr=namesrv_addr,
            instance_name="shared",
            **settings,  # type: ignore[arg-type] # whatever a test wants to try
        )
        made.append(producer)
        producer.start()
        return producer

    yield make
    for producer in made:
        producer.shutdown()


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        ({"namesrv_addr": "a:1"}, {"namesrv_addr": "b:1"}, "a:1"),
        ({"credentials": Credentials("id", "hidden")}, {}, "id"),
        (
            {"credentials": Credentials("id", "hidden")},
            {"credentials": lambda: Credentials("id", "hidden, too")},
            "id",
        ),
        ({"transport": "tcp"}, {}, "tcp"),
        ({"address_mapper": str.lower}, {}, "lower"),
        ({"vip_channel_enabled": True}, {}, "True"),
        ({"unit_mode": True}, {}, "True"),
    ],
)
def test_another_place_or_sender_is_refused_by_name(
    acquire: Acquire, first: dict[str, object], second: dict[str, object], named: str
) -> None:
    one = acquire(**first)
    with pytest.raises(ConfigError, match="another instance_name") as caught:
        acquire(**second)
    assert caught.value.setting == next(iter(first))
    assert named in str(caught.value)
    assert one.client_id in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert acquire(**first) is one


def test_other_hooks_are_refused_by_name(acquire: Acquire) -> None:
    hook = Hook()
    one = acquire(hook)
    assert acquire(hook) is one
    for others in ((), (Hook(),), (hook, hook)):
        with pytest.raises(ConfigError, match="rpc_hooks"):
            acquire(*others)


def test_equal_settings_share_whatever_they_look_like(acquire: Acquire) -> None:
    one = acquire(namesrv_addr="a:1;b:2", credentials=lambda: Credentials("id", "secret"))
    same = acquire(namesrv_addr="http://b:2; a:1", credentials=Credentials("id", "secret"))
    assert same is one


def test_periods_and_limits_of_the_first_count_and_that_is_told(
    acquire: Acquire, caplog: pytest.LogCaptureFixture
) -> None:
    one = acquire(connect_timeout=100)
    assert acquire(connect_timeout=100) is one
    assert caplog.text == ""
    assert acquire(connect_timeout=200) is one
    assert "connect_timeout of the first one counts" in caplog.text


def test_what_an_instance_reads_is_compared_and_cannot_be_assigned_any_more() -> None:
    rooms = Path(sharing.__file__).parent
    read = {
        name
        for room in ("connections", "instance", "remoting", "routes")
        for name in re.findall(r"config\.(\w+)", (rooms / f"{room}.py").read_text("utf-8"))
    }
    read &= {setting.name for setting in fields(ClientConfig)}
    assert read
    assert read <= {*sharing._DECIDE, *sharing._FIRST_DECIDES}
    assert read <= ClientConfig.FIXED_BY_START.keys()


def test_no_message_reaches_another_cluster_than_its_producers(
    clusters: ClusterMaker, start: ProducerMaker
) -> None:
    ours, theirs = clusters(1), clusters(1)
    first = start(ours.namesrv_addr)
    second = DefaultMQProducer("G2", namesrv_addr=theirs.namesrv_addr, instance_name="shared")
    with pytest.raises(ConfigError, match="namesrv_addr"):
        second.start()
    assert first.send(Message("T", b"x")).msg_id
    first.shutdown()
    with second:
        second.send(Message("T", b"y"))
    assert [[m.body for m in cluster.sends()] for cluster in (ours, theirs)] == [[b"x"], [b"y"]]


def test_a_consumer_is_refused_as_a_producer_is(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    start(cluster.namesrv_addr, credentials=Credentials("id", "secret"))
    refused = consumer("G", cluster.namesrv_addr, Inbox(), {"T": "*"})
    refused.instance_name = "shared"
    with pytest.raises(ConfigError, match="credentials"):
        refused.start()


def test_ons_clients_of_equal_keys_share_and_others_are_refused(cluster: ScriptedCluster) -> None:
    def producer(group: str, secret: str) -> object:
        settings = {
            "GROUP_ID": group,
            "NAMESRV_ADDR": cluster.namesrv_addr,
            "InstanceName": "shared",
            "AccessKey": "id",
            "SecretKey": secret,
        }
        return ONSFactory.create_producer(settings)

    first, second = producer("A", "secret"), producer("B", "secret")
    with first, second, pytest.raises(ONSClientException, match="credentials"):  # type: ignore[attr-defined]
        producer("C", "other").start()  # type: ignore[attr-defined]


@pytest.mark.parametrize("caller", [DefaultMQAdminExt, QueueAccess])
def test_a_client_that_only_calls_takes_nothing_from_one_that_consumes(
    caller: type[DefaultMQAdminExt | QueueAccess], cluster: ScriptedCluster
) -> None:
    beside = DefaultMQPushConsumer(
        "G",
        namesrv_addr=cluster.namesrv_addr,
        instance_name="shared",
        heartbeat_broker_interval=10,
    )
    beside.subscribe("T")
    beside.register_message_listener(Inbox())
    with caller(namesrv_addr=cluster.namesrv_addr, instance_name="shared"), beside:
        cluster.brokers[0].wait_for(RequestCode.HEART_BEAT, 10)


def test_with_starts_what_is_not_running_and_refuses_what_is_over(
    cluster: ScriptedCluster,
) -> None:
    inbox = Inbox()
    for client in (
        DefaultMQProducer("G", namesrv_addr=cluster.namesrv_addr),
        consumer("G", cluster.namesrv_addr, inbox, {"T": "*"}),
    ):
        client.start()
        with client as entered:
            assert entered is client
        with pytest.raises(ClientClosedError, match="make a new one"), client:
            pytest.fail("it ran again")

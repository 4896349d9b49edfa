"""Settings shared by all clients: checked when set, picklable, secrets hidden."""

from __future__ import annotations

import inspect
import pickle
import re
from datetime import timedelta
from typing import Any

import pytest
from attrs import fields

from rocketmq_py import (
    DefaultMQAdminExt,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    ProducerConfig,
    QueueAccess,
    TransactionMQProducer,
    aio,
)
from rocketmq_py.admin import AdminClient
from rocketmq_py.config import (
    ClientConfig,
    ClientSettings,
    Credentials,
    split_addresses,
    split_host_port,
)
from rocketmq_py.errors import ConfigError


def test_the_name_server_comes_from_the_environment_when_the_object_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "http://10.0.0.1:9876; 10.0.0.2:9876 ;")
    assert ClientConfig().name_servers == ("10.0.0.1:9876", "10.0.0.2:9876")
    monkeypatch.delenv("NAMESRV_ADDR")
    assert ClientConfig().name_servers == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("namesrv_addr", "host-without-port"),
        ("namesrv_addr", "host:99999"),
        ("namesrv_addr", 9876),
        ("namesrv_addr", []),
        ("namesrv_addr", ["a:1", 9876]),
        ("namesrv_addr", ["a:1", "host-without-port"]),
        ("instance_name", None),
        ("mq_client_api_timeout", 0),
        ("mq_client_api_timeout", "3000"),
        ("client_callback_executor_threads", 0),
        ("vip_channel_enabled", 1),
        ("transport", "udp"),
        ("credentials", ("id", "secret")),
        ("credentials", "id:secret"),
    ],
)
def test_a_wrong_value_is_refused_where_it_is_set(name: str, value: object) -> None:
    config = ClientConfig()
    before = getattr(config, name)
    with pytest.raises(ConfigError, match=name):
        setattr(config, name, value)
    assert getattr(config, name) == before


def test_addresses_are_split_with_brackets_and_without() -> None:
    assert split_host_port("[::1]:9876") == ("::1", 9876)
    assert split_host_port("broker.example:10911") == ("broker.example", 10911)
    assert split_addresses("http://a:1/;;b:2") == ("a:1", "b:2")
    for wrong in (":1", "a:", "a:x", "a:٣", "a"):
        with pytest.raises(ConfigError):
            split_host_port(wrong)


@pytest.mark.case("T103")
def test_what_is_no_address_is_told_with_the_limit_of_ports() -> None:
    with pytest.raises(ConfigError, match="ports up to 65535"):
        ClientConfig(namesrv_addr="127.0.0.1:99999")


def test_keys_that_are_no_credentials_are_not_told() -> None:
    keys: Any = ("id", "hush")
    with pytest.raises(ConfigError, match=r"must be Credentials\(") as refused:
        ClientConfig(credentials=keys)
    assert "hush" not in str(refused.value)


def test_secrets_are_in_no_text_but_travel_in_a_pickle() -> None:
    keys = Credentials("id", "hidden-1", "hidden-2")
    config = ClientConfig(credentials=keys)
    for shown in (repr(keys), str(keys), repr(config), f"{config}"):
        assert "hidden" not in shown
    copy = pickle.loads(pickle.dumps(config))  # noqa: S301 - our own bytes
    assert copy.credentials == keys
    assert repr(Credentials("id", "hidden")) == "Credentials(access_key='id', secret_key='***')"


def test_a_copy_is_independent() -> None:
    config = ClientConfig(unit_name="a")
    copy = ClientConfig.of(config)
    config.unit_name = "b"
    assert copy.unit_name == "a"


def test_the_keyword_settings_of_a_caller_and_the_fields_are_the_same_names() -> None:
    assert set(ClientSettings.__annotations__) == {field.name for field in fields(ClientConfig)}


def test_an_unknown_setting_names_the_nearest() -> None:
    with pytest.raises(TypeError, match="did you mean instance_name"):
        ClientConfig(instancename="x")  # type: ignore[call-arg] # the mistake
    with pytest.raises(TypeError, match=r"no setting 'zzz'$"):
        ClientConfig(zzz=1)  # type: ignore[call-arg] # the mistake
    with pytest.raises(AttributeError, match="did you mean unit_name"):
        ClientConfig().unitname = "x"  # type: ignore[attr-defined] # the mistake


@pytest.mark.parametrize(
    ("make", "setting", "owner"),
    [
        (DefaultMQPushConsumer, "send_msg_timeout", "producers"),
        (DefaultMQPushConsumer, "max_delay", "producers"),
        (DefaultMQPushConsumer, "send_latency_enable", "producers"),
        (DefaultMQProducer, "consume_timeout", "push consumers"),
        (ClientConfig, "enable_trace", "producers and consumers"),
        (TransactionMQProducer, "pull_time_delay_millis_when_exception", "consumers"),
        (ClientConfig, "strict_reserved", "producers"),
        (QueueAccess, "delay_policy", "producers"),
    ],
)
def test_a_setting_of_the_other_side_is_refused_and_its_owner_named(
    make: Any, setting: str, owner: str
) -> None:
    with pytest.raises(TypeError, match=f"no setting '{setting}': it is one of {owner}"):
        make(**{setting: 1})
    if make is not QueueAccess:  # its class is no attrs class
        with pytest.raises(AttributeError, match=f"no setting '{setting}': it is one of {owner}"):
            setattr(make(), setting, 1)


def test_a_client_is_its_settings() -> None:
    producer = DefaultMQProducer("G", namesrv_addr="a:1;b:2", use_tls=True)
    assert isinstance(producer, ClientConfig)
    assert producer.name_servers == ("a:1", "b:2")
    assert producer.make_tls() is not None
    assert DefaultMQPushConsumer("G").reconsume_times_max == 16
    for name in ("copy", "fix", "is_fixed", "build", "use_name_servers"):
        assert not hasattr(producer, name)
    with pytest.raises(ConfigError, match="unit_name"):
        producer.unit_name = 5  # type: ignore[assignment] # the mistake


@pytest.mark.parametrize("make", [DefaultMQAdminExt, QueueAccess])
def test_a_client_that_only_calls_is_its_settings_too(make: Any) -> None:
    caller = make.of(ClientConfig(namesrv_addr="a:1", connect_timeout=7), unit_name="u")
    assert isinstance(caller, ClientConfig)
    assert (caller.namesrv_addr, caller.connect_timeout, caller.unit_name) == ("a:1", 7, "u")
    with pytest.raises(ConfigError, match="connect_timeout"):
        caller.connect_timeout = 0.5  # type: ignore[assignment] # the mistake
    with pytest.raises(TypeError, match=f"{make.__name__} has no setting .* mean instance_name"):
        make(instancename="x")
    with pytest.raises(TypeError, match=r"pickle ClientConfig\.of"):
        pickle.dumps(caller)


@pytest.mark.parametrize("kind", [DefaultMQAdminExt, AdminClient, aio.AdminClient])
def test_an_administrator_explains_each_of_its_arguments(kind: Any) -> None:
    text = inspect.getdoc(kind) or ""
    for name in inspect.signature(kind).parameters:
        assert re.search(rf"^(\w+, )*{name}(, \w+)*$", text, re.MULTILINE), name
    assert kind(timeout_millis=timedelta(seconds=2)).timeout_millis == 2_000
    with pytest.raises(ConfigError, match="cluster"):
        kind(cluster=" ")


def test_of_begins_with_the_settings_that_are_given_and_leaves_those_alone() -> None:
    base = ClientConfig(namesrv_addr="a:1", unit_name="u", connect_timeout=7)
    consumer = DefaultMQPushConsumer.of(base, "G", unit_name="v")
    assert (consumer.consumer_group, consumer.namesrv_addr) == ("G", "a:1")
    assert (consumer.connect_timeout, consumer.unit_name, base.unit_name) == (7, "v", "u")
    assert DefaultMQPushConsumer.of(consumer, "H").unit_name == "v"
    assert ClientConfig.of(consumer).unit_name == "v"


def test_of_refuses_settings_that_would_be_ignored() -> None:
    for given in (DefaultMQProducer("G"), ProducerConfig()):
        with pytest.raises(TypeError, match=r"cannot begin with a .*Producer.*ClientConfig\.of"):
            DefaultMQPushConsumer.of(given, "G")
    with pytest.raises(TypeError, match="cannot begin with a int"):
        DefaultMQProducer.of(5, "G")  # type: ignore[arg-type] # the mistake
    shared = ClientConfig.of(ProducerConfig(unit_name="u"))
    assert DefaultMQPushConsumer.of(shared, "G").unit_name == "u"


def test_durations_may_be_timedeltas() -> None:
    config = ClientConfig(connect_timeout=timedelta(seconds=1.5))
    assert config.connect_timeout == 1500
    config.connect_timeout = timedelta(minutes=2)  # type: ignore[assignment] # mypy knows no setter
    assert config.connect_timeout == 120_000
    for wrong in (timedelta(), timedelta(microseconds=1500), -timedelta(seconds=1)):
        with pytest.raises(ConfigError, match=r"milliseconds .or a timedelta of them"):
            ClientConfig(connect_timeout=wrong)
    assert config.connect_timeout == 120_000


def test_tls_and_the_mapper_are_checked_where_they_are_set() -> None:
    for name in ("tls_config", "address_mapper"):
        wrong: Any = {name: "ca.pem"}
        with pytest.raises(ConfigError, match=name):
            ClientConfig(**wrong)


def test_limits_that_contradict_each_other_are_refused_in_a_new_object_too() -> None:
    with pytest.raises(ConfigError, match="decompressed_body_max_bytes"):
        ClientConfig(decompressed_body_max_bytes=9, decompressed_total_max_bytes=8)
    config = ClientConfig(decompressed_body_max_bytes=8, decompressed_total_max_bytes=9)
    with pytest.raises(ConfigError, match="raise that first"):
        config.decompressed_body_max_bytes = 10


def test_name_servers_may_be_given_as_a_list() -> None:
    producer = DefaultMQProducer("G", namesrv_addr=["a:1", "b:2;c:3"])
    assert producer.namesrv_addr == "a:1;b:2;c:3"
    assert list(producer.name_servers) == ["a:1", "b:2", "c:3"]
    producer.update_name_server_address(["d:4", "e:5"])
    assert list(producer.name_servers) == ["d:4", "e:5"]
    assert ClientConfig.of(producer).namesrv_addr == "d:4;e:5"

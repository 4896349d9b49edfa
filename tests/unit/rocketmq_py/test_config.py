"""Settings shared by all clients: checked when set, picklable, secrets hidden."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pytest
from attrs import fields

from rocketmq_py.config import (
    ClientConfig,
    ClientSettings,
    Credentials,
    attributes_of,
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
        ("instance_name", None),
        ("mq_client_api_timeout", 0),
        ("mq_client_api_timeout", "3000"),
        ("client_callback_executor_threads", 0),
        ("send_latency_enable", 1),
        ("transport", "udp"),
        ("translate_start_deliver_time", True),
        ("delay_conflict", "ignore"),
        ("max_delay", timedelta(0)),
        ("max_delay", 40),
        ("past_deliver", ""),
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
    copy = config.copy()
    config.unit_name = "b"
    assert copy.unit_name == "a"


def test_keyword_settings_and_fields_are_the_same_names() -> None:
    assert set(ClientSettings.__annotations__) == {field.name for field in fields(ClientConfig)}


def test_an_unknown_setting_names_the_nearest() -> None:
    with pytest.raises(TypeError, match="did you mean instance_name"):
        ClientConfig.build(None, {"instancename": "x"})
    with pytest.raises(TypeError, match=r"no setting 'zzz'$"):
        ClientConfig.build(None, {"zzz": 1})


def test_a_client_attribute_reads_and_writes_the_setting() -> None:
    base: Any = attributes_of(ClientConfig)
    client = base()
    client.config = ClientConfig()
    client.unit_name = "x"
    assert (client.unit_name, client.config.unit_name) == ("x", "x")
    with pytest.raises(ConfigError, match="unit_name"):
        client.unit_name = 5


def test_a_client_has_every_setting_as_an_attribute() -> None:
    attributes = vars(attributes_of(ClientConfig))
    assert {field.name for field in fields(ClientConfig)} <= set(attributes)

"""Connections of a worker process: shared, named by settings, with credentials read on the spot."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import Credentials, MQBrokerException, MQClientException, NoRouteError
from spark_connector import access as access_module
from spark_connector.access import CredentialsFile, access_for, close_all, retrying
from spark_connector.errors import OptionError
from spark_connector.options import Connection, ReadOptions, read_options


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_all()


def options(**given: str) -> ReadOptions:
    fast = {"fetchOffset.retryIntervalMs": "0", "nameServer": "h:1", "subscribe": "T"}
    return read_options(fast | given, streaming=False)


def test_a_process_has_one_set_of_connections_per_settings() -> None:
    with EmbeddedBroker(topics=["T"]) as broker:
        one = Connection(broker.namesrv_addr)
        assert access_for(one) is access_for(Connection(broker.namesrv_addr))
        other = access_for(Connection(broker.namesrv_addr, settings=(("connect_timeout", 9),)))
        assert other is not access_for(one)
        assert other.config.connect_timeout == 9
        for number in range(access_module.OPEN_MOST + 3):
            access_for(Connection(f"h:{number + 1}"))
        assert len(access_module._open) == access_module.OPEN_MOST


def test_advertised_addresses_can_be_mapped() -> None:
    with EmbeddedBroker(topics=["T"]) as broker:
        mapped = ((broker.addr, "127.0.0.1:1"),)
        access = access_for(Connection(broker.namesrv_addr, address_map=mapped))
        access.read_queues("T")
        assert access.address_of("broker-a") == "127.0.0.1:1"


def test_a_wrong_client_setting_is_an_option_error() -> None:
    with pytest.raises(OptionError, match="connect_timeout"):
        access_for(Connection("h:1", settings=(("connect_timeout", 0),)))


@pytest.mark.case("SP78")
def test_a_file_of_credentials_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    source = CredentialsFile(str(path))
    with pytest.raises(OptionError, match="FileNotFoundError"):
        source()
    path.write_text(json.dumps({"accessKey": "a", "secretKey": "first"}))
    assert source() == Credentials("a", "first")
    path.write_text(json.dumps({"accessKey": "a", "secretKey": "second", "securityToken": "t"}))
    assert source() == Credentials("a", "second", "t")
    path.write_text("{")  # being written: the last good one counts
    os.utime(path, ns=(1, 1))
    assert source() == Credentials("a", "second", "t")


def test_credentials_come_from_the_environment_of_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(OptionError, match="MQ_ACCESS_KEY and MQ_SECRET_KEY must give"):
        access_for(Connection("h:1", credentials_env="MQ"))
    monkeypatch.setenv("MQ_ACCESS_KEY", "id")
    monkeypatch.setenv("MQ_SECRET_KEY", "hush")
    access = access_for(Connection("h:1", credentials_env="MQ"))
    assert access.config.credentials == Credentials("id", "hush")


@pytest.mark.case("SP20")
def test_calls_are_tried_again_and_then_say_what_was_asked() -> None:
    tries = []

    def busy() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise MQBrokerException(2, "busy", "b:1")
        return 7

    assert retrying(options(), "asking", busy) == 7
    tries.clear()
    with pytest.raises(MQClientException, match="asking failed after 2 tries at name server h:1"):
        retrying(options(**{"fetchOffset.numRetries": "1"}), "asking", busy)

    def unknown() -> int:
        tries.append(1)
        raise NoRouteError("no route of topic T")

    tries.clear()
    with pytest.raises(NoRouteError):
        retrying(options(), "asking", unknown)
    assert len(tries) == 1

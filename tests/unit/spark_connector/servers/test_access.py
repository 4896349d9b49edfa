"""Connections of a worker process: shared, named by settings, with credentials read on the spot."""

from __future__ import annotations

import json
import os
import socket
import traceback
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker import Tls as BrokerTls
from rocketmq_py import (
    Credentials,
    FlowControlError,
    MessageQueue,
    MQBrokerException,
    MQClientException,
    NameServerUnavailableError,
    NoRouteError,
    PermissionDeniedError,
)
from rocketmq_py.client import credentials
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from spark_connector.errors import OptionError
from spark_connector.options.connection import Connection, Tls
from spark_connector.options.read_options import ReadOptions, read_options
from spark_connector.planning.start_places import bounds_of
from spark_connector.servers import access as access_module
from spark_connector.servers.access import (
    SERVER_ERRORS,
    CredentialsFile,
    access_for,
    is_transient,
    retrying,
)
from tests.certificates import Certificates


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
        first = access_for(one)
        for number in range(access_module.OPEN_MOST + 3):
            access_for(Connection(f"h:{number + 1}"))
            assert access_for(one) is first  # in use, so it stays
        assert len(access_module._process.open) == access_module.OPEN_MOST


def test_a_forked_child_opens_connections_of_its_own() -> None:
    with EmbeddedBroker(topics=["T"]) as broker:
        connection = Connection(broker.namesrv_addr)
        access_for(connection).read_queues("T")
        with access_module._process.lock:  # another thread of the parent may hold it
            child = os.fork()
            if not child:
                found = access_for(connection).read_queues("T")
                os._exit(0 if found else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert access_for(connection).read_queues("T")


def test_a_namespace_is_put_before_topics_and_groups_on_the_wire() -> None:
    with EmbeddedBroker(topics=["shop%T", "T"]) as broker:
        access = access_for(Connection(broker.namesrv_addr, namespace="shop"))
        (queue, *_) = access.write_queues("T")
        sent = access.send(queue, b"x", properties="UNIQ_KEY\x01A\x02").result(30)
        assert queue.topic == "T"
        assert [message.body for message in broker.messages.in_topic("shop%T")] == [b"x"]
        assert broker.messages.in_topic("T") == []
        read = {"nameServer": "h:1", "subscribePattern": ".*"}
        chosen = read_options(read, streaming=False)
        assert {one.topic for one in bounds_of(access, chosen)} == {"T"}
        pulled = access.pull(queue, sent.queue_offset, group="G").result(30)
        access.store_group_offset("G", queue, 1)
        assert (pulled.found, access.group_offset("G", queue)) == (True, 1)
        assert (
            access_for(Connection(broker.namesrv_addr)).group_offset(
                "shop%G", MessageQueue("shop%T", queue.broker_name, queue.queue_id)
            )
            == 1
        )


def test_what_is_wrong_with_tls_files_names_the_option(
    certificates: Certificates, tmp_path: Path
) -> None:
    ca, other = tmp_path / "ca.pem", certificates.client.chain
    with pytest.raises(OptionError, match=r"option tlsCa = .*there is no such file on"):
        access_for(Connection("h:1", tls=Tls(str(ca))))
    ca.touch()
    with pytest.raises(OptionError, match=r"option tlsCa: .*must be a PEM file"):
        access_for(Connection("h:1", tls=Tls(str(ca))))
    with pytest.raises(OptionError, match=r"option tlsCert: .*must be a PEM chain"):
        access_for(Connection("h:1", tls=Tls(cert=str(other), key=str(ca))))


def test_servers_are_reached_by_tls_and_see_a_certificate(certificates: Certificates) -> None:
    tls = BrokerTls(
        certificate=certificates.server.chain,
        key=certificates.server.key,
        mode="enforcing",
        client_certificates="require",
        trusted=certificates.authority,
    )
    ca, mine = str(certificates.authority), certificates.client
    with EmbeddedBroker(tls=tls, topics=["T"]) as broker:
        trusting = Tls(ca, str(mine.chain), str(mine.key))
        access = access_for(Connection(broker.namesrv_addr, tls=trusting))
        (queue, *_) = access.write_queues("T")
        access.send(queue, b"x", properties="UNIQ_KEY\x01A\x02").result(30)
        assert access.pull(queue, 0).result(30).found
        for less in (None, Tls(), Tls(ca)):
            with pytest.raises(SERVER_ERRORS):
                access_for(Connection(broker.namesrv_addr, tls=less)).topic_names()


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
def test_a_file_of_credentials_is_read_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "LOOK_EVERY_S", 0.0)
    path = tmp_path / "keys.json"
    source = CredentialsFile(str(path))
    with pytest.raises(OptionError, match="No such file"):
        source()
    path.write_text(json.dumps({"accessKey": "a", "secretKey": "first"}))
    assert source() == Credentials("a", "first")
    path.write_text(json.dumps({"accessKey": "a", "secretKey": "second", "securityToken": "t"}))
    assert source() == Credentials("a", "second", "t")
    path.write_text("{")  # being written: the last good one counts
    os.utime(path, ns=(1, 1))
    assert source() == Credentials("a", "second", "t")
    path.write_text('{"secretKey": "hush"}')
    with pytest.raises(OptionError, match="must give accessKey and secretKey") as caught:
        CredentialsFile(str(path))()
    assert "hush" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.case("SP78")
def test_a_file_of_credentials_is_read_again_after_a_refused_request(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"accessKey": "old", "secretKey": "first"}))
    stamp = path.stat().st_mtime_ns
    with EmbeddedBroker(topics=["T"]) as broker:
        access = access_for(Connection(broker.namesrv_addr, credentials_file=str(path)))
        (queue, *_) = access.read_queues("T")
        # A change that the file's size and time do not show.
        path.write_text(json.dumps({"accessKey": "new", "secretKey": "other"}))
        os.utime(path, ns=(stamp, stamp))
        source = access.config.credentials
        assert isinstance(source, CredentialsFile)
        assert source() == Credentials("old", "first")
        broker.faults.on(RequestCode.PULL_MESSAGE).respond(ResponseCode.NO_PERMISSION)
        assert access.pull(queue, 0).result(30).code == ResponseCode.PULL_NOT_FOUND
        assert source() == Credentials("new", "other")
        assert len(broker.journal.requests(code=RequestCode.PULL_MESSAGE)) == 2
        # With nothing else in the file the refusal stands.
        broker.faults.on(RequestCode.PULL_MESSAGE).respond(ResponseCode.NO_PERMISSION).always()
        with pytest.raises(PermissionDeniedError):
            access.pull(queue, 0).result(30)


def test_credentials_come_from_the_environment_of_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(OptionError, match=r"MQ_ACCESS_KEY is not set.*MQ_SECRET_KEY"):
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

    congested = FlowControlError(1, "timer message is congested", "b:1")
    assert is_transient(congested)
    assert not is_transient(MQBrokerException(1, "no rights", "b:1"))

    def unknown() -> int:
        tries.append(1)
        raise NoRouteError("no route of topic T")

    tries.clear()
    with pytest.raises(NoRouteError) as caught:
        retrying(options(), "asking", unknown)
    assert len(tries) == 1
    assert caught.value.__notes__ == ["This happened while asking."]


@pytest.mark.case("SP20")
def test_a_name_server_that_is_away_is_named_with_the_machine_that_asked() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        given = options(nameServer=address, accessKey="id", secretKey="hush")
        with pytest.raises(NameServerUnavailableError) as caught:
            bounds_of(access_for(given.connection), given)
    text = "".join(traceback.format_exception(caught.value))
    assert f"at name server {address}, asked from {socket.gethostname()}" in text
    assert "hush" not in text

"""Which name servers a client asks: given ones, or those that a domain names over HTTP."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rocketmq_py import DefaultMQProducer, Message, QueueAccess, aio, running_clients
from rocketmq_py.admin import AdminClient
from rocketmq_py.client import instance as instance_module
from rocketmq_py.client import name_servers as module
from rocketmq_py.client.background import Timer, WorkerPool
from rocketmq_py.client.name_servers import NameServers
from rocketmq_py.config import ClientConfig, lookup_address
from rocketmq_py.errors import (
    ClientClosedError,
    ConfigError,
    NameServerUnavailableError,
    RocketMQError,
)
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.rocketmq_py.lookup_domain import LookupDomain, lookup_domain
from tests.unit.rocketmq_py.scripted import ScriptedCluster
from tests.waiting import until

PATIENCE_S = 10.0


class Lent:
    """What a client instance lends: threads and a timer."""

    def __init__(self) -> None:
        self.timer = Timer("test-timer")
        self.pool = WorkerPool("test-worker", 4)
        self.schedule_after = self.timer.schedule_after
        self.submit_background = self.pool.submit


@pytest.fixture
def lent() -> Iterator[Lent]:
    made = Lent()
    yield made
    made.pool.close(PATIENCE_S)
    made.timer.close(PATIENCE_S)


@pytest.fixture
def domain(monkeypatch: pytest.MonkeyPatch) -> Iterator[LookupDomain]:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with lookup_domain("10.0.0.1:9876;10.0.0.2:9876") as made:
        yield made


@pytest.fixture
def servers(domain: LookupDomain, lent: Lent) -> Iterator[NameServers]:
    made = NameServers(ClientConfig(namesrv_domain=domain.address), lent)
    yield made
    made.close()


# --- where it is asked ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({}, ""),
        ({"namesrv_domain": "mq"}, "http://mq:8080/rocketmq/nsaddr"),
        ({"namesrv_domain": "mq.example:80"}, "http://mq.example:80/rocketmq/nsaddr"),
        ({"namesrv_domain": "mq", "unit_name": "u"}, "http://mq:8080/rocketmq/nsaddr-u?nofix=1"),
        (
            {"namesrv_domain": "mq", "unit_name": "a b&c"},
            "http://mq:8080/rocketmq/nsaddr-a%20b%26c?nofix=1",
        ),
        ({"namesrv_domain": "[::1]:7"}, "http://[::1]:7/rocketmq/nsaddr"),
        (
            {"namesrv_domain": "mq", "namesrv_domain_subgroup": "nsaddr4client"},
            "http://mq:8080/rocketmq/nsaddr4client",
        ),
        ({"namesrv_domain": "https://mq.example"}, "https://mq.example/rocketmq/nsaddr"),
        (
            {"namesrv_domain": "http://ons.example:8080/rocketmq/nsaddr4client-internal/"},
            "http://ons.example:8080/rocketmq/nsaddr4client-internal",
        ),
    ],
)
def test_the_address_of_a_domain_is_made_as_java_makes_it(
    settings: dict[str, Any], address: str
) -> None:
    assert lookup_address(ClientConfig(**settings)) == address


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("namesrv_domain", "two words"),
        ("namesrv_domain", "ftp://mq"),
        ("namesrv_domain", "http://user:secret@mq"),
        ("namesrv_domain", "mq:0"),
        ("namesrv_domain", "mq:65536"),
        ("namesrv_domain", "mq/path?query"),
        ("namesrv_domain", "mq\r\nHost: other"),
        ("namesrv_domain", None),
        ("namesrv_domain_subgroup", ""),
        ("namesrv_domain_subgroup", "a/b"),
        ("namesrv_domain_subgroup", 5),
    ],
)
def test_a_domain_that_cannot_be_one_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        ClientConfig(**{name: value})


def test_a_path_of_its_own_and_a_subgroup_are_refused_together() -> None:
    with pytest.raises(ConfigError, match="has the path /p"):
        ClientConfig(namesrv_domain="mq/p", namesrv_domain_subgroup="other")
    config = ClientConfig(namesrv_domain="mq", namesrv_domain_subgroup="other")
    with pytest.raises(ConfigError, match="namesrv_domain_subgroup = 'other'"):
        config.namesrv_domain = "mq/p"


def test_the_environment_names_a_domain_and_given_addresses_come_first(
    monkeypatch: pytest.MonkeyPatch, lent: Lent
) -> None:
    monkeypatch.setenv("ROCKETMQ_NAMESRV_DOMAIN", "mq.example")
    monkeypatch.setenv("ROCKETMQ_NAMESRV_DOMAIN_SUBGROUP", "other")
    monkeypatch.setenv("NAMESRV_ADDR", "")
    config = ClientConfig()
    assert NameServers(config, lent).domain == "http://mq.example:8080/rocketmq/other"
    assert NameServers(ClientConfig.of(config, namesrv_addr="a:1"), lent).domain == ""


# --- asking --------------------------------------------------------------------------------------


def test_given_addresses_are_known_and_no_domain_is_asked(domain: LookupDomain, lent: Lent) -> None:
    config = ClientConfig(namesrv_addr="a:1;b:2", namesrv_domain=domain.address)
    servers = NameServers(config, lent)
    servers.look()
    assert set(servers.known().result(0)) == {"a:1", "b:2"}
    assert domain.paths == []


def test_without_address_and_domain_the_error_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, lent: Lent
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(NameServerUnavailableError, match="set namesrv_addr") as caught:
        NameServers(ClientConfig(), lent).known("T").result(0)
    assert (caught.value.topic, caught.value.response_code) == ("T", 10004)


def test_a_domain_is_asked_once_by_all_who_need_it(
    servers: NameServers, domain: LookupDomain
) -> None:
    domain.quiet.set()
    waiting = [servers.known() for _ in range(5)]
    domain.wait_for(1)
    domain.quiet.clear()
    found = {one.result(PATIENCE_S) for one in waiting}
    assert [set(one) for one in found] == [{"10.0.0.1:9876", "10.0.0.2:9876"}]
    assert servers.known().result(0) in found
    assert domain.paths == ["/rocketmq/nsaddr"]


def test_only_the_first_line_of_an_answer_counts(
    servers: NameServers, domain: LookupDomain
) -> None:
    domain.text = "\r\n http://10.0.0.9:9876/ ; \r\nanything else\n"
    assert servers.known().result(PATIENCE_S) == ("10.0.0.9:9876",)


def test_a_later_answer_replaces_the_addresses_and_a_failure_keeps_them(
    servers: NameServers, domain: LookupDomain, caplog: pytest.LogCaptureFixture
) -> None:
    servers.known().result(PATIENCE_S)
    domain.text = "10.0.0.3:9876"
    with caplog.at_level(logging.INFO):
        servers.look()
        until(lambda: servers.addresses == ("10.0.0.3:9876",))
    assert f"name servers of http://{domain.address}/rocketmq/nsaddr" in caplog.text
    domain.status = 503
    servers.look()
    until(lambda: "still used: 10.0.0.3:9876" in caplog.text)
    assert servers.known().result(0) == ("10.0.0.3:9876",)


def too_long(domain: LookupDomain) -> None:
    domain.text = "10.0.0.1:9876;" * 10_000


def not_there(domain: LookupDomain) -> None:
    domain.status = 404


def no_list(domain: LookupDomain) -> None:
    domain.text = "<html>log in first</html>"


def elsewhere(domain: LookupDomain) -> None:
    domain.status = 302
    domain.headers["Location"] = "file:///etc/hosts"


def nothing(domain: LookupDomain) -> None:
    domain.text = " \n"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (too_long, "more than 65536 bytes"),
        (not_there, "it answered 404"),
        (no_list, "'<html>log in first</html>', which is no list of host:port;host:port"),
        (elsewhere, "it answered 302"),
        (nothing, "it answered no address"),
        (LookupDomain.close, "refused"),
    ],
)
def test_an_answer_that_names_no_name_server_is_an_error_with_its_address(
    answer: Callable[[LookupDomain], None], told: str, lent: Lent
) -> None:
    domain = LookupDomain("10.0.0.1:9876")
    try:
        answer(domain)
        config = ClientConfig(namesrv_addr="", namesrv_domain=domain.address)
        with pytest.raises(NameServerUnavailableError) as caught:
            NameServers(config, lent).known().result(PATIENCE_S)
        assert told in str(caught.value)
        assert f"http://{domain.address}/rocketmq/nsaddr tells no name server" in str(caught.value)
        assert "Check namesrv_domain, or set namesrv_addr" in str(caught.value)
    finally:
        domain.close()


def test_a_domain_that_has_just_failed_is_left_in_peace(
    servers: NameServers, domain: LookupDomain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AGAIN_AFTER_S", 3_600.0)
    domain.status = 500
    first = servers.known()
    assert isinstance(first.exception(PATIENCE_S), NameServerUnavailableError)
    domain.status = 200
    assert servers.known() is first
    assert len(domain.paths) == 1
    monkeypatch.setattr(servers, "_again_at", 0.0)
    assert servers.known().result(PATIENCE_S)


def test_a_silent_domain_ends_every_wait_and_is_asked_by_one_thread_only(
    servers: NameServers, domain: LookupDomain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_MS", 200)
    domain.quiet.set()
    for _ in range(3):
        with pytest.raises(NameServerUnavailableError, match="has not answered within 200 ms"):
            servers.known().result(PATIENCE_S)
    until(lambda: not servers._is_asking)  # its connection was cut
    domain.quiet.clear()
    monkeypatch.setattr(servers, "_again_at", 0.0)
    assert servers.known().result(PATIENCE_S)


def test_a_proxy_of_the_environment_is_not_asked(
    servers: NameServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert servers.known().result(PATIENCE_S)


def test_what_the_program_sets_ends_the_questions_to_the_domain(
    servers: NameServers, domain: LookupDomain
) -> None:
    domain.quiet.set()
    answer = servers.known()
    domain.wait_for(1)
    servers.set("a:1")
    domain.quiet.clear()
    answer.result(PATIENCE_S)
    until(lambda: not servers._is_asking)
    servers.look()
    assert servers.known().result(0) == ("a:1",)
    assert len(domain.paths) == 1


def test_the_end_of_a_client_ends_a_question_and_those_who_wait(
    servers: NameServers, domain: LookupDomain
) -> None:
    domain.quiet.set()
    answer = servers.known()
    domain.wait_for(1)
    servers.close()
    servers.close()
    with pytest.raises(NameServerUnavailableError, match="shut down"):
        answer.result(PATIENCE_S)
    until(lambda: not servers._is_asking)
    with pytest.raises(NameServerUnavailableError):
        servers.known().result(0)


# --- clients -------------------------------------------------------------------------------------


@pytest.fixture
def telling(cluster: ScriptedCluster, domain: LookupDomain) -> LookupDomain:
    """A domain that names the name server of a cluster."""
    domain.text = cluster.namesrv_addr
    cluster.name_server.answer(RequestCode.GET_BROKER_CLUSTER_INFO, ResponseCode.SYSTEM_ERROR)
    return domain


def test_every_kind_of_client_finds_its_brokers_by_the_domain(
    telling: LookupDomain, cluster: ScriptedCluster
) -> None:
    where: Any = {"namesrv_addr": "", "namesrv_domain": telling.address}

    async def main() -> None:
        async with aio.Producer("A", **where) as producer:
            await producer.send(Message("T", b"x"))
        async with aio.AdminClient(**where) as awaited:
            assert [one.broker_name for one in await awaited.route("T")] == ["broker-a"]

    with DefaultMQProducer("G", **where) as producer:
        producer.send(Message("T", b"x"))
        clients = [one.namesrv_addr for one in running_clients() if one.producer_groups == ("G",)]
        assert clients == [cluster.namesrv_addr]
    with QueueAccess(**where) as access:
        assert len(access.read_queues("T")) == 4
    with AdminClient(**where) as admin:
        assert [one.broker_name for one in admin.route("T")] == ["broker-a"]
    asyncio.run(main())
    assert len(cluster.sends()) == 2


def test_a_start_with_a_check_waits_for_the_domain(telling: LookupDomain) -> None:
    producer = DefaultMQProducer("G", namesrv_addr="", namesrv_domain=telling.address)
    try:
        producer.start(check=True)
    finally:
        producer.shutdown()
    assert telling.paths == ["/rocketmq/nsaddr"]


def test_a_domain_is_asked_again_and_again_and_its_new_servers_are_used(
    telling: LookupDomain, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_module, "LOOK_EVERY_MS", 10)
    telling.text = "127.0.0.1:1"
    with DefaultMQProducer("G", namesrv_addr="", namesrv_domain=telling.address) as producer:
        telling.wait_for(2)
        telling.text = cluster.namesrv_addr
        instance = producer._running().instance
        until(lambda: instance.name_servers.addresses == (cluster.namesrv_addr,))
        assert producer.send(Message("T", b"x")).msg_id


def test_clients_that_share_connections_share_the_domain(telling: LookupDomain) -> None:
    where: Any = {"namesrv_addr": "", "namesrv_domain": telling.address, "instance_name": "one"}
    with DefaultMQProducer("G", **where) as first:
        first.send(Message("T", b"x"))
        with DefaultMQProducer("H", **where) as second:
            second.send(Message("T", b"x"))
        with pytest.raises(ConfigError, match="namesrv_domain"):
            DefaultMQProducer("I", **{**where, "namesrv_domain": "other"}).start()
    assert telling.paths == ["/rocketmq/nsaddr"]


def test_an_event_loop_goes_on_while_a_domain_is_silent(telling: LookupDomain) -> None:
    telling.quiet.set()

    async def main() -> None:
        where: Any = {"namesrv_addr": "", "namesrv_domain": telling.address}
        async with aio.AdminClient(**where) as admin, aio.Producer("G", **where) as producer:
            sending = asyncio.create_task(producer.send(Message("T", b"x")))
            asked = asyncio.create_task(admin.route("T"))
            given_up = asyncio.create_task(admin.route("T"))
            await asyncio.to_thread(telling.wait_for, 2)  # one of each client
            given_up.cancel()
            telling.quiet.clear()  # by this loop: one that waited would never come here
            assert (await sending).msg_id
            assert await asked

    asyncio.run(main())


def test_a_producer_ends_at_once_while_its_domain_is_silent(domain: LookupDomain) -> None:
    domain.quiet.set()
    producer = DefaultMQProducer("G", namesrv_addr="", namesrv_domain=domain.address)
    producer.start()
    outcome: list[RocketMQError] = []

    def send() -> None:
        try:
            producer.send(Message("T", b"x"), timeout=600_000)
        except RocketMQError as error:
            outcome.append(error)

    sending = threading.Thread(target=send)
    sending.start()
    domain.wait_for(1)
    producer.shutdown(0.1)
    sending.join(PATIENCE_S)
    assert [type(one) for one in outcome] == [ClientClosedError]


def test_a_send_has_its_time_out_while_a_domain_is_silent(domain: LookupDomain) -> None:
    domain.quiet.set()
    with (
        DefaultMQProducer("G", namesrv_addr="", namesrv_domain=domain.address) as producer,
        pytest.raises(NameServerUnavailableError, match="has not yet said where they are"),
    ):
        producer.send(Message("T", b"x"), timeout=100)


def test_the_advice_for_a_silent_name_server_of_a_domain_is_not_that_for_brokers(
    domain: LookupDomain,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nobody = f"127.0.0.1:{unused.getsockname()[1]}"
    domain.text = nobody
    with (
        DefaultMQProducer("G", namesrv_addr="", namesrv_domain=domain.address) as producer,
        pytest.raises(NameServerUnavailableError) as caught,
    ):
        producer.send(Message("T", b"x"))
    assert f"(http://{domain.address}/rocketmq/nsaddr)" in str(caught.value)
    assert "address_mapper" not in str(caught.value)

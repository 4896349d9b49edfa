"""Which instances a process has."""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Self

import pytest

from rocketmq_py.client.pool import acquire_instance, client_id_of, local_address
from rocketmq_py.config import ClientConfig


def test_a_client_id_has_address_instance_and_unit() -> None:
    config = ClientConfig(client_ip="10.0.0.1", instance_name="shop", unit_name="u")
    assert client_id_of(config) == "10.0.0.1@shop@u"


def test_the_default_name_becomes_one_of_its_own_unless_it_must_stay() -> None:
    config = ClientConfig(client_ip="10.0.0.1")
    first, second = client_id_of(config), client_id_of(config)
    assert first != second
    assert first.startswith(f"10.0.0.1@{os.getpid()}#")
    assert client_id_of(config, keep_instance_name=True) == "10.0.0.1@DEFAULT"


def test_equal_ids_share_an_instance_until_the_last_one_gives_it_back() -> None:
    config = ClientConfig(instance_name="shared")
    first, second = acquire_instance(config), acquire_instance(config)
    assert first is second
    first.start()
    first.shutdown()
    assert second.is_running
    second.shutdown()
    second.shutdown()
    assert not first.is_running
    again = acquire_instance(config)
    assert again is not first
    again.shutdown()


def test_an_address_is_known_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    assert local_address().count(".") == 3

    def unreachable(*_: object) -> None:
        raise OSError("network is unreachable")

    monkeypatch.setattr(socket, "socket", lambda *_: ClosingProbe(unreachable))
    assert local_address() == "127.0.0.1"


class ClosingProbe:
    """A socket that only has what the address probe uses."""

    def __init__(self, connect: Callable[..., None]) -> None:
        self.connect = connect

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return


def test_a_client_that_is_forgotten_is_ended_at_exit_with_a_word() -> None:
    program = (
        "import logging; logging.basicConfig()\n"
        "from rocketmq_py import DefaultMQProducer\n"
        "DefaultMQProducer('G', namesrv_addr='127.0.0.1:1').start()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0
    assert "was not shut down" in done.stderr


def test_a_forked_child_begins_with_an_empty_pool(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    config = ClientConfig(instance_name="before-fork")
    instance = acquire_instance(config)
    child = os.fork()
    if child == 0:
        os._exit(0 if acquire_instance(config) is not instance else 1)
    assert os.waitpid(child, 0)[1] == 0
    instance.shutdown()


def test_forgotten_clients_are_told_in_one_line_and_their_pulls_not_at_all() -> None:
    program = (
        "import logging; logging.basicConfig()\n"
        "from embedded_broker import EmbeddedBroker\n"
        "from rocketmq_py import DefaultMQProducer, DefaultMQPushConsumer, Message\n"
        "broker = EmbeddedBroker(topics=['T']).start()\n"
        "consumer = DefaultMQPushConsumer('G', namesrv_addr=broker.namesrv_addr)\n"
        "consumer.subscribe('T')\n"
        "consumer.register_message_listener(lambda messages, context: None)\n"
        "consumer.start()\n"
        "DefaultMQProducer('G', namesrv_addr=broker.namesrv_addr).start()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0
    (line,) = [one for one in done.stderr.splitlines() if "was left running" not in one]
    assert re.search(r"clients \S+, \S+ were not shut down: call shutdown\(\)", line)


def test_clients_that_run_are_told_with_what_they_serve() -> None:
    from rocketmq_py import (
        ConsumeConcurrentlyStatus,
        DefaultMQProducer,
        DefaultMQPushConsumer,
        running_clients,
    )

    producer = DefaultMQProducer("P", namesrv_addr="127.0.0.1:1", instance_name="told")
    consumer = DefaultMQPushConsumer("G", namesrv_addr="127.0.0.1:1", instance_name="told")
    consumer.subscribe("T")
    consumer.register_message_listener(lambda _, __: ConsumeConcurrentlyStatus.CONSUME_SUCCESS)
    before = running_clients()
    with producer, consumer:
        (told,) = [one for one in running_clients() if one not in before]
        assert told.client_id == producer.client_id
        assert told.namesrv_addr == "127.0.0.1:1"
        assert (told.producer_groups, told.consumer_groups) == (("P",), ("G",))
    assert running_clients() == before

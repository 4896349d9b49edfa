"""Who listens under an address inside this process."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

from rocketmq_py.transport import inproc


class Server:
    def connect(self, mailbox: inproc.Mailbox, *, name: str) -> NoReturn:
        raise ConnectionRefusedError(name)

    def expect(self, client: inproc.LocalClient, *, name: str) -> None:
        raise AssertionError(client, name)


def test_a_registered_server_is_found_until_it_is_removed() -> None:
    server = Server()
    inproc.register("127.0.0.1:1", server)
    inproc.register("127.0.0.1:1", server)
    assert inproc.lookup("127.0.0.1:1") is server
    inproc.unregister("127.0.0.1:1", server)
    inproc.unregister("127.0.0.1:1", server)
    assert inproc.lookup("127.0.0.1:1") is None


def test_an_address_has_one_server() -> None:
    first, second = Server(), Server()
    inproc.register("127.0.0.1:2", first)
    with pytest.raises(ValueError, match="already registered"):
        inproc.register("127.0.0.1:2", second)
    inproc.unregister("127.0.0.1:2", second)
    assert inproc.lookup("127.0.0.1:2") is first
    inproc.unregister("127.0.0.1:2", first)


def test_a_server_of_the_parent_process_is_not_found_and_can_be_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parents, childs = Server(), Server()
    inproc.register("127.0.0.1:3", parents)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert inproc.lookup("127.0.0.1:3") is None
    inproc.register("127.0.0.1:3", childs)
    assert inproc.lookup("127.0.0.1:3") is childs
    inproc.unregister("127.0.0.1:3", childs)

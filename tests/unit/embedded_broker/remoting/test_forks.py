"""Sockets in a forked child: peers see the end of the server, and its port is free at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.remoting.server import TcpServer, listen
from rocketmq_py.protocol.codes import RequestCode
from tests.unit.embedded_broker.peers import RawClient

pytestmark = pytest.mark.usefixtures("either_loop")


@contextmanager
def forked_child() -> Iterator[None]:
    """A child of this process that runs and does nothing, as long as the body."""
    (told, telling), (waiting, ending) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.close(ending)
        os.write(telling, b"x")
        os.read(waiting, 1)
        os._exit(0)
    try:
        os.read(told, 1)  # it has closed what it closes as it begins
        yield
    finally:
        for one in (told, telling, waiting, ending):
            os.close(one)
        os.waitpid(child, 0)


def test_a_child_keeps_neither_a_connection_nor_a_port_open(
    make_parts: Callable[..., BrokerParts], dial: Callable[[str], RawClient]
) -> None:
    server, listener = TcpServer(), listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    server.add("a", listener)
    server.serve("a", make_parts().endpoint)
    server.start()
    client = dial(f"127.0.0.1:{port}")
    assert client.ask(RequestCode.HEART_BEAT).code
    with forked_child():
        assert client.ask(RequestCode.HEART_BEAT).code  # the parent goes on
        server.close()
        assert client.closed_by_server()
        listen("127.0.0.1", port).close()

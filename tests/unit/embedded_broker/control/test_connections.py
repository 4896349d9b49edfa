"""Silent, slow and greedy peers of the HTTP face."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.control import connections

GUARD_S = 30
ASK = b"GET /clock HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def address(broker: EmbeddedBroker) -> tuple[str, int]:
    host, port = broker.control_url.removeprefix("http://").split(":")
    return host, int(port)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def is_ended(peer: socket.socket) -> bool:
    """Wait until the other side has ended it."""
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True


def asked(peer: socket.socket) -> bytes:
    """Ask for the time, and give the whole answer."""
    peer.sendall(ASK)
    answer = b""
    while not answer.endswith(b"}"):
        answer += peer.recv(1 << 16)
    return answer


@pytest.mark.parametrize("begun", [b"", b"GET /clo", b"POST /pause HTTP/1.1\r\nHost: lo"])
def test_a_peer_that_asks_for_nothing_is_ended(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(connections, "SILENT_S", 0.05)
    with socket.create_connection(address, timeout=GUARD_S) as peer:
        peer.sendall(begun)
        assert is_ended(peer)


def test_a_second_request_in_part_is_not_waited_for_either(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_connection(address, timeout=GUARD_S) as peer:
        assert asked(peer).startswith(b"HTTP/1.1 200 ")
        monkeypatch.setattr(connections, "SILENT_S", 0.05)
        peer.sendall(b"GET /clo")
        assert is_ended(peer)


@pytest.mark.parametrize(
    "ask",
    [
        ASK.replace(b"\r\n\r\n", b"\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"),
        b"no request\r\n\r\n",
    ],
)
def test_odd_requests_are_answered_and_fill_no_log(
    address: tuple[str, int], caplog: pytest.LogCaptureFixture, ask: bytes
) -> None:
    caplog.set_level(logging.INFO)
    with socket.create_connection(address, timeout=GUARD_S) as peer:
        peer.sendall(ask)
        assert peer.recv(1 << 16).startswith(b"HTTP/1.1 ")
    assert [one for one in caplog.records if "uvicorn" not in one.name or one.levelno > 20] == []


def test_the_loggers_of_uvicorn_stay_as_they_were(broker: EmbeddedBroker) -> None:
    for name in ("uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logger = logging.getLogger(name)
        assert (logger.level, logger.handlers, logger.propagate) == (0, [], True)


def test_more_connections_than_there_may_be_are_ended_and_the_others_work(
    address: tuple[str, int], opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 3)
    peers = [
        opened.enter_context(socket.create_connection(address, timeout=GUARD_S)) for _ in range(3)
    ]
    for peer in peers:  # answered: so they were accepted
        assert asked(peer).startswith(b"HTTP/1.1 200 ")
    with socket.create_connection(address, timeout=GUARD_S) as fourth:
        assert is_ended(fourth)
    for peer in peers:
        assert asked(peer).startswith(b"HTTP/1.1 200 ")

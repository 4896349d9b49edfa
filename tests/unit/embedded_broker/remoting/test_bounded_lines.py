"""Peers cannot fill the log: whatever they send, and how often, a line a second tells of it."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.remoting import rate_limited_log, server
from rocketmq_py.protocol.frame import FrameDecoder, encode_frame
from tests.unit.embedded_broker.peers import Peer, RawClient
from tests.unit.embedded_broker.wire_peer import Connect

FRAMES: dict[str, bytes] = {
    "a length that is none": b"\xff\xff\xff\xff" * 4,
    "a longer frame than there is": b"\x7f\x00\x00\x00\x00\x00\x00\x01{",
    "a header that is no JSON": encode_frame(0, b"no header", b""),
    "a header of another form": encode_frame(1, b"\x00\x01", b""),
    "a header that is a list": encode_frame(0, b"[]", b""),
    "a serialisation that is none": encode_frame(0, b"{}", b"").replace(
        b"\x00\x00\x00\x02{}", b"\x09\x00\x00\x02{}"
    ),
    "http": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_ten_thousand_bad_frames_are_two_lines_in_two_seconds(
    start_broker: Callable[..., EmbeddedBroker],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    frame: bytes,
) -> None:
    broker = start_broker(tcp=False)
    endpoint = broker._parts().endpoint
    now_ns = [1]
    monkeypatch.setattr(rate_limited_log, "monotonic_ns", lambda: now_ns[0])
    with caplog.at_level(logging.INFO):
        for number in range(10_001):
            if number == 10_000:
                now_ns[0] += rate_limited_log.EVERY_NS
            peer = Peer()
            endpoint.read(peer, FrameDecoder(), frame)
            assert peer.closed
    first, second = caplog.messages
    assert "closing" in first
    assert second.endswith("9999 more lines like this were left out since the last one")
    assert max(map(len, caplog.messages)) < 2 * rate_limited_log.TEXT_MAX


def test_connections_beyond_the_limit_are_refused_and_the_others_go_on(
    start_broker: Callable[..., EmbeddedBroker],
    connect: Connect,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = start_broker(config={"maxConnections": 3}, topics=["T"])
    served = [connect(broker.addr) for _ in range(3)]
    assert [peer.send("T").code for peer in served] == [0, 0, 0]
    for _ in range(50):
        refused = RawClient(broker.addr)
        assert refused.closed_by_server()
        refused.close()
    assert [peer.send("T").code for peer in served] == [0, 0, 0]
    lines = [line for line in caplog.messages if "maxConnections" in line]
    assert 1 <= len(lines) <= 10

    served.pop().close()
    endpoint = broker._parts().endpoint
    broker.wait_for(lambda _: len(endpoint.connections) == 2, timeout=20)
    assert connect(broker.addr).send("T").code == 0


def test_more_connections_than_the_system_waits_for_are_refused(
    start_broker: Callable[..., EmbeddedBroker],
    connect: Connect,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "SOCKETS_MAX", 1)
    broker = start_broker(topics=["T"])
    served = connect(broker.addr)
    assert served.send("T").code == 0
    refused = RawClient(broker.addr)
    assert refused.closed_by_server()
    refused.close()
    assert served.send("T").code == 0
    assert "1 are open (the most that this system waits for)" in caplog.text


def test_the_limit_counts_the_name_server_too_and_can_be_raised(
    start_broker: Callable[..., EmbeddedBroker], connect: Connect
) -> None:
    broker = start_broker(config={"maxConnections": 1})
    connect(broker.namesrv_addr).ask(106)
    host, _, port = broker.addr.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=20) as refused,
        contextlib.suppress(ConnectionResetError),
    ):
        assert refused.recv(1) == b""
    broker.config.update(maxConnections=2)
    assert connect(broker.addr).ask(28).code == 0

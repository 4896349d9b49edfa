"""TLS and plain frames on the same port, told apart by the first byte."""

from __future__ import annotations

import gc
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, Tls
from embedded_broker.remoting import endpoint, tcp_connection, turns
from embedded_broker.remoting import tls as layer
from embedded_broker.remoting.tcp_connection import TcpConnection
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame, FrameDecoder
from tests.certificates import Certificate, Certificates
from tests.unit.embedded_broker.peers import RawClient
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, pull_fields, send_fields

BIG = bytes(range(256)) * 8192  # 2 MiB: many TLS records, and an answer in pieces
Secure = Callable[..., WirePeer]
GUARD_S = 20.0

pytestmark = pytest.mark.usefixtures("either_loop")


@pytest.fixture
def secure(certificates: Certificates) -> Iterator[Secure]:
    """Connect by TLS, trusting the authority of the tests."""
    with ExitStack() as stack:

        def connect(address: str, own: Certificate | None = None, **more: object) -> WirePeer:
            context = ssl.create_default_context(cafile=str(certificates.authority))
            if own is not None:
                context.load_cert_chain(own.chain, own.key)
            for name, value in more.items():
                setattr(context, name, value)
            peer = stack.enter_context(WirePeer(address))
            host = address.partition(":")[0]
            peer.socket = context.wrap_socket(peer.socket, server_hostname=host)
            return peer

        yield connect


@pytest.fixture
def permissive(
    start_broker: Callable[..., EmbeddedBroker], certificates: Certificates
) -> EmbeddedBroker:
    made = Tls(certificate=certificates.server.chain, key=certificates.server.key)
    return start_broker(tls=made, topics=["T"])


def started(
    start_broker: Callable[..., EmbeddedBroker], certificates: Certificates, **more: object
) -> EmbeddedBroker:
    server = certificates.server
    return start_broker(tls=Tls(certificate=server.chain, key=server.key, **more), topics=["T"])  # type: ignore[arg-type]


@pytest.mark.case("W99")
def test_both_are_served_on_one_port_of_the_broker_and_of_the_name_server(
    permissive: EmbeddedBroker, secure: Secure, connect: Connect
) -> None:
    for address in (permissive.addr, permissive.namesrv_addr):
        for peer in (secure(address), connect(address)):
            assert peer.ask(RequestCode.GET_BROKER_CLUSTER_INFO).code in {0, 3}
    assert secure(permissive.addr).send("T").code == 0
    assert connect(permissive.addr).send("T").code == 0
    assert permissive.topics["T"].count() == 2


def test_a_long_message_comes_back_whole(permissive: EmbeddedBroker, secure: Secure) -> None:
    peer = secure(permissive.addr)
    assert peer.send("T", BIG).code == 0
    pulled = peer.pull("T", queueId="0")
    for queue in "123":
        pulled = pulled if pulled.code == 0 else peer.pull("T", queueId=queue)
    assert BIG in pulled.body


def test_answers_that_leave_together_leave_in_their_order(
    permissive: EmbeddedBroker, secure: Secure
) -> None:
    peer = secure(permissive.addr)
    sent = [bytes([number]) * 5000 for number in range(3)]
    for body in sent:
        assert peer.ask(310, send_fields("T"), body).code == 0
    asked = [
        RemotingCommand(11, n, ext_fields=pull_fields("T", n, maxMsgNums="1")) for n in range(3)
    ]
    peer.write(b"".join(command.encode() for command in asked))
    for number, body in enumerate(sent):
        assert body in peer.answer(number).body


def test_one_that_breaks_its_tls_behind_long_answers_stops_nobody_elses(
    permissive: EmbeddedBroker,
    secure: Secure,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bad = secure(permissive.addr)
    assert bad.send("T", BIG).code == 0
    # More than the kernel takes on its way (4 MiB and what the peer's buffer has), and the peer is
    # still read from.
    asked = [RemotingCommand(11, n, ext_fields=pull_fields("T")).encode() for n in range(8)]
    monkeypatch.setattr(tcp_connection, "WRITE_BUFFER_PAUSE", len(asked) * 2 * len(BIG))
    bad.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    bad.write(b"".join(asked))
    (server,) = permissive._parts().endpoint.connections
    assert isinstance(server, TcpConnection)
    permissive.wait_for(lambda _: bool(server.long_answers()))
    socket.socket.sendall(bad.socket, b"\x17\x03\x03\x00\x20" + b"garbage!" * 4)
    permissive.wait_for(lambda _: server.closed)
    bad.socket.settimeout(GUARD_S)
    with suppress(OSError):  # an end, a reset or an alert
        while bad.socket.recv(1 << 20):
            pass
    good = connect(permissive.addr)
    assert BIG in good.pull("T", queueId="0").body


@pytest.mark.parametrize("in_turns", [False, True])
def test_requests_in_front_of_a_goodbye_are_answered(
    permissive: EmbeddedBroker, secure: Secure, monkeypatch: pytest.MonkeyPatch, *, in_turns: bool
) -> None:
    if in_turns:
        monkeypatch.setattr(endpoint, "TURN_NS", 0)
        monkeypatch.setattr(turns, "TURN_NS", 0)
        monkeypatch.setattr(endpoint, "COMMANDS_PER_ENTRY", 1)
    peer = secure(permissive.addr)
    assert peer.send("T", BIG).code == 0
    records, incoming = ssl.MemoryBIO(), ssl.MemoryBIO()
    plain = WirePeer(permissive.addr)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    layer_of = context.wrap_bio(incoming, records)
    with plain, suppress(ssl.SSLWantReadError):
        while True:
            with suppress(ssl.SSLWantReadError):
                layer_of.do_handshake()
                break
            plain.socket.sendall(records.read())
            incoming.write(plain.socket.recv(1 << 16))
        for queue in "0123":
            asked = RemotingCommand(11, 1, ext_fields=pull_fields("T", queueId=queue))
            layer_of.write(asked.encode())
        with suppress(ssl.SSLWantReadError):
            layer_of.unwrap()
        plain.socket.sendall(records.read())  # the requests and the goodbye, in one piece
        got = bytearray()
        while data := plain.socket.recv(1 << 20):
            incoming.write(data)
        with suppress(ssl.SSLZeroReturnError):
            while data := layer_of.read(1 << 20):
                got += data
    assert len(FrameDecoder().feed(got)) == 4
    assert BIG in got


def test_nothing_of_tls_is_left_of_a_connection_that_has_ended(
    permissive: EmbeddedBroker, secure: Secure
) -> None:
    gc.collect()
    gc.disable()
    try:
        before = secured()
        for _ in range(3):
            peer = secure(permissive.addr)
            assert peer.send("T").code == 0
            assert secured() == before + 1
            peer.close()
            permissive.wait_for(lambda _: not permissive._parts().endpoint.connections)
            assert secured() == before
    finally:
        gc.enable()


def secured() -> int:
    """How many connections of servers have a TLS of their own."""
    return sum(type(one) is ssl.SSLObject for one in gc.get_objects())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions(permissive: EmbeddedBroker, secure: Secure, version: ssl.TLSVersion) -> None:
    peer = secure(permissive.addr, minimum_version=version, maximum_version=version)
    assert [peer.send("T").code for _ in range(3)] == [0, 0, 0]


def test_a_hello_that_comes_byte_by_byte_is_enough(
    permissive: EmbeddedBroker, certificates: Certificates
) -> None:
    """And so are frames that are cut anywhere."""
    context = ssl.create_default_context(cafile=str(certificates.authority))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secure = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    raw = RawClient(permissive.addr)

    def push() -> None:
        for byte in outgoing.read():
            raw.write(bytes([byte]))

    while True:
        try:
            secure.do_handshake()
        except ssl.SSLWantReadError:
            push()
            incoming.write(raw.socket.recv(65_536))
        else:
            break
    secure.write(RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO, opaque=7).encode())
    push()
    decoder = FrameDecoder()
    frames: list[Frame] = []
    while not frames:
        try:
            frames = decoder.feed(secure.read())
        except ssl.SSLWantReadError:
            incoming.write(raw.socket.recv(65_536))
    raw.close()
    assert RemotingCommand.decode(frames[0]).opaque == 7


@pytest.mark.case("W99")
def test_plain_connections_are_closed_where_tls_is_enforced(
    start_broker: Callable[..., EmbeddedBroker],
    certificates: Certificates,
    secure: Secure,
    connect: Connect,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = started(start_broker, certificates, mode="enforcing")
    for address in (broker.addr, broker.namesrv_addr):
        plain = connect(address)
        plain.post(RequestCode.GET_BROKER_CLUSTER_INFO)
        assert plain.wait_closed()
    assert "which is enforced" in caplog.text
    assert secure(broker.addr).send("T").code == 0


@pytest.mark.parametrize("mode", [None, "disabled"])
def test_tls_is_closed_where_it_is_off_and_the_log_says_why(
    start_broker: Callable[..., EmbeddedBroker],
    secure: Secure,
    connect: Connect,
    mode: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = start_broker(tls=None if mode is None else Tls(mode="disabled"), topics=["T"])
    with pytest.raises((ssl.SSLError, ConnectionError)):
        secure(broker.addr)
    assert "tls=Tls(...)" in caplog.text
    assert connect(broker.addr).send("T").code == 0


@pytest.mark.parametrize(("wanted", "others"), [("require", False), ("optional", True)])
def test_clients_show_certificates(
    start_broker: Callable[..., EmbeddedBroker],
    certificates: Certificates,
    secure: Secure,
    wanted: str,
    others: bool,
) -> None:
    broker = started(
        start_broker,
        certificates,
        mode="enforcing",
        client_certificates=wanted,
        trusted=certificates.authority,
    )

    def is_served(own: Certificate | None) -> bool:
        try:
            return secure(broker.addr, own).send("T").code == 0
        except (ssl.SSLError, ConnectionError):
            return False

    assert is_served(certificates.client)
    assert is_served(None) is others
    assert not is_served(certificates.stranger)


def test_a_handshake_that_takes_too_long_ends_and_costs_no_thread(
    permissive: EmbeddedBroker,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(layer, "HANDSHAKE_S", 0.01)
    slow = connect(permissive.addr)
    slow.write(b"\x16\x03\x01")
    assert slow.wait_closed()
    assert "took more than" in caplog.text


def test_what_is_no_hello_ends_the_connection(
    permissive: EmbeddedBroker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    wild = connect(permissive.addr)
    wild.write(b"\x16\x03\x01\x00\x05hello" + b"\x00" * 400)
    assert wild.wait_closed()
    assert "TLS fails" in caplog.text
    assert connect(permissive.addr).send("T").code == 0


def test_refused_connections_do_not_fill_the_log(
    start_broker: Callable[..., EmbeddedBroker],
    connect: Connect,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = start_broker()
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            peer = connect(broker.addr)
            peer.write(b"\x16\x03\x01")
            assert peer.wait_closed()
    assert 1 <= len([line for line in caplog.messages if "speaks TLS" in line]) <= 10


def test_a_peer_that_says_goodbye_is_forgotten(permissive: EmbeddedBroker, secure: Secure) -> None:
    peer = secure(permissive.addr)
    peer.send("T")
    endpoint = permissive._parts().endpoint
    assert len(endpoint.connections) == 1
    wrapped = peer.socket
    assert isinstance(wrapped, ssl.SSLSocket)
    raw = wrapped.unwrap()
    assert raw.recv(1) == b""
    permissive.wait_for(lambda _: not endpoint.connections, timeout=20)


def test_the_end_of_the_broker_ends_secure_connections(
    permissive: EmbeddedBroker, secure: Secure
) -> None:
    peer = secure(permissive.addr)
    peer.send("T")
    permissive.close()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        peer.ask(RequestCode.GET_BROKER_CLUSTER_INFO)


def test_a_broker_without_tls_loads_no_ssl() -> None:
    """The import costs more than all of the start."""
    import subprocess
    import sys

    program = (
        "import sys; from embedded_broker import EmbeddedBroker\n"
        "with EmbeddedBroker(tcp=False): pass\n"
        "print('ssl' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "False"


# -- settings -----------------------------------------------------------------------------------


def test_a_file_of_the_original_says_what_a_server_needs(
    tmp_path: Path, certificates: Certificates
) -> None:
    path = tmp_path / "tls.properties"
    path.write_text(
        "tls.test.mode.enable=false\n"
        "tls.server.mode=enforcing\n"
        f"tls.server.certPath={certificates.server.chain}\n"
        f"tls.server.keyPath={certificates.server.key}\n"
        "tls.server.keyPassword=\n"
        "tls.server.need.client.auth=REQUIRE\n"
        f"tls.server.trustCertPath={certificates.authority}\n"
        "tls.client.authServer=true\n",
        encoding="utf-8",
    )
    made = Tls.from_file(path)
    assert (made.mode, made.client_certificates) == ("enforcing", "require")
    context = made.make_context()
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_settings_that_make_no_server_are_refused(
    tmp_path: Path, certificates: Certificates
) -> None:
    server = certificates.server
    with pytest.raises(ConfigError, match="certificate"):
        Tls()
    with pytest.raises(ConfigError, match="trusted"):
        Tls(certificate=server.chain, key=server.key, client_certificates="require")
    with pytest.raises(ConfigError, match="mode"):
        Tls(certificate=server.chain, mode="sometimes")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"nowhere\.pem"):
        EmbeddedBroker(tls=Tls(certificate=tmp_path / "nowhere.pem"))
    with pytest.raises(ConfigError, match="a PEM chain and its key"):
        EmbeddedBroker(tls=Tls(certificate=server.chain, key=certificates.client.key))
    with pytest.raises(ConfigError, match=r"nowhere\.properties"):
        EmbeddedBroker(tls=tmp_path / "nowhere.properties")


@pytest.mark.parametrize("mode", [None, "permissive", "disabled"])
def test_required_certificates_are_refused_where_plain_connections_are_served(
    tmp_path: Path, certificates: Certificates, mode: str | None
) -> None:
    """A plain connection shows no certificate: the requirement would keep nobody out."""
    server = certificates.server
    given = {} if mode is None else {"mode": mode}
    with pytest.raises(ConfigError, match=r"tls mode.*enforcing"):
        Tls(
            certificate=server.chain,
            key=server.key,
            client_certificates="require",
            trusted=certificates.authority,
            **given,  # type: ignore[arg-type]
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    with pytest.raises(ConfigError, match=r"tls mode.*enforcing"):
        Tls(context=context, **given)  # type: ignore[arg-type]
    assert Tls(context=context, mode="enforcing").make_context() is context
    path = tmp_path / "tls.properties"
    path.write_text(
        f"tls.server.certPath={server.chain}\n"
        "tls.server.need.client.auth=require\n"
        f"tls.server.trustCertPath={certificates.authority}\n"
        + (f"tls.server.mode={mode}\n" if mode else ""),
        encoding="utf-8",
    )
    with pytest.raises(ConfigError, match=r"tls mode.*enforcing"):
        Tls.from_file(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("certificate", "c.pem"),
        ("key", "k.pem"),
        ("trusted", "ca.pem"),
        ("client_certificates", "optional"),
    ],
)
def test_nothing_beside_an_own_context_is_ignored(name: str, value: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(ConfigError, match=f"tls {name}"):
        Tls(context=context, **{name: value})  # type: ignore[arg-type]


def test_an_own_context_is_used_and_no_password_is_shown(certificates: Certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    assert Tls(context=context).make_context() is context
    told = repr(Tls(certificate="c.pem", key_password="hidden one"))
    assert "hidden one" not in told


def test_a_socket_that_only_opens_stays_a_plain_one(
    permissive: EmbeddedBroker, connect: Connect
) -> None:
    """A silent client has no deadline and no TLS; it may speak plainly later."""
    host, _, port = permissive.addr.rpartition(":")
    silent = socket.create_connection((host, int(port)), timeout=20)
    try:
        assert connect(permissive.addr).send("T").code == 0
        endpoint = permissive._parts().endpoint
        assert len(endpoint.connections) == 2
    finally:
        silent.close()

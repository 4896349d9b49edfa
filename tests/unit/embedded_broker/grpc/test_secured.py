from __future__ import annotations

import hmac
from hashlib import sha1

import grpc
import pytest

from embedded_broker import (
    AuthPolicy,
    AuthUser,
    BrokerStateError,
    EmbeddedBroker,
    Tls,
    UserAcl,
    VirtualClock,
)
from embedded_broker.grpc.auth import Metadata, SignedCall
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.rpc import Rpc
from tests.certificates import Certificates, needs_openssl
from tests.unit.embedded_broker.grpc.conftest import Open

AT = "20210309T195445Z"
SIGNED = "02555a11eb6b71499246519386f3f5204dfd0489"
SECRET = "secret"
USERS = UserAcl(
    users=(
        AuthUser(username="root", password=SECRET, superuser=True),
        AuthUser(username="reader", password=SECRET),
    ),
    policies=(AuthPolicy(username="reader", resources=["Topic:T", "Group:G"], actions=["Sub"]),),
)


def headers(user: str, secret: str = SECRET, at: str = AT) -> dict[str, str]:
    signature = hmac.new(secret.encode(), at.encode(), sha1).hexdigest()
    said = f"MQv2-HMAC-SHA1 Credential={user}//Rocketmq, SignedHeaders=x-mq-date-time, "
    return {"authorization": f"{said}Signature={signature}", "x_mq_date_time": at}


@pytest.mark.case("G4")
@pytest.mark.parametrize(
    ("signature", "good"),
    [(SIGNED, True), (SIGNED.upper(), True), (SIGNED[:-1] + "8", False), ("", False), ("ü", False)],
)
def test_a_call_is_signed_by_its_time(signature: str, good: bool) -> None:
    said = f"MQv2-HMAC-SHA1 Credential=ak//Rocketmq, Signature={signature}"
    claim = SignedCall("SendMessage", Metadata(date_time=AT, authorization=said))
    assert claim.account == "ak"
    assert claim.is_signed_with("secret") is good


def test_metadata_are_read_from_headers() -> None:
    read = Metadata.of([("x-mq-client-id", b"a"), ("x-mq-client-id", " b "), ("other", "c")])
    assert read == Metadata(client_id="b")
    assert SignedCall("X", read).account is None


@pytest.mark.case("G5")
def test_users_may_what_their_policies_say(open_client: Open) -> None:
    with EmbeddedBroker(
        grpc=True, clock=VirtualClock(), topics={"T": 1}, acl=USERS, tcp=False
    ) as broker:
        root = open_client(broker, **headers("root"))
        reader = open_client(broker, **headers("reader"))
        no_date = open_client(broker, authorization=headers("root")["authorization"])
        strangers = [
            open_client(broker),
            open_client(broker, **headers("root", "wrong")),
            open_client(broker, **headers("nobody")),
            no_date,
        ]
        for stranger in strangers:
            assert stranger.route("T").status.code == 40100
            assert stranger.send(stranger.message("T")).status.code == 40100
            assert stranger.receive("T", "G")[0].code == 40100
            command = stranger.stream()
            command.say_settings(1, topics=("T",))
            assert command.next().status.code == 40100
            assert command.next() is None
        assert root.send(root.message("T")).status.code == 20000
        assert reader.send(reader.message("T")).status.code == 40100
        (message,) = reader.receive_all("T", "G", 1)
        handle = message.system_properties.receipt_handle
        assert reader.ack("T", "Other", handle).status.code == 40100
        assert reader.ack("T", "G", handle).status.code == 20000


@pytest.mark.case("G6")
def test_without_access_control_nobody_looks_at_signatures(
    broker: EmbeddedBroker, open_client: Open, topic: str
) -> None:
    assert open_client(broker, **headers("", "wrong")).route(topic).status.code == 20000


@needs_openssl
@pytest.mark.case("G60", "G61")
def test_there_is_a_port_for_those_that_insist_on_tls(
    certificates: Certificates, open_client: Open
) -> None:
    server = certificates.server
    tls = Tls(certificate=server.chain, key=server.key)
    with EmbeddedBroker(
        grpc=True, grpc_tls=tls, clock=VirtualClock(), topics=["T"], tcp=False
    ) as broker:
        assert broker.tls_endpoints != broker.endpoints
        roots = grpc.ssl_channel_credentials(certificates.authority.read_bytes())
        client, plain = open_client(broker), open_client(broker)
        client.channel = grpc.secure_channel(broker.tls_endpoints, roots)
        assert client.route("T").status.code == 20000
        plain.channel = grpc.insecure_channel(broker.tls_endpoints)
        client.channel = grpc.secure_channel(broker.endpoints, roots)
        for wrong in (plain, client):
            with pytest.raises(grpc.RpcError) as raised:
                wrong.route("T")
            assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
        broker.restart()
        assert open_client(broker).route("T").status.code == 20000


@needs_openssl
@pytest.mark.case("G60")
def test_a_certificate_can_be_made_at_the_start(open_client: Open) -> None:
    with EmbeddedBroker(
        grpc=True, grpc_tls="self-signed", clock=VirtualClock(), topics=["T"], tcp=False
    ) as broker:
        shown = broker._arguments.grpc_tls
        assert shown is not None
        client = open_client(broker)
        roots = grpc.ssl_channel_credentials(shown.chain)
        client.channel = grpc.secure_channel(broker.tls_endpoints, roots)
        assert client.call(Rpc.QUERY_ROUTE, client.request(Rpc.QUERY_ROUTE)).status.code == 40002
        assert "PRIVATE" not in repr(shown)


def test_arguments_that_cannot_be_are_refused(certificates: Certificates) -> None:
    with pytest.raises(ConfigError, match="grpc = 'yes'"):
        EmbeddedBroker(grpc="yes")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="possible only with grpc=True"):
        EmbeddedBroker(grpc_tls="self-signed")
    with pytest.raises(ConfigError, match="grpc_tls"):
        EmbeddedBroker(grpc=True, grpc_tls=7)  # type: ignore[arg-type]
    server, trusted = certificates.server, certificates.authority
    asking = Tls(
        certificate=server.chain, key=server.key, client_certificates="optional", trusted=trusted
    )
    with pytest.raises(ConfigError, match="client_certificates none or require"):
        EmbeddedBroker(grpc=True, grpc_tls=asking)
    with (
        EmbeddedBroker(tcp=False) as broker,
        pytest.raises(BrokerStateError, match="pass grpc=True"),
    ):
        _ = broker.endpoints
    with pytest.raises(BrokerStateError, match="call start"):
        _ = EmbeddedBroker(grpc=True).endpoints
    with pytest.raises(BrokerStateError, match="pass grpc_tls"):
        _ = EmbeddedBroker(grpc=True).tls_endpoints

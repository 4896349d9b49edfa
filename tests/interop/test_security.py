"""Accounts and TLS: Java's client with our broker, our client with a real 5.3.3, both compared."""

from __future__ import annotations

import queue
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from embedded_broker import (
    AuthPolicy,
    AuthUser,
    EmbeddedBroker,
    PlainAccount,
    PlainAcl,
    Tls,
    UserAcl,
)
from embedded_broker.kit.jvm import Jvm, running
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    Credentials,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
    PermissionDeniedError,
    RotatingCredentials,
    TlsConfig,
)
from rocketmq_py.admin import AdminClient, Policy
from rocketmq_py.protocol import signing
from rocketmq_py.protocol.json_text import dumps, loads
from tests.certificates import Certificates
from tests.interop.java_tools import QUICK, compiled, jars
from tests.interop.real_broker import RealCluster, real_cluster
from tests.unit.embedded_broker.wire_peer import WirePeer, pull_fields, send_fields, topic_fields
from tests.unit.rocketmq_py.administration.acts_on_users import play_policies, play_users
from tests.waiting import HANG_S

TOPIC, GROUP, FORBIDDEN = "SecureTopic", "SecureGroup", "Forbidden"
SECRET = "12345678"

PLAIN = PlainAcl(
    accounts=[
        PlainAccount(
            access_key="java-client",
            secret_key=SECRET,
            topic_perms={TOPIC: "PUB|SUB"},
            group_perms={GROUP: "SUB"},
        )
    ]
)
USERS = UserAcl(
    users=[
        AuthUser(username="java-client", password=SECRET),
        AuthUser(username="root", password=SECRET, superuser=True),
    ],
    policies=[
        AuthPolicy(
            username="java-client",
            resources=[f"Topic:{TOPIC}", f"Group:{GROUP}"],
            actions=["Pub", "Sub", "Get"],
        )
    ],
)


@contextmanager
def java(*arguments: str, **properties: object) -> Iterator[Jvm]:
    """The unmodified 5.3.3 client, with properties of the JVM."""
    path = compiled("SecureExchange", jars("5.3.3", "rocketmq-client"))
    given = [f"-D{name.replace('_', '.')}={value}" for name, value in properties.items()]
    with running(
        ["-Xmx256m", *QUICK, *given, "-cp", path, "SecureExchange", *arguments]
    ) as program:
        yield program


def exchange(
    broker: EmbeddedBroker, key: str = "java-client", secret: str = SECRET, **properties: object
) -> Jvm:
    arguments = (broker.namesrv_addr, TOPIC, GROUP, "20", FORBIDDEN, key, secret)
    with java(*arguments, **properties) as program:
        assert program.finish(HANG_S) == 0, program.lines
    return program


def assert_exchanged(program: Jvm) -> None:
    sent = {row[0] for row in program.table("SENT")}
    received = [row[0] for row in program.table("RECEIVED")]
    assert len(sent) == 20
    assert sorted(received) == sorted(sent)


@pytest.mark.parametrize("acl", [PLAIN, USERS], ids=["ACL 1", "ACL 2"])
def test_java_signs_its_requests(acl: PlainAcl | UserAcl) -> None:
    with EmbeddedBroker(acl=acl, topics=[TOPIC, FORBIDDEN]) as broker:
        program = exchange(broker)
        assert_exchanged(program)
        ((code, words),) = program.table("DENIED")
        assert FORBIDDEN in words
        assert code == ("1" if acl is PLAIN else "16")

        wrong = exchange(broker, secret="another secret")
        ((_, words),) = wrong.table("REFUSED")
        assert "signature failed" in words.lower()
        nobody = exchange(broker, key="", secret="")
        assert nobody.table("REFUSED")
        assert not nobody.table("SENT")
        assert broker.topics[FORBIDDEN].count() == 0


@pytest.mark.parametrize("mode", ["permissive", "enforcing"])
def test_java_speaks_tls_and_checks_the_server(mode: Any, certificates: Certificates) -> None:
    tls = Tls(certificate=certificates.server.chain, key=certificates.server.key, mode=mode)
    with EmbeddedBroker(tls=tls, topics=[TOPIC, FORBIDDEN]) as broker:
        assert_exchanged(exchange(broker, tls_enable="true"))


def test_java_shows_its_certificate_and_reads_the_file_of_the_original(
    certificates: Certificates, tmp_path: Path
) -> None:
    """One `tls.properties` for both sides, as the original's guide has it."""
    client_key = tmp_path / "client.pkcs8"
    import subprocess

    subprocess.run(
        [
            "openssl",
            "pkcs8",
            "-topk8",
            "-nocrypt",
            "-in",
            certificates.client.key,
            "-out",
            client_key,
        ],
        check=True,
        timeout=60,
    )
    file = tmp_path / "tls.properties"
    file.write_text(
        "tls.test.mode.enable=false\n"
        "tls.server.mode=enforcing\n"
        "tls.server.need.client.auth=require\n"
        f"tls.server.certPath={certificates.server.chain}\n"
        f"tls.server.keyPath={certificates.server.key}\n"
        "tls.server.authClient=true\n"
        f"tls.server.trustCertPath={certificates.authority}\n"
        "tls.client.authServer=true\n"
        f"tls.client.trustCertPath={certificates.authority}\n"
        f"tls.client.certPath={certificates.client.chain}\n"
        f"tls.client.keyPath={client_key}\n",
        encoding="utf-8",
    )
    with EmbeddedBroker(acl=PLAIN, tls=file, topics=[TOPIC, FORBIDDEN]) as broker:
        program = exchange(broker, **{"tls.enable": "true", "tls.config.file": str(file)})
        assert_exchanged(program)
        assert program.table("DENIED")


# -- a real broker ------------------------------------------------------------------------------

_PACKAGE = "org.apache.rocketmq.auth"
REAL = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationProvider": f"{_PACKAGE}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": (
        f"{_PACKAGE}.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "authorizationProvider": f"{_PACKAGE}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": (
        f"{_PACKAGE}.authorization.provider.LocalAuthorizationMetadataProvider"
    ),
    "initAuthenticationUser": dumps({"username": "root", "password": SECRET}).decode(),
    "innerClientAuthenticationCredentials": dumps(
        {"accessKey": "inner", "secretKey": SECRET}
    ).decode(),
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """A real 5.3.3 with ACL 2."""
    with real_cluster(tmp_path_factory.mktemp("guarded"), settings=REAL) as cluster:
        yield cluster


class Signer:
    """Signed requests over one connection, whatever broker is there."""

    def __init__(self, address: str) -> None:
        self._peer = WirePeer(address)

    def ask(
        self, code: int, fields: dict[str, str], body: bytes = b"", *, key: str = "root"
    ) -> tuple[int, str | None, bytes]:
        signed = {**fields, signing.ACCESS_KEY: key}
        signed[signing.SIGNATURE] = signing.sign(SECRET, signed, body)
        answer = self._peer.ask(code, signed, body)
        return answer.code, answer.remark, answer.body

    def close(self) -> None:
        self._peer.close()


def policy(*entries: tuple[str, list[str], str], ips: Sequence[str] = ()) -> bytes:
    made = [
        {"resource": r, "actions": a, "sourceIps": list(ips), "decision": d} for r, a, d in entries
    ]
    return dumps({"subject": "User:alice", "policies": [{"entries": made}]})


ALICE = {"subject": "User:alice"}
CREATE = {"username": "alice"}
USER = dumps({"password": SECRET, "userType": "Normal"})
NORMAL = ("Topic:Open*", ["Pub", "Sub"], "Allow")
SCRIPT: list[tuple[str, int, dict[str, str], bytes, str]] = [
    ("an unknown user sends", 310, send_fields("OpenOne"), b"b", "alice"),
    ("no name", 3001, {}, USER, "root"),
    ("no password", 3001, CREATE, b"{}", "root"),
    ("a user", 3001, CREATE, USER, "root"),
    ("the same user", 3001, CREATE, USER, "root"),
    ("another type", 3002, {"username": "nobody"}, USER, "root"),
    ("no policy yet", 310, send_fields("OpenOne"), b"b", "alice"),
    ("no acl to delete", 3008, ALICE, b"", "root"),
    ("an empty acl", 3006, ALICE, b"{}", "root"),
    ("no entries", 3006, ALICE, dumps({"policies": [{}]}), "root"),
    ("Any", 3006, ALICE, policy(("Topic:T", ["Any"], "Allow")), "root"),
    ("no actions", 3006, ALICE, policy(("Topic:T", [], "Allow")), "root"),
    ("no decision", 3006, ALICE, policy(("Topic:T", ["Pub"], "?")), "root"),
    ("a bad source", 3006, ALICE, policy(NORMAL, ips=["10.1"]), "root"),
    ("a policy", 3006, ALICE, policy(NORMAL), "root"),
    ("may send", 310, send_fields("OpenOne"), b"b", "alice"),
    ("may not send", 310, send_fields("Closed"), b"b", "alice"),
    ("may not create", 17, topic_fields("OpenTwo"), b"", "alice"),
    ("may not consume as G", 11, pull_fields("OpenOne", consumerGroup="G"), b"", "alice"),
    ("a group", 3007, ALICE, policy(("Group:G", ["Sub"], "Allow")), "root"),
    ("retry topic", 310, send_fields("%RETRY%H", a="H"), b"b", "alice"),
    ("may not look", 208, {"consumerGroup": "G"}, b"", "alice"),
    ("may not see users", 3004, CREATE, b"", "alice"),
    ("from elsewhere", 3007, ALICE, policy(NORMAL, ips=["10.0.0.0/8"]), "root"),
    ("not from here", 310, send_fields("OpenOne"), b"b", "alice"),
    ("from here", 3007, ALICE, policy(NORMAL, ips=["127.0.0.0/8"]), "root"),
    ("may send again", 310, send_fields("OpenOne"), b"b", "alice"),
    ("denied", 3007, ALICE, policy(("Topic:Open*", ["Pub"], "Deny")), "root"),
    ("may not send any more", 310, send_fields("OpenOne"), b"b", "alice"),
    ("the user", 3004, CREATE, b"", "root"),
    ("the acl", 3009, ALICE, b"", "root"),
    ("acls about groups", 3010, {"resourceFilter": "Group"}, b"", "root"),
    ("one resource less", 3008, {**ALICE, "resource": "Group:G"}, b"", "root"),
    ("the acl then", 3009, ALICE, b"", "root"),
    ("disabled", 3002, CREATE, dumps({"userStatus": "disable"}), "root"),
    ("a disabled user sends", 310, send_fields("OpenOne"), b"b", "alice"),
    ("gone", 3003, CREATE, b"", "root"),
    ("a removed user sends", 310, send_fields("OpenOne"), b"b", "alice"),
    ("no acl of nobody", 3009, ALICE, b"", "root"),
]


def played(address: str) -> dict[str, tuple[int, str | None, Any]]:
    """The answers of a broker to the script."""
    signer, told = Signer(address), {}
    try:
        for topic in ("OpenOne", "Closed"):
            signer.ask(17, topic_fields(topic), key="root")
        for name, code, fields, body, key in SCRIPT:
            answer = signer.ask(code, fields, body, key=key)
            # Of a success it says nothing, and an exception has its place in Java behind it.
            remark = None if answer[0] == 0 else (answer[1] or "").partition(", org.apache")[0]
            content = loads(answer[2]) if answer[2] and code > 3000 else None
            told[name] = (answer[0], remark, content)
    finally:
        signer.close()
    return told


def without_nulls(value: Any) -> Any:
    """Java leaves out what is null, or has an empty list there."""
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one not in (None, [])}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def test_both_brokers_judge_alike(guarded: RealCluster) -> None:
    users = UserAcl(users=[AuthUser(username="root", password=SECRET, superuser=True)])
    with EmbeddedBroker(acl=users) as broker:
        ours = without_nulls(played(broker.addr))
    theirs = without_nulls(played(guarded.broker_addr))
    differ = {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}
    assert differ == {}


@pytest.mark.parametrize("play", [play_users, play_policies])
def test_an_administrator_changes_the_users_of_a_real_broker(
    guarded: RealCluster, play: Callable[[AdminClient], None]
) -> None:
    root = Credentials("root", SECRET)
    with AdminClient(namesrv_addr=guarded.namesrv_addr, credentials=root) as admin:
        play(admin)


class Inbox:
    """A listener that keeps what arrived."""

    def __init__(self) -> None:
        self.arrived: queue.Queue[bytes] = queue.Queue()

    def __call__(
        self, messages: list[MessageExt], _context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        for message in messages:
            self.arrived.put(message.body)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS


@pytest.mark.parametrize("use_tls", [False, True], ids=["plain", "tls"])
def test_our_client_signs_and_speaks_tls_with_a_real_broker(
    guarded: RealCluster, use_tls: bool
) -> None:
    """A real server makes its own certificate unless it is told otherwise: nobody can check it."""
    topic, name = f"Ours{use_tls}", f"ours-{use_tls}"
    with account_for(guarded.broker_addr, topic, name):
        send_and_receive(guarded.namesrv_addr, topic, name, use_tls=use_tls)


@contextmanager
def account_for(address: str, topic: str, name: str, *more: str) -> Iterator[None]:
    """An account that may use a topic and `more`; it is gone then, as other tests list all."""
    signer = Signer(address)
    try:
        assert signer.ask(17, topic_fields(topic))[0] == 0
        assert signer.ask(3001, {"username": name}, USER)[0] == 0
        entries = [
            {"resource": one, "actions": ["Pub", "Sub", "Get"], "decision": "Allow"}
            for one in (f"Topic:{topic}", "Group:Ours", *more)
        ]
        body = dumps({"policies": [{"entries": entries}]})
        assert signer.ask(3006, {"subject": f"User:{name}"}, body)[0] == 0
        yield
        assert signer.ask(3003, {"username": name})[0] == 0
    finally:
        signer.close()


def send_and_receive(namesrv_addr: str, topic: str, name: str, *, use_tls: bool) -> None:
    settings: dict[str, Any] = {
        "namesrv_addr": namesrv_addr,
        "credentials": Credentials(name, SECRET),
        "use_tls": use_tls,
        "tls_config": TlsConfig(verify=False) if use_tls else None,
    }
    inbox = Inbox()
    consumer = DefaultMQPushConsumer("Ours", **settings)
    consumer.consume_from_where = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    consumer.subscribe(topic, "*")
    consumer.register_message_listener(inbox)
    bodies = [b"%d" % one for one in range(50)] + [bytes(range(256)) * 8_000]
    with DefaultMQProducer("P", **settings) as producer, consumer:
        for one in bodies[:10]:
            producer.send(Message(topic, one))
        for future in [producer.send_async(Message(topic, one)) for one in bodies[10:]]:
            future.result(HANG_S)
        with pytest.raises(PermissionDeniedError, match="has no permission"):
            producer.send(Message("OursForbidden", b"no"))
        got = [inbox.arrived.get(timeout=HANG_S) for _ in bodies]
    assert sorted(got) == sorted(bodies)


@pytest.fixture(params=["embedded", "real"])
def judge(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name server of a broker with ACL 2, where root may do everything."""
    if request.param == "real":
        yield request.getfixturevalue("guarded").namesrv_addr
        return
    users = UserAcl(users=[AuthUser(username="root", password=SECRET, superuser=True)])
    with EmbeddedBroker(acl=users) as broker:
        yield broker.namesrv_addr


def test_a_program_of_a_namespace_goes_on_when_the_account_that_it_uses_is_replaced(
    judge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with an STS: each account ends while the program sends and receives with it."""
    monkeypatch.setattr("rocketmq_py.client.credentials.FETCH_EVERY_S", 0.0)
    accounts: list[str] = []
    fetched: list[str] = []

    def fetch() -> Credentials:
        fetched.append(accounts[-1])
        return Credentials(accounts[-1], SECRET)

    inbox = Inbox()
    root: dict[str, Any] = {"namesrv_addr": judge, "credentials": Credentials("root", SECRET)}
    settings = root | {"credentials": RotatingCredentials(fetch), "namespace": "shop"}
    with AdminClient(**root) as admin, AdminClient(namespace="shop", **root) as of_shop:

        def replace_account() -> None:
            name = f"rotated-{len(accounts)}"
            admin.create_user(name, SECRET)
            group = Policy("Group:shop%Rotators", ("Sub",))
            admin.put_policies(name, [Policy("Topic:shop%Rotated", ("Pub", "Sub")), group])
            accounts.append(name)
            for old in accounts[-2:-1]:
                admin.delete_user(old)

        of_shop.ensure_topic("Rotated", queues=1)
        replace_account()
        consumer = DefaultMQPushConsumer("Rotators", **settings)
        consumer.consume_from_where = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        consumer.subscribe("Rotated", "*")
        consumer.register_message_listener(inbox)
        with DefaultMQProducer("P", **settings) as producer, consumer:
            for body in (b"one", b"two", b"three"):
                producer.send(Message("Rotated", body))
                assert inbox.arrived.get(timeout=HANG_S) == body
                replace_account()
        assert list(dict.fromkeys(fetched))[:3] == accounts[:3]
        admin.delete_user(accounts[-1])


def test_a_real_server_answers_plain_and_tls_on_one_port(real: RealCluster) -> None:
    """What `permissive` means is told by the first byte, there as here."""
    import ssl

    host, _, port = real.broker_addr.rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((host, int(port)), timeout=HANG_S) as raw,
        context.wrap_socket(raw) as secure,
    ):
        assert secure.version() is not None
    with WirePeer(real.broker_addr) as plain:
        assert plain.ask(28).code == 0

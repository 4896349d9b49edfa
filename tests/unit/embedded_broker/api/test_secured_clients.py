"""The SDK's own clients with TLS and with accounts, under a broker that demands both."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from embedded_broker import EmbeddedBroker, PlainAccount, PlainAcl, Tls
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    Credentials,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
    PermissionDeniedError,
    RocketMQError,
    TlsConfig,
)
from rocketmq_py.errors import ConfigError
from tests.certificates import Certificates

GUARD_S = 30.0
SECRET = "12345678"
ACL = PlainAcl(
    accounts=[
        PlainAccount(access_key="producer", secret_key=SECRET, topic_perms={"T": "PUB"}),
        PlainAccount(
            access_key="consumer",
            secret_key=SECRET,
            topic_perms={"T": "SUB"},
            group_perms={"G": "SUB"},
        ),
    ]
)
BIG = bytes(range(256)) * 12_000
Start = Callable[..., EmbeddedBroker]


class Listener:
    """Keeps what came."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def __call__(
        self, messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        self.bodies += [message.body for message in messages]
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS


def secured(start: Start, certificates: Certificates, **more: object) -> EmbeddedBroker:
    tls = Tls(
        certificate=certificates.server.chain,
        key=certificates.server.key,
        mode="enforcing",
        **more,  # type: ignore[arg-type]
    )
    return start(tls=tls, topics=["T"])


def trusting(certificates: Certificates, **more: object) -> TlsConfig:
    return TlsConfig(ca_file=certificates.authority, **more)  # type: ignore[arg-type]


def test_messages_travel_by_tls_both_ways(start_broker: Start, certificates: Certificates) -> None:
    broker = secured(start_broker, certificates)
    listener, tls = Listener(), trusting(certificates)
    address = broker.namesrv_addr
    consumer = DefaultMQPushConsumer("G", namesrv_addr=address, use_tls=True, tls_config=tls)
    consumer.subscribe("T", "*")
    consumer.register_message_listener(listener)
    with (
        DefaultMQProducer("P", namesrv_addr=address, use_tls=True, tls_config=tls) as producer,
        consumer,
    ):
        for number in range(20):
            producer.send(Message("T", b"%d" % number))
        producer.send(Message("T", BIG))
        broker.wait_for(lambda _: len(listener.bodies) == 21, timeout=GUARD_S)
    assert sorted(listener.bodies) == sorted([*(b"%d" % one for one in range(20)), BIG])


def test_many_asynchronous_sends_and_many_threads_share_a_secure_connection(
    start_broker: Start, certificates: Certificates
) -> None:
    broker = secured(start_broker, certificates)
    with DefaultMQProducer(
        "P", namesrv_addr=broker.namesrv_addr, use_tls=True, tls_config=trusting(certificates)
    ) as producer:
        futures = [producer.send_async(Message("T", BIG[: 1 + 997 * n])) for n in range(300)]

        def send() -> None:
            for _ in range(30):
                producer.send(Message("T", b"one by one"))

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(GUARD_S)
        for future in futures:
            future.result(GUARD_S)
    assert broker.topics["T"].count() == 420


def test_a_server_that_nobody_knows_is_not_spoken_to(
    start_broker: Start, certificates: Certificates
) -> None:
    broker = secured(start_broker, certificates)

    def send(**settings: object) -> None:
        with DefaultMQProducer(
            "P",
            namesrv_addr=broker.namesrv_addr,
            send_msg_timeout=2000,
            retry_times_when_send_failed=0,
            **settings,  # type: ignore[arg-type]
        ) as producer:
            producer.send(Message("T", b"hello"))

    with pytest.raises(RocketMQError) as refused:
        send(use_tls=True)  # the authorities of this machine signed no such certificate
    assert "certificate" in str(refused.value).lower()
    assert "ca_file names the authorities" in str(refused.value)
    assert "address_mapper" not in str(refused.value)
    for plain in ({"transport": "tcp"}, {}):  # no plain connection is served, nor any way past it
        with pytest.raises(RocketMQError):
            send(**plain)
    send(use_tls=True, tls_config=TlsConfig(verify=False))
    assert broker.topics["T"].count() == 1


def test_enforced_tls_needs_tcp(certificates: Certificates) -> None:
    server = certificates.server
    tls = Tls(certificate=server.chain, key=server.key, mode="enforcing")
    with pytest.raises(ConfigError, match=r"tcp = False.*True, with enforced TLS"):
        EmbeddedBroker(tls=tls, tcp=False)


def test_the_name_in_the_certificate_counts(
    start_broker: Start, certificates: Certificates
) -> None:
    elsewhere = certificates.elsewhere
    broker = start_broker(tls=Tls(certificate=elsewhere.chain, key=elsewhere.key), topics=["T"])

    def sent(**how: object) -> bool:
        try:
            with DefaultMQProducer(
                "P",
                namesrv_addr=broker.namesrv_addr,
                use_tls=True,
                tls_config=trusting(certificates, **how),
                send_msg_timeout=2000,
                retry_times_when_send_failed=0,
            ) as producer:
                producer.send(Message("T", b"hello"))
        except RocketMQError as error:
            assert "check_hostname=False takes" in str(error)  # noqa: PT017 - it may be sent, too
            return False
        return True

    assert not sent()
    assert sent(check_hostname=False)


def test_a_client_shows_its_certificate(start_broker: Start, certificates: Certificates) -> None:
    broker = secured(
        start_broker,
        certificates,
        client_certificates="require",
        trusted=certificates.authority,
    )
    own = trusting(
        certificates, cert_file=certificates.client.chain, key_file=certificates.client.key
    )
    with DefaultMQProducer(
        "P", namesrv_addr=broker.namesrv_addr, use_tls=True, tls_config=own
    ) as producer:
        producer.send(Message("T", b"hello"))
    assert broker.topics["T"].count() == 1

    with (
        pytest.raises(RocketMQError),
        DefaultMQProducer(
            "P",
            namesrv_addr=broker.namesrv_addr,
            use_tls=True,
            tls_config=trusting(certificates),
            send_msg_timeout=2000,
            retry_times_when_send_failed=0,
        ) as producer,
    ):
        producer.send(Message("T", b"hello"))


def test_settings_that_cannot_be_are_refused_at_the_start(
    start_broker: Start, certificates: Certificates
) -> None:
    broker = start_broker(tcp=True)
    own = TlsConfig(ca_file="nowhere.pem")
    with pytest.raises(ConfigError, match=r"nowhere\.pem"):
        DefaultMQProducer(
            "P", namesrv_addr=broker.namesrv_addr, use_tls=True, tls_config=own
        ).start()
    with pytest.raises(ConfigError, match="use_tls"):
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr, tls_config=own).start()
    assert "hidden one" not in repr(TlsConfig(key_password="hidden one"))


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_accounts_are_asked_for_in_one_process_as_over_tcp(
    start_broker: Start, transport: str
) -> None:
    broker = start_broker(acl=ACL, topics=["T", "U"])
    listener, address = Listener(), broker.namesrv_addr
    consumer = DefaultMQPushConsumer(
        "G",
        namesrv_addr=address,
        credentials=Credentials("consumer", SECRET),
        transport=transport,  # type: ignore[arg-type]
    )
    consumer.subscribe("T", "*")
    consumer.register_message_listener(listener)
    with (
        DefaultMQProducer(
            "P",
            namesrv_addr=address,
            credentials=Credentials("producer", SECRET),
            transport=transport,  # type: ignore[arg-type]
        ) as producer,
        consumer,
    ):
        producer.send(Message("T", b"signed"))
        futures = [producer.send_async(Message("T", b"signed")) for _ in range(50)]
        for future in futures:
            future.result(GUARD_S)
        with pytest.raises(PermissionDeniedError, match="No default permission for topic:U"):
            producer.send(Message("U", b"not allowed"))
        broker.wait_for(lambda _: len(listener.bodies) == 51, timeout=GUARD_S)
    assert broker.topics["U"].count() == 0


@pytest.mark.case("T63")
@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_nobody_sends_without_an_account(start_broker: Start, transport: str) -> None:
    broker = start_broker(acl=ACL, topics=["T"])
    for credentials in (None, Credentials("producer", "wrong secret")):
        with (
            pytest.raises(PermissionDeniedError, match="AclException"),
            DefaultMQProducer(
                "P",
                namesrv_addr=broker.namesrv_addr,
                credentials=credentials,
                transport=transport,  # type: ignore[arg-type]
            ) as producer,
        ):
            producer.send(Message("T", b"hello"))
    assert broker.topics["T"].count() == 0

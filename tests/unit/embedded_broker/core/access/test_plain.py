"""ACL 1: who signs as a plain account may do what its permissions say, nobody else anything."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping

import pytest

from embedded_broker import EmbeddedBroker, PlainAccount, PlainAcl
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import FLAG_ONEWAY, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder
from tests.unit.embedded_broker.core.access.signed import (
    ALL_FORMS,
    SECRET,
    Waiting,
    ask,
    everything,
    signed,
)
from tests.unit.embedded_broker.wire_peer import pull_fields, send_fields

EXCEPTION = "org.apache.rocketmq.acl.common.AclException: "


def account(key: str, **more: object) -> PlainAccount:
    return PlainAccount(access_key=key, secret_key=SECRET, **more)  # type: ignore[arg-type]


ACL = PlainAcl(
    accounts=[
        account("administrator", admin=True),
        account("producer", topic_perms={"T": "PUB"}),
        account("consumer", topic_perms={"T": "SUB", "Used": "SUB"}, group_perms={"G": "SUB"}),
        account("nothing", topic_perms={"T": "DENY"}),
        account("at-home", white_remote_address="10.7.7.*"),
        account("limited-admin", admin=True, topic_perms={"T": "SUB"}),
    ],
    global_white_remote_addresses=["192.168.1.*"],
)


@pytest.fixture
def broker(start_broker: Callable[..., EmbeddedBroker]) -> EmbeddedBroker:
    return start_broker(acl=ACL, tcp=False, topics=["T", "Used"])


def refusal(broker: EmbeddedBroker, code: int, *given: object, **more: object) -> str | None:
    """The words of a refusal of access control; None when the request passes."""
    answer = ask(broker, code, *given, **more)  # type: ignore[arg-type]
    remark = answer.remark or ""
    if remark.startswith(EXCEPTION):
        assert answer.code == ResponseCode.SYSTEM_ERROR
        return remark.removeprefix(EXCEPTION)
    return None


@pytest.mark.case("W98")
@pytest.mark.parametrize(
    ("key", "secret", "told"),
    [
        (None, SECRET, "No accessKey is configured"),
        ("stranger", SECRET, "No acl config for stranger"),
        ("producer", "wrong secret", "Check signature failed for accessKey=producer"),
    ],
)
@pytest.mark.parametrize("code", [310, 11, 17, 28])
def test_a_request_that_nobody_has_signed_is_refused_in_the_words_of_the_original(
    broker: EmbeddedBroker, code: int, key: str | None, secret: str, told: str
) -> None:
    assert refusal(broker, code, key=key, secret=secret) == told


@pytest.mark.case("W98")
def test_administration_needs_an_admin(broker: EmbeddedBroker) -> None:
    told = "Need admin permission for request code=17, but accessKey=producer is not"
    assert refusal(broker, 17, key="producer") == told
    assert ask(broker, 17, key="administrator").code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("key", "topic", "told"),
    [
        ("producer", "T", None),
        ("producer", "Used", "No default permission for topic:Used"),
        ("consumer", "T", "No default permission for topic:T"),
        ("nothing", "T", "No default permission for topic:T"),
        ("administrator", "T", None),
        ("limited-admin", "T", "No default permission for topic:T"),
        ("consumer", "%RETRY%G", None),
        ("producer", "%RETRY%G", "No default permission for group:G"),
        ("producer", "RMQ_SYS_TRACE_TOPIC", None),
    ],
)
@pytest.mark.parametrize("code", [310, 320])
def test_sends_need_pub_and_those_to_a_retry_topic_sub(
    broker: EmbeddedBroker, code: int, key: str, topic: str, told: str | None
) -> None:
    fields = send_fields(topic, m="true" if code == 320 else "false")
    assert refusal(broker, code, fields, b"body", key=key) == told


def test_a_pull_needs_the_topic_and_the_group(broker: EmbeddedBroker) -> None:
    def told(key: str, topic: str, group: str) -> str | None:
        fields = pull_fields(topic, consumerGroup=group)
        return refusal(broker, RequestCode.PULL_MESSAGE, fields, key=key)

    assert told("consumer", "T", "G") is None
    assert told("consumer", "%RETRY%G", "G") is None
    assert told("consumer", "T", "H") == "No default permission for group:H"
    assert told("consumer", "Other", "G") == "No default permission for topic:Other"
    assert told("producer", "T", "G") == "No default permission for topic:T"


def test_a_heartbeat_is_about_every_group_and_topic_in_it(broker: EmbeddedBroker) -> None:
    def told(group: str, topic: str) -> str | None:
        data = {"groupName": group, "subscriptionDataSet": [{"topic": topic, "subString": "*"}]}
        body = json.dumps({"clientID": "c", "consumerDataSet": [data]}).encode()
        return refusal(broker, RequestCode.HEART_BEAT, {}, body, key="consumer")

    assert told("G", "T") is None
    assert told("H", "T") == "No default permission for group:H"
    assert told("G", "Other") == "No default permission for topic:Other"


def test_addresses_on_a_white_list_need_no_signature(broker: EmbeddedBroker) -> None:
    assert refusal(broker, 310, host="192.168.1.77") is None
    assert refusal(broker, 310, host="192.168.2.77") == "No accessKey is configured"
    assert refusal(broker, 310, key="at-home", secret="wrong one", host="10.7.7.7") is None
    assert refusal(broker, 310, key="at-home", secret="wrong one") is not None


def test_what_was_signed_is_the_whole_request(broker: EmbeddedBroker) -> None:
    signed = ask(broker, 310, send_fields("T"), b"body", key="producer")
    assert signed.code == ResponseCode.SUCCESS
    before = broker.topics["T"].count()
    fields = {**send_fields("T"), "AccessKey": "producer", "Signature": "bm90aGluZw=="}
    assert refusal(broker, 310, fields, b"body") == "Check signature failed for accessKey=producer"
    assert broker.topics["T"].count() == before


@pytest.mark.parametrize("field", ["g", "i", "j", "b", "e"])
def test_a_signature_of_one_send_is_worth_nothing_for_another(
    broker: EmbeddedBroker, field: str
) -> None:
    """Also when so many of them came before that their headers are known by heart."""
    claims = [
        signed(send_fields("T", i=f"UNIQ_KEY\x01A{number}\x02"), b"body", "producer")
        for number in range(4)
    ]
    for claim in claims:
        assert refusal(broker, 310, claim, b"body") is None
    other = {"g": "1700000000999", "i": "UNIQ_KEY\x01B\x02", "j": "1", "b": "Used", "e": "1"}
    told = "Check signature failed for accessKey=producer"
    for claim in claims:
        assert refusal(broker, 310, {**claim, field: other[field]}, b"body") == told
        assert refusal(broker, 310, claim, b"another body") == told


def test_a_number_where_text_should_be_is_signed_as_text(broker: EmbeddedBroker) -> None:
    from embedded_broker.remoting.requests import Connection
    from rocketmq_py.protocol.frame import FrameDecoder, encode_frame
    from tests.unit.embedded_broker import peers

    ext: Mapping[str, object] = signed(send_fields("T"), b"body", "producer") | {"e": 0}
    header = {"code": 310, "flag": 0, "opaque": 3, "version": 479, "extFields": ext}
    peer: Connection = peers.Peer("10.1.2.3")
    text = json.dumps(header, separators=(",", ":")).encode()
    broker._parts().endpoint.receive(peer, FrameDecoder().feed(encode_frame(0, text, b"body")))
    assert peer.answers[0].code in {ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR}  # type: ignore[attr-defined]
    assert not peer.closed


# -- the walk over all requests ---------------------------------------------------------------


@pytest.fixture(params=["rocketmq-4.9", "rocketmq-5.x"])
def every_request(
    request: pytest.FixtureRequest, start_broker: Callable[..., EmbeddedBroker]
) -> EmbeddedBroker:
    """A broker with the requests of each version."""
    return start_broker(acl=ACL, tcp=False, topics=["T", "Used"], profile=request.param)


def test_an_account_that_may_do_nothing_gets_nothing(every_request: EmbeddedBroker) -> None:
    broker = every_request
    before = everything(broker)
    passed = {}
    for code in sorted(broker._parts().endpoint.handlers):
        for fields, body in ((ALL_FORMS[code].fields, ALL_FORMS[code].body), ({}, b"")):
            told = refusal(broker, code, fields, body, key="nothing")
            if told is None:
                passed[code] = (fields, body)
    assert passed == {}
    assert everything(broker) == before


@pytest.mark.parametrize("serialize_type", [0, 1])
def test_an_account_that_may_do_nothing_changes_nothing_where_nobody_answers(
    every_request: EmbeddedBroker, serialize_type: int
) -> None:
    """One-way requests of every code, with both kinds of headers, in one piece."""
    broker, peer = every_request, Waiting("10.1.2.3")
    before = everything(broker)
    requests = b""
    for code in sorted(broker._parts().endpoint.handlers):
        form = ALL_FORMS[code]
        fields = signed(form.fields, form.body, "nothing")
        command = RemotingCommand(code, flag=FLAG_ONEWAY, ext_fields=fields, body=form.body)
        command.serialize_type = serialize_type if code < 1 << 15 else 0
        requests += command.encode()
    broker._parts().endpoint.receive(peer, FrameDecoder().feed(requests))
    assert everything(broker) == before
    assert peer.answers == []
    assert not peer.closed


def test_nobody_gets_anything_without_an_account(every_request: EmbeddedBroker) -> None:
    broker = every_request
    told = {refusal(broker, code) for code in broker._parts().endpoint.handlers}
    assert told == {"No accessKey is configured"}


def test_an_admin_gets_everything(every_request: EmbeddedBroker) -> None:
    broker = every_request
    for code in broker._parts().endpoint.handlers:
        assert refusal(broker, code, key="administrator") is None


# -- where the accounts come from -------------------------------------------------------------


def test_access_control_needs_accounts() -> None:
    with pytest.raises(ConfigError, match="plainAclFile"):
        EmbeddedBroker(config={"aclEnable": True})
    with pytest.raises(ConfigError, match="acl="):
        EmbeddedBroker(config={"aclEnable": False}, acl=ACL)


def test_no_secret_is_in_the_journal(broker: EmbeddedBroker) -> None:
    ask(broker, 310, key="producer")
    ask(broker, 310, key="producer", secret="another secret")
    told = broker.journal.dump() + repr(broker.journal.requests())
    assert "Signature" not in told
    assert SECRET not in told


def test_no_secret_is_in_a_log_line_or_in_the_words_of_an_answer(
    start_broker: Callable[..., EmbeddedBroker], caplog: pytest.LogCaptureFixture
) -> None:
    """Requests of every code: as they are meant, and with nothing that they need."""
    own, given = "own-secret-of-an-account", "secret-that-somebody-sends"
    admin = PlainAccount(access_key="administrator", secret_key=own, admin=True)
    user = f'{{"username":"somebody","password":"{given}"}}'
    told = []
    for profile in ("rocketmq-4.9", "rocketmq-5.x"):
        broker = start_broker(acl=PlainAcl(accounts=[admin]), tcp=False, profile=profile)
        with caplog.at_level(logging.DEBUG):
            for code, form in ALL_FORMS.items():
                named = {"accessKey": "somebody", "secretKey": given}
                bodies = [form.body]
                if code in {RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER}:
                    bodies = [user.encode(), user[:-1].encode()]
                if code == RequestCode.UPDATE_BROKER_CONFIG:
                    bodies = [f"initAuthenticationUser={user}\nnonsense=1".encode()]
                for fields in (form.fields | named, named):
                    for body in bodies:
                        for secret in (own, given):
                            answer = ask(
                                broker, code, fields, body, key="administrator", secret=secret
                            )
                            told.append(answer.remark or "")
        told.append(broker.journal.dump())
    told.append(caplog.text)
    assert sum(map(bool, told)) > len(told) // 2
    for secret in (own, given):
        assert [text for text in told if secret in text] == []

from __future__ import annotations

from pathlib import Path

import pytest

from compat.ons import Message, ONSChannel, ONSClientException, ONSFactory, Properties
from compat.ons.access import Access, pair_of
from embedded_broker import EmbeddedBroker, PlainAccount, PlainAcl
from rocketmq_py import Credentials
from rocketmq_py.protocol.codes import RequestCode

KEYS = {"AccessKey": "id", "SecretKey": "hidden"}
FIRST, SECOND = Credentials("id", "hidden"), Credentials("other", "hidden")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_keys_are_optional_and_never_shown() -> None:
    assert Access.of({}).keys is None
    access = Access.of(KEYS)
    assert access.keys is not None
    assert access.keys() == FIRST
    assert "hidden" not in repr(access)
    assert pair_of(KEYS | {"SecurityToken": "t"}) == Credentials("id", "hidden", "t")


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"AccessKey": "id"}, "SecretKey"),
        ({"SecretKey": "hidden"}, "AccessKey"),
        ({"SecurityToken": "t"}, "AccessKey"),
    ],
)
def test_half_a_pair_of_keys_is_refused(given: dict[str, str], missing: str) -> None:
    with pytest.raises(ONSClientException, match=f"property {missing} is not set"):
        ONSFactory.create_producer(given)


@pytest.mark.parametrize(
    ("given", "channel", "trace"),
    [
        ({}, ONSChannel.LOCAL, "LOCAL"),
        (KEYS | {"NAMESRV_ADDR": "127.0.0.1:9876"}, ONSChannel.LOCAL, "LOCAL"),
        (KEYS | {"NAMESRV_ADDR": "http://MQ_INST_1_x.mq.example:80"}, ONSChannel.ALIYUN, "CLOUD"),
        (KEYS | {"OnsChannel": "ALIYUN"}, ONSChannel.ALIYUN, "CLOUD"),
        ({"OnsChannel": "CLOUD"}, ONSChannel.CLOUD, "CLOUD"),
        (
            {"OnsChannel": "LOCAL", "NAMESRV_ADDR": "http://MQ_INST_1_x.mq.example:80"},
            ONSChannel.LOCAL,
            "LOCAL",
        ),
    ],
)
def test_the_channel_is_aliyuns_for_its_addresses_and_local_for_others(
    given: dict[str, str], channel: ONSChannel, trace: str
) -> None:
    access = Access.of(given)
    assert (access.channel, access.trace_channel) == (channel, trace)


@pytest.mark.parametrize(
    "given", [{"OnsChannel": "ALIYUN"}, {"NAMESRV_ADDR": "http://MQ_INST_1_x.mq.example:80"}]
)
def test_aliyuns_channel_needs_keys(given: dict[str, str]) -> None:
    with pytest.raises(ONSClientException, match=r"AccessKey is not set.*OnsChannel to LOCAL"):
        ONSFactory.create_producer(given)


def test_a_channel_that_there_is_not_is_refused() -> None:
    with pytest.raises(ONSClientException, match="OnsChannel = 'MOON' must be one of ALIYUN"):
        Access.of({"OnsChannel": "MOON"})


def test_the_key_file_of_the_home_counts_where_no_key_is_set(home: Path) -> None:
    (home / "onskey").write_text("AccessKey=id\nSecretKey=hidden\n", encoding="utf-8")
    access = Access.of({"OnsChannel": "ALIYUN"})
    assert access.keys is not None
    assert access.keys() == FIRST
    assert not access.keys.renew(FIRST)
    other = Access.of({"AccessKey": "other", "SecretKey": "hidden"})
    assert other.keys is not None
    assert other.keys() == SECOND


def test_keys_are_replaced_for_every_later_request() -> None:
    access = Access.of(KEYS)
    assert access.keys is not None
    assert not access.keys.renew(FIRST)
    access.update({"AccessKey": "other", "SecretKey": "hidden", "OnsChannel": "LOCAL"})
    assert access.keys() == SECOND
    assert access.keys.renew(FIRST)
    with pytest.raises(ONSClientException, match="only keys can be replaced"):
        access.update(KEYS | {"OnsChannel": "CLOUD"})
    assert access.keys() == SECOND


def test_the_channel_is_a_field_of_each_request_that_the_signature_covers() -> None:
    account = PlainAccount(access_key="id-of-shop", secret_key="hidden-secret", admin=True)
    with EmbeddedBroker(tcp=False, topics=["T"], acl=PlainAcl(accounts=[account])) as broker:
        properties = Properties({"NAMESRV_ADDR": broker.namesrv_addr, "OnsChannel": "ALIYUN"})
        properties.update({"AccessKey": "id-of-shop", "SecretKey": "hidden-secret"})
        with ONSFactory.create_producer(properties) as producer:
            producer.send(Message("T", "TagA", b"x"))
        (sent,) = broker.journal.requests(code=RequestCode.SEND_MESSAGE_V2, topic="T")
        assert (sent.response_code, sent.fields["OnsChannel"]) == (0, "ALIYUN")
        properties.put("SecretKey", "wrong-secret")
        with (
            ONSFactory.create_producer(properties) as stranger,
            pytest.raises(ONSClientException),
        ):
            stranger.send(Message("T", "TagA", b"x"))

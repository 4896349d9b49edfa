"""A source of credentials is asked for others when a server refuses what they signed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import Credentials, PermissionDeniedError, QueueAccess
from rocketmq_py.protocol.codes import RequestCode, ResponseCode


class Source:
    """Gives its first credentials until it is told that they were refused."""

    def __init__(self, *keys: str) -> None:
        self.left = [Credentials(key, "secret") for key in keys]
        self.used: list[str] = []
        self.refused: list[str] = []

    def __call__(self) -> Credentials:
        self.used.append(self.left[0].access_key)
        return self.left[0]

    def renew(self, refused: Credentials) -> bool:
        self.refused.append(refused.access_key)
        if refused.access_key == "broken":
            raise OSError("no file")
        if len(self.left) == 1:
            return False
        del self.left[0]
        return True


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=["T"]) as started:
        yield started


def asked(broker: EmbeddedBroker, code: RequestCode) -> int:
    return len(broker.journal.requests(code=code))


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_a_refused_call_is_made_once_more_with_other_credentials(
    broker: EmbeddedBroker, transport: Literal["auto", "tcp"]
) -> None:
    source = Source("old", "new")
    with QueueAccess(
        namesrv_addr=broker.namesrv_addr, credentials=source, transport=transport
    ) as access:
        (queue, *_) = access.read_queues("T")
        acl = "org.apache.rocketmq.acl.common.AclException: Check signature failed"
        broker.faults.on(RequestCode.PULL_MESSAGE).respond(ResponseCode.SYSTEM_ERROR, acl)
        assert access.pull(queue, 0).result(5).code == ResponseCode.PULL_NOT_FOUND
    assert (asked(broker, RequestCode.PULL_MESSAGE), source.used[-2:]) == (2, ["old", "new"])
    assert source.refused == ["old"]


def test_blocking_calls_are_made_once_more_too(broker: EmbeddedBroker) -> None:
    source = Source("old", "new")
    with QueueAccess(namesrv_addr=broker.namesrv_addr, credentials=source) as access:
        refused = broker.faults.on(RequestCode.GET_TOPIC_STATS_INFO)
        refused.respond(ResponseCode.NO_PERMISSION)
        assert len(access.bounds("T")) > 0
    assert source.used[-2:] == ["old", "new"]
    assert asked(broker, RequestCode.GET_TOPIC_STATS_INFO) == 2


@pytest.mark.parametrize("keys", [["only"], ["broken", "new"]])
def test_the_refusal_stands_when_there_are_no_others(
    broker: EmbeddedBroker, keys: list[str]
) -> None:
    with QueueAccess(namesrv_addr=broker.namesrv_addr, credentials=Source(*keys)) as access:
        (queue, *_) = access.read_queues("T")
        for code in (RequestCode.PULL_MESSAGE, RequestCode.GET_TOPIC_STATS_INFO):
            broker.faults.on(code).respond(ResponseCode.NO_PERMISSION).always()
        with pytest.raises(PermissionDeniedError):
            access.pull(queue, 0).result(5)
        with pytest.raises(PermissionDeniedError):
            access.bounds("T")
    assert asked(broker, RequestCode.PULL_MESSAGE) == 1
    assert asked(broker, RequestCode.GET_TOPIC_STATS_INFO) == 1


def test_one_more_call_is_all_there_is(broker: EmbeddedBroker) -> None:
    source = Source("first", "second", "third")
    with QueueAccess(namesrv_addr=broker.namesrv_addr, credentials=source) as access:
        (queue, *_) = access.read_queues("T")
        broker.faults.on(RequestCode.PULL_MESSAGE).respond(ResponseCode.NO_PERMISSION).always()
        with pytest.raises(PermissionDeniedError):
            access.pull(queue, 0).result(5)
    assert (asked(broker, RequestCode.PULL_MESSAGE), source.refused) == (2, ["first"])


def test_other_answers_ask_for_no_credentials(broker: EmbeddedBroker) -> None:
    source = Source("old", "new")
    with QueueAccess(namesrv_addr=broker.namesrv_addr, credentials=source) as access:
        (queue, *_) = access.read_queues("T")
        access.pull(queue, 0).result(5)  # 19: nothing there
    assert source.refused == []

"""What every request has in common, seen from a socket: unknown codes, oneway, responses."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.codes import FLAG_ONEWAY, FLAG_RESPONSE, RequestCode
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer


@pytest.mark.case("W8")
def test_an_unknown_code_is_answered_3_with_the_number(peer: WirePeer) -> None:
    opaque = peer.post(9999)
    answer = peer.answer(opaque)
    assert (answer.code, answer.remark) == (3, " request type 9999 not supported")
    assert answer.opaque == opaque


@pytest.mark.case("W9")
@pytest.mark.parametrize("code", [9999, RequestCode.PULL_MESSAGE])
def test_nothing_comes_back_for_a_oneway_request_not_even_an_error(
    peer: WirePeer, code: int
) -> None:
    opaque = peer.post(code, flag=FLAG_ONEWAY)
    assert not peer.has_answer(opaque)
    assert peer.send("T").code == 0


@pytest.mark.case("W10")
def test_a_request_that_says_it_is_a_response_is_not_answered(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    asking = connect(broker.namesrv_addr)
    fields = {"topic": "TBW102"}
    ignored = asking.post(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields, flag=FLAG_RESPONSE)
    answered = asking.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
    assert answered.code == 0
    assert ignored not in asking._answers


@pytest.mark.parametrize("code", [13, 39, 1001, 200056])
def test_requests_that_are_not_built_are_answered_3(peer: WirePeer, code: int) -> None:
    assert peer.ask(code).code == 3


def test_a_4_9_broker_does_not_know_recall(start_broker: StartBroker, connect: Connect) -> None:
    peer = connect(start_broker(profile="rocketmq-4.9").addr)
    assert peer.ask(RequestCode.RECALL_MESSAGE).code == 3

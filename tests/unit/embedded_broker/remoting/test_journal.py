"""The journal: bounded, filtered, without secrets."""

from collections.abc import Callable

import pytest

from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.remoting.journal import ENTRIES_MAX, Exchange, Journal
from embedded_broker.remoting.requests import Request
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame
from tests.unit.embedded_broker.peers import Peer

Cut = Callable[..., list[Frame]]


@pytest.fixture
def parts(make_parts: Callable[..., BrokerParts]) -> BrokerParts:
    parts = make_parts()
    for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE, RequestCode.HEART_BEAT):
        parts.endpoint.register(code, answer)
    return parts


def answer(request: Request) -> RemotingCommand:
    return request.command.answer(ResponseCode.SUCCESS)


def test_entries_are_kept_in_order_and_found_by_every_filter(
    parts: BrokerParts, caller: Peer, cut: Cut
) -> None:
    caller.client_id = "10.0.0.1@shop"
    parts.endpoint.receive(
        caller,
        cut(
            RemotingCommand(310, ext_fields={"a": "PG", "b": "T"}, body=b"secret body"),
            RemotingCommand(11, ext_fields={"consumerGroup": "G", "topic": "T"}),
            RemotingCommand(11, ext_fields={"consumerGroup": "G2", "topic": "T2"}),
        ),
    )
    journal = parts.journal

    assert [entry.code for entry in journal.requests()] == [310, 11, 11]
    assert [entry.body_size for entry in journal.requests(code=310)] == [11]
    assert len(journal.requests(topic="T")) == 2
    assert [entry.topic for entry in journal.requests(group="G2")] == ["T2"]
    assert [entry.group for entry in journal.requests(code=11, topic="T")] == ["G"]
    assert len(journal.requests(client="10.0.0.1@")) == 3
    assert journal.requests(client="somebody else") == []


def test_an_entry_says_how_the_request_ended(parts: BrokerParts, caller: Peer, cut: Cut) -> None:
    parts.endpoint.receive(
        caller, cut(RemotingCommand(310), RemotingCommand(9999), RemotingCommand(34, flag=2))
    )

    first, unknown, oneway = parts.journal.requests()

    assert (first.response_code, first.remark) == (0, None)
    assert first.micros is not None
    assert unknown.response_code == 3
    assert oneway.oneway
    assert first.endpoint == "broker-a"
    assert first.language == "PYTHON"


def test_secrets_and_bodies_are_never_shown(parts: BrokerParts, caller: Peer, cut: Cut) -> None:
    fields = {"AccessKey": "key!", "Signature": "sig!", "SecurityToken": "tok!", "b": "T"}
    parts.endpoint.receive(caller, cut(RemotingCommand(310, ext_fields=fields, body=b"body!")))

    shown = parts.journal.dump() + repr(parts.journal.requests())

    assert parts.journal.requests()[0].fields == {"b": "T"}
    for secret in ("key!", "sig!", "tok!", "body!"):
        assert secret not in shown


def test_the_dump_is_one_line_per_entry_with_names(
    parts: BrokerParts, caller: Peer, cut: Cut
) -> None:
    parts.endpoint.receive(
        caller, cut(RemotingCommand(310, ext_fields={"b": "x" * 200}), RemotingCommand(9999))
    )
    with parts.door:
        parts.endpoint.push(
            caller, RemotingCommand(code=40, ext_fields={"consumerGroup": "G"}, flag=2)
        )

    first, second, third = parts.journal.dump().splitlines()

    assert "-> 310 SEND_MESSAGE_V2 [b=xxxx" in first
    assert "…] = 0 SUCCESS" in first
    assert "-> 9999 9999 [] = 3 REQUEST_CODE_NOT_SUPPORTED ( request type" in second
    assert "<- 40 NOTIFY_CONSUMER_IDS_CHANGED [consumerGroup=G] = pushed" in third
    assert parts.journal.dump(last=1) == third


def test_a_long_header_is_kept_shortened(parts: BrokerParts, caller: Peer, cut: Cut) -> None:
    parts.endpoint.receive(
        caller, cut(RemotingCommand(310, ext_fields={"b": "T", "i": "p" * 30_000}))
    )

    entry = parts.journal.requests()[0]

    assert entry.topic == "T"
    assert len(entry.fields["i"]) == 256


def test_the_ring_keeps_the_newest_entries_only(caller: Peer) -> None:
    journal = Journal()
    header = b'{"code":11}'
    for number in range(ENTRIES_MAX + 5):
        journal.append(Exchange("b", caller, 0, header, number, 0, 0))

    assert len(journal) == ENTRIES_MAX
    assert journal.requests()[0].body_size == 5
    journal.clear()
    assert journal.requests() == []

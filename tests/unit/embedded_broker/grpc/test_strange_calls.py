"""Bytes and values that no client should send: each ends with a status or an error of gRPC."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedded_broker import EmbeddedBroker
from embedded_broker.grpc.schema import CALLS
from rocketmq_py.protocol.rpc import SERVICE, Rpc
from tests.unit.embedded_broker.grpc.conftest import Open
from tests.unit.embedded_broker.grpc.raw_client import RawClient

UNARY = [rpc for rpc in Rpc if not CALLS[rpc].streams_in]
WORDS = st.sampled_from(
    ["", " ", "T", "G", "a b", "%RETRY%G", "%DLQ%G", "\x01\x02", "x" * 300, "é", "0 1 2 3 0 b 0 0"]
)
NUMBERS = st.sampled_from([0, 1, -1, 7, 2**31 - 1, -(2**31)])
LONG = st.sampled_from([0, 1, -1, 10**9, 2**63 - 1, -(2**63)])
VALUES = {
    FieldDescriptor.TYPE_STRING: WORDS,
    FieldDescriptor.TYPE_BYTES: st.sampled_from([b"", b"x", b"\x1f\x8b", bytes(1000)]),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_INT32: NUMBERS,
    FieldDescriptor.TYPE_ENUM: st.sampled_from([0, 1, 2, 3, 4, 99]),
    FieldDescriptor.TYPE_INT64: LONG,
    FieldDescriptor.TYPE_FLOAT: st.floats(width=32),
}
FEW = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def strange(shared: EmbeddedBroker) -> EmbeddedBroker:
    shared.topics.create("T")
    return shared


def fill(message: Any, draw: Any, depth: int = 0) -> Any:
    """Set some of the fields of a message, at random."""
    for field in message.DESCRIPTOR.fields:
        if not draw(st.booleans()):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            getattr(message, field.name)[draw(WORDS)] = draw(WORDS)
        elif field.message_type is not None:
            if depth < 4:
                inner = getattr(message, field.name)
                fill(inner.add() if field.is_repeated else inner, draw, depth + 1)
        elif field.is_repeated:
            getattr(message, field.name).append(draw(VALUES[field.type]))
        else:
            setattr(message, field.name, draw(VALUES[field.type]))
    return message


def told(error: Any, *expected: str) -> None:
    """An error of gRPC is one of these."""
    assert error.code().name in expected


def ask(client: RawClient, rpc: Rpc, raw: bytes) -> None:
    """Make a call of these bytes; it ends with an answer, or with an error of gRPC."""
    path = f"/{SERVICE}/{rpc}"
    headers = [*client.headers.items()]
    timeout = 0.3 if rpc is Rpc.RECEIVE_MESSAGE else 10
    try:
        if CALLS[rpc].streams_out:
            list(client.channel.unary_stream(path)(raw, timeout=timeout, metadata=headers))
        else:
            client.channel.unary_unary(path)(raw, timeout=timeout, metadata=headers)
    except grpc.RpcError as error:
        told(error, "INTERNAL", "DEADLINE_EXCEEDED")


def assert_it_lives(broker: EmbeddedBroker, client: RawClient) -> None:
    assert client.route("T").status.code == 20000
    assert client.send(client.message("T")).status.code == 20000
    parts = broker._parts()
    assert not parts.door.held
    failures = [one for one in broker.journal.requests() if "Error: " in (one.remark or "")]
    assert failures == []


@pytest.mark.case("G75")
@FEW
@given(data=st.data())
def test_strange_values_harm_nobody(
    strange: EmbeddedBroker, open_client: Open, data: st.DataObject
) -> None:
    client = open_client(strange)
    rpc = data.draw(st.sampled_from(UNARY))
    ask(client, rpc, fill(client.request(rpc), data.draw).SerializeToString())
    client.close()
    last = open_client(strange)
    assert_it_lives(strange, last)
    last.close()


@pytest.mark.case("G75")
@FEW
@given(rpc=st.sampled_from(UNARY), raw=st.binary(max_size=200))
def test_strange_bytes_harm_nobody(
    strange: EmbeddedBroker, client: RawClient, rpc: Rpc, raw: bytes
) -> None:
    ask(client, rpc, raw)
    assert_it_lives(strange, client)


@pytest.mark.case("G75")
@FEW
@given(data=st.data())
def test_strange_commands_harm_nobody(
    strange: EmbeddedBroker, open_client: Open, data: st.DataObject
) -> None:
    client = open_client(strange)
    stream = client.stream()
    stream.say(fill(client.v2.TelemetryCommand(), data.draw))
    stream.half_close()
    try:
        while stream.next() is not None:
            pass
    except grpc.RpcError as error:
        told(error, "INVALID_ARGUMENT", "INTERNAL")
    assert_it_lives(strange, client)
    client.close()

"""Frames, commands, headers and bodies for arbitrary values and arbitrary damage.

Invariants: what is written reads back equal; how a stream is split into chunks changes nothing;
damaged bytes read as something or raise our own error, never another.
"""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rocketmq_py.errors import RemotingCommandException
from rocketmq_py.protocol import header_binary, header_json
from rocketmq_py.protocol.bodies import groups, heartbeat, topics
from rocketmq_py.protocol.bodies.document import Document, MessageQueueKey
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame, FrameDecoder, encode_frame
from rocketmq_py.protocol.headers import Header
from rocketmq_py.protocol.headers.send import SendMessageRequestHeader
from rocketmq_py.protocol.lenient_json import dumps_fastjson, loads_lenient
from rocketmq_py.protocol.names import topic_problem

FAMILIES = ("admin", "client", "consume", "send")
HEADERS = [
    cls
    for family in FAMILIES
    for cls in vars(importlib.import_module(f"rocketmq_py.protocol.headers.{family}")).values()
    if isinstance(cls, type) and issubclass(cls, Header) and cls.FIELDS
]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
fractions = st.floats(allow_nan=False, allow_infinity=False)
queues = st.builds(MessageQueueKey, texts, texts, int32)

FIELD_VALUES = {"Text": texts, "Int32": int32, "Int64": int64, "Flag": st.booleans()}

frames = st.builds(Frame, st.integers(0, 1), st.binary(max_size=40), st.binary(max_size=40))
commands = st.builds(
    RemotingCommand,
    code=int16,
    opaque=int32,
    flag=int32,
    language=st.integers(0, 13),
    version=int16,
    remark=st.none() | names,
    ext_fields=st.dictionaries(names, names, max_size=5),
    body=st.binary(max_size=40),
    serialize_type=st.integers(0, 1),
)

subscriptions = st.builds(
    heartbeat.SubscriptionData,
    texts,
    texts,
    st.frozensets(texts, max_size=3),
    st.frozensets(int32, max_size=3),
    int64,
    texts,
    st.booleans(),
)
queue_datas = st.builds(topics.QueueData, texts, int32, int32, int32, int32)
broker_datas = st.builds(
    topics.BrokerData,
    texts,
    texts,
    st.dictionaries(int64, texts, max_size=3),
    st.none() | texts,
    st.none() | st.booleans(),
)
offsets = st.builds(topics.TopicOffset, int64, int64, int64)
progress = st.builds(groups.OffsetWrapper, int64, int64, int64, int64)
consumers = st.builds(
    heartbeat.ConsumerData,
    texts,
    texts,
    texts,
    texts,
    st.lists(subscriptions, max_size=2),
    st.booleans(),
)
connections = st.builds(groups.Connection, texts, texts, st.none() | texts, int32)

bodies: st.SearchStrategy[Document] = st.one_of(
    st.builds(
        topics.TopicRouteData,
        st.lists(queue_datas, max_size=2),
        st.lists(broker_datas, max_size=2),
        st.none() | texts,
        st.dictionaries(texts, st.lists(texts, max_size=2), max_size=2),
    ),
    st.builds(
        topics.ClusterInfo,
        st.dictionaries(texts, broker_datas, max_size=2),
        st.dictionaries(texts, st.lists(texts, max_size=2), max_size=2),
    ),
    st.builds(
        heartbeat.HeartbeatData,
        texts,
        st.lists(st.builds(heartbeat.ProducerData, texts), max_size=2),
        st.lists(consumers, max_size=2),
        st.none() | int32,
        st.none() | st.booleans(),
    ),
    st.builds(
        topics.TopicConfig,
        texts,
        int32,
        int32,
        int32,
        texts,
        int32,
        st.booleans(),
        st.dictionaries(texts, texts, max_size=2),
    ),
    st.builds(topics.TopicList, st.lists(texts, max_size=3), st.none() | texts),
    st.builds(topics.DataVersion, int64, int64, int64),
    st.builds(topics.TopicStatsTable, st.dictionaries(queues, offsets, max_size=3), fractions),
    st.builds(groups.ConsumeStats, st.dictionaries(queues, progress, max_size=3), fractions),
    st.builds(
        groups.SubscriptionGroupConfig,
        texts,
        st.booleans(),
        retry_max_times=int32,
        broker_id=int64,
        subscription_data_set=st.none() | st.just([{"topic": "T"}]),
        attributes=st.dictionaries(texts, texts, min_size=1, max_size=2),
    ),
    st.builds(groups.ConsumerList, st.lists(texts, max_size=3)),
    st.builds(
        groups.ConsumerConnection,
        st.lists(connections, max_size=2),
        st.dictionaries(texts, subscriptions, max_size=2),
        st.none() | texts,
        st.none() | texts,
        st.none() | texts,
    ),
    st.builds(groups.ClientConfigCheck, texts, texts, st.none() | texts, subscriptions),
    st.builds(groups.LockBatchRequest, texts, texts, st.booleans(), st.lists(queues, max_size=3)),
    st.builds(groups.LockBatchResponse, st.lists(queues, max_size=3)),
)


@st.composite
def headers(draw: st.DrawFn) -> Header:
    cls = draw(st.sampled_from(HEADERS))
    values: dict[str, Any] = {}
    for field in cls.FIELDS:
        value = FIELD_VALUES[field.kind]
        values[field.name] = draw(value if field.required else st.just(field.default) | value)
    return cls(**values)


@st.composite
def damaged(draw: st.DrawFn, intact: st.SearchStrategy[bytes]) -> bytes:
    """Cut, overwrite or insert a few bytes."""
    data = bytearray(draw(intact))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["cut", "overwrite", "insert", "drop"])):
            case "cut":
                del data[at:]
            case "overwrite":
                data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case "insert":
                data[at:at] = draw(
                    st.binary(min_size=1, max_size=4) | st.sampled_from([b"{", b'"'])
                )
            case _:
                del data[at : at + 1]
    return bytes(data)


def outcome(chunks: list[bytes]) -> tuple[list[Frame], str]:
    """Feed chunks to a fresh decoder; give all frames and the text of its failure."""
    decoder = FrameDecoder(frame_size_max=4096)
    found: list[Frame] = []
    for chunk in chunks:
        try:
            found += decoder.feed(chunk)
        except RemotingCommandException as error:
            return found + decoder.salvaged, str(error)
    return found, ""


@given(st.lists(frames, max_size=5))
def test_frames_read_back(sent: list[Frame]) -> None:
    assert outcome([b"".join(encode_frame(*frame) for frame in sent)]) == (sent, "")


@given(
    damaged(
        st.lists(frames, max_size=3).map(lambda sent: b"".join(encode_frame(*f) for f in sent))
    ),
    st.lists(st.integers(1, 30), max_size=8),
)
def test_the_split_into_chunks_changes_nothing(data: bytes, sizes: list[int]) -> None:
    pieces = []
    rest = data
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    byte_by_byte = [data[at : at + 1] for at in range(len(data))]

    assert outcome([data]) == outcome(byte_by_byte) == outcome([*pieces, rest])


@given(commands)
def test_commands_read_back(command: RemotingCommand) -> None:
    (frame,) = FrameDecoder().feed(command.encode())

    assert RemotingCommand.decode(frame) == command


@given(damaged(commands.map(RemotingCommand.encode)))
def test_a_damaged_frame_reads_or_raises_our_error(data: bytes) -> None:
    with suppress(RemotingCommandException):
        for frame in FrameDecoder().feed(data):
            RemotingCommand.decode(frame)


@given(commands, st.data())
def test_a_damaged_header_reads_or_raises_our_error(
    command: RemotingCommand, data: st.DataObject
) -> None:
    form = (header_json, header_binary)[command.serialize_type]
    (frame,) = FrameDecoder().feed(command.encode())
    header = data.draw(damaged(st.just(frame.header)))

    with suppress(RemotingCommandException):
        form.decode_header(header)


@given(headers())
def test_headers_read_back(header: Header) -> None:
    assert type(header).from_ext(header.to_ext()) == header
    if isinstance(header, SendMessageRequestHeader):
        assert SendMessageRequestHeader.from_ext_v2(header.to_ext_v2()) == header


@given(headers(), st.dictionaries(st.integers(0, 14), texts, max_size=3))
def test_damaged_fields_read_or_raise_our_error(header: Header, damage: dict[int, str]) -> None:
    ext = header.to_ext()
    wire_names = [field.wire for field in type(header).FIELDS]
    ext |= {wire_names[at % len(wire_names)]: value for at, value in damage.items()}

    with suppress(RemotingCommandException):
        type(header).from_ext(ext)


@given(bodies)
def test_bodies_read_back_in_both_dialects(body: Document) -> None:
    assert type(body).decode(body.encode()) == body
    assert type(body).decode(body.encode(standard=True)) == body


@given(bodies, st.booleans(), st.data())
def test_a_damaged_body_reads_or_raises_our_error(
    body: Document, standard: bool, data: st.DataObject
) -> None:
    text = data.draw(damaged(st.just(body.encode(standard))))

    with suppress(RemotingCommandException):
        type(body).decode(text)


@given(
    st.recursive(
        st.none() | st.booleans() | int64 | fractions | texts,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(texts, inner.filter(lambda value: value is not None), max_size=3)
            | st.dictionaries(int32.map(str), inner.filter(lambda value: value is not None))
        ),
        max_leaves=12,
    ),
    st.booleans(),
)
def test_documents_read_back_pretty_or_not(document: object, pretty: bool) -> None:
    assert loads_lenient(dumps_fastjson(document, pretty=pretty)) == document


@given(st.binary(max_size=60) | st.text('{}[]:,"\\0123456789.-+eEtrufalsn ', max_size=40))
def test_any_text_reads_or_raises_our_error(text: bytes | str) -> None:
    with suppress(RemotingCommandException):
        loads_lenient(text)


@given(st.text(max_size=300))
def test_a_topic_without_a_problem_matches_what_the_original_allows(topic: str) -> None:
    allowed = "%|-_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    fine = 0 < len(topic) <= 127 and all(character in allowed for character in topic)

    assert fine == (topic_problem(topic, retry_length_max=127) is None)

"""Bodies of POP; what lies in the revive topic was written by a real 5.3.3 broker."""

from __future__ import annotations

import pytest

from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.pop import (
    BIT_SET_BYTES_MAX,
    Ack,
    BatchAck,
    BatchAckRequest,
    CheckPoint,
    QueryAssignmentResponse,
    QueueAssignment,
)

CHECK_POINT = (
    b'{"bm":0,"bn":"broker-a","c":"G","d":[0,1],"it":4000,"n":2,"pt":1795444318983,"q":1,'
    b'"reviveTime":1795444322983,"ro":0,"so":0,"t":"T"}'
)
ACK = b'{"ao":3,"bn":"broker-a","c":"G","pt":1795444318983,"q":0,"so":0,"t":"T"}'
BATCH_ACK = b'{"ao":-1,"aol":[0],"bn":"broker-a","c":"G","pt":1795444318983,"q":1,"so":0,"t":"T"}'


@pytest.mark.parametrize(
    ("kind", "stored"), [(CheckPoint, CHECK_POINT), (Ack, ACK), (Ack, BATCH_ACK)]
)
def test_what_a_real_broker_has_stored_is_written_again_to_the_byte(
    kind: type[CheckPoint | Ack], stored: bytes
) -> None:
    assert kind.decode(stored).encode(standard=True) == stored


def test_a_check_point_names_its_messages() -> None:
    point = CheckPoint.decode(CHECK_POINT)
    assert (point.offsets(), point.revive_ms) == ([0, 1], 1_795_444_322_983)
    assert CheckPoint(start_offset=5, count=3).offsets() == [5, 6, 7]  # before 5.0
    assert CheckPoint(start_offset=5, count=2, diffs=[0, 4]).offsets() == [5, 9]


@pytest.mark.case("W106")
def test_a_bit_set_names_offsets_from_the_lowest_bit_of_its_first_byte_on() -> None:
    assert list(BatchAck(bits="Cw==", start_offset=10).offsets()) == [10, 11, 13]
    assert list(BatchAck(bits="AAE=", start_offset=0).offsets()) == [8]
    assert list(BatchAck(bits="").offsets()) == []


def test_a_bit_set_is_written_as_java_writes_it() -> None:
    ack = BatchAck(start_offset=10)
    assert [ack.add(offset) for offset in (13, 10, 11, 10)] == [True] * 4
    assert ack.bits == "Cw=="
    assert ack.add(10 + 8 * BIT_SET_BYTES_MAX - 1)
    assert list(ack.offsets())[-1] == 10 + 8 * BIT_SET_BYTES_MAX - 1
    before = ack.bits
    assert not ack.add(10 + 8 * BIT_SET_BYTES_MAX)
    assert not ack.add(9)
    assert ack.bits == before


@pytest.mark.parametrize("bits", ["no base64", "A" * (BIT_SET_BYTES_MAX * 2)])
def test_a_bit_set_that_cannot_be_is_refused(bits: str) -> None:
    with pytest.raises(BodyError, match="field b"):
        list(BatchAck(bits=bits).offsets())


def test_a_batch_ack_has_short_or_long_names() -> None:
    short = BatchAckRequest.decode(b'{"acks":[{"c":"G","t":"T","r":"1","so":4,"rq":2,"b":"AQ=="}]}')
    long = BatchAckRequest.decode(
        b'{"acks":[{"consumerGroup":"G","topic":"T","retry":"1","startOffset":4,"reviveQueueId":2,'
        b'"bitSet":"AQ=="}]}'
    )
    assert short == long
    assert short.acks[0].revive_queue == 2


def test_an_assignment_is_written_as_by_a_real_broker() -> None:
    one = QueueAssignment(MessageQueueKey("T", "broker-a", -1), "POP")
    attached = QueueAssignment.decode(b'{"mode":"POP","attachments":{"a":"b"}}')
    assert (one.attachments, attached.attachments) == (None, {"a": "b"})
    assert QueryAssignmentResponse([one]).encode(standard=True) == (
        b'{"messageQueueAssignments":[{"messageQueue":{"brokerName":"broker-a","queueId":-1,'
        b'"topic":"T"},"mode":"POP"}]}'
    )
    assert QueryAssignmentResponse().encode(standard=True) == b"{}"

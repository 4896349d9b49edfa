"""Half messages and their ends as raw requests: what a producer of any language sends."""

from __future__ import annotations

from typing import NamedTuple

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.handles import decode_offset_id
from rocketmq_py.protocol.message_codec import MessageRecord
from tests.unit.embedded_broker.wire_peer import WirePeer, send_fields

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
PARKED = "TRANS_CHECK_MAX_TIME_TOPIC"


class Half(NamedTuple):
    """Where a half message lies, as the answer to its send says."""

    queue_offset: int
    log_offset: int
    answer: RemotingCommand


def send_half(
    peer: WirePeer,
    body: bytes = b"half",
    *,
    topic: str = "T",
    group: str = "P",
    unique_key: str = "ID0001",
    properties: dict[str, str] | None = None,
    **fields: str,
) -> Half:
    """Send the first half of a transaction."""
    carried = {"TRAN_MSG": "true", "PGROUP": group, "UNIQ_KEY": unique_key, **(properties or {})}
    ext = send_fields(topic, carried, **{"f": "4", **fields})
    answer = peer.ask(RequestCode.SEND_MESSAGE_V2, ext, body)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    offset = decode_offset_id(answer.ext_fields["msgId"])[2]
    return Half(int(answer.ext_fields["queueOffset"]), offset, answer)


def end_fields(half: Half, outcome: int, **changed: str) -> dict[str, str]:
    """Give the header of 37."""
    return {
        "producerGroup": "P",
        "tranStateTableOffset": str(half.queue_offset),
        "commitLogOffset": str(half.log_offset),
        "commitOrRollback": str(outcome),
        "fromTransactionCheck": "false",
        "msgId": "ID0001",
    } | changed


def end(peer: WirePeer, half: Half, outcome: int, **changed: str) -> RemotingCommand:
    """Send 37 and wait for the answer that it has when it is not one-way."""
    return peer.ask(RequestCode.END_TRANSACTION, end_fields(half, outcome, **changed))


def asked(push: RemotingCommand) -> Half:
    """Read where the half message of a request 39 lies now."""
    assert push.code == RequestCode.CHECK_TRANSACTION_STATE
    fields = push.ext_fields
    return Half(int(fields["tranStateTableOffset"]), int(fields["commitLogOffset"]), push)


def stored(broker: EmbeddedBroker, topic: str) -> list[MessageRecord]:
    """Give what lies in a topic, in the order of the log."""
    parts = broker._parts()
    with parts.door.quiet:
        return [record for record in parts.store.scan(0) if record.topic == topic]


def open_count(broker: EmbeddedBroker) -> int:
    """Say how many transactions are open."""
    parts = broker._parts()
    with parts.door.quiet:
        return parts.transactions.count()

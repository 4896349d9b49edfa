"""Requests of POP as a client of any language writes them."""

from __future__ import annotations

from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.json_text import dumps
from rocketmq_py.protocol.message_codec import MessageRecord, decode_records
from tests.unit.embedded_broker.wire_peer import WirePeer

RETRY = "%RETRY%G_T"


def pop_fields(**changed: str) -> dict[str, str]:
    """Give the header of 200050 for group G and topic T, without waiting."""
    return {
        "consumerGroup": "G",
        "topic": "T",
        "queueId": "-1",
        "maxMsgNums": "32",
        "invisibleTime": "60000",
        "pollTime": "0",
        "bornTime": "0",
        "initMode": "0",
    } | changed


def pop(peer: WirePeer, **changed: str) -> RemotingCommand:
    """Pop and wait for the answer."""
    return peer.ask(RequestCode.POP_MESSAGE, pop_fields(**changed))


def records(answer: RemotingCommand) -> list[MessageRecord]:
    """Give the messages of an answer."""
    return decode_records(answer.body)


def handle(answer: RemotingCommand, offset: int, start: int = 0, queue_id: int = 0) -> str:
    """Make a handle of what an answer says, as a Java client does."""
    ext = answer.ext_fields
    times = f"{ext['popTime']} {ext['invisibleTime']}"
    return f"{start} {times} {ext['reviveQid']} 0 broker-a {queue_id} {offset}"


def ack_fields(extra_info: str, offset: int, **changed: str) -> dict[str, str]:
    """Give the header of 200051; 200053 has `invisibleTime` besides."""
    return {
        "consumerGroup": "G",
        "topic": "T",
        "queueId": "0",
        "extraInfo": extra_info,
        "offset": str(offset),
    } | changed


def ack(peer: WirePeer, extra_info: str, offset: int, **changed: str) -> RemotingCommand:
    """Ack and wait for the answer."""
    return peer.ask(RequestCode.ACK_MESSAGE, ack_fields(extra_info, offset, **changed))


def hide_longer(peer: WirePeer, extra_info: str, offset: int, **changed: str) -> RemotingCommand:
    """Change the invisible time, by default to 10 s, and wait for the answer."""
    fields = ack_fields(extra_info, offset, **{"invisibleTime": "10000"} | changed)
    return peer.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields)


def ask_json(peer: WirePeer, code: int, **document: object) -> RemotingCommand:
    """Send a request whose body is a document."""
    return peer.ask(code, body=dumps(document))

"""A broker that dies right after its first message.

`python -m tests.hostile.killed_broker DIR KIND`: it answers one request, or two for what takes two,
prints what a client was told, and is killed within milliseconds by a signal that nothing can catch.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder
from rocketmq_py.protocol.json_text import dumps
from rocketmq_py.protocol.message_codec import encode_batch
from tests.unit.embedded_broker.peers import Peer
from tests.unit.embedded_broker.wire_peer import send_fields

TOPIC: Final = "Fresh"
GROUP: Final = "again"
PROPERTIES: Final[dict[str, dict[str, str]]] = {
    "plain": {},
    "level": {"DELAY": "1"},
    "timer": {"TIMER_DELAY_MS": "3000"},
    "half": {"TRAN_MSG": "true", "PGROUP": "producers"},
    "send back": {},
    "batch": {},
}


def main(folder: str, kind: str) -> None:
    """Send the first message of a kind, and die."""
    broker = EmbeddedBroker(store=folder, tcp=False)
    broker.start()
    endpoint, peer = broker._parts().endpoint, Peer()

    def ask(code: int, fields: dict[str, str], body: bytes = b"") -> RemotingCommand:
        command = RemotingCommand(code=code, version=479, ext_fields=fields, body=body)
        endpoint.receive(peer, FrameDecoder().feed(command.encode()))
        return peer.answers[-1]

    fields = send_fields(TOPIC, PROPERTIES[kind], e="2")
    if kind == "batch":
        items = [(0, b"first", b""), (0, b"second", b"")]
        sent = ask(RequestCode.SEND_BATCH_MESSAGE, fields | {"m": "true"}, encode_batch(items))
    else:
        sent = ask(RequestCode.SEND_MESSAGE_V2, fields, b"first")
    if kind == "send back":
        offset = int(sent.ext_fields["msgId"][16:], 16)
        back = {"offset": str(offset), "group": GROUP, "delayLevel": "3"}
        assert ask(RequestCode.CONSUMER_SEND_MSG_BACK, back).code == 0
    os.write(1, dumps({"code": sent.code, **sent.ext_fields}))
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])

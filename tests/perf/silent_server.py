"""`python -m tests.perf.silent_server`: our server without a broker behind its sends.

It answers every send with the same ready-made bytes and looks at nothing but the opaque: no
message is read, checked or stored. So it shows what one Python thread can reach at most.
"""

from __future__ import annotations

import re

from embedded_broker.cli import main
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.requests import Connection
from rocketmq_py.protocol.frame import Frame, encode_frame

SENDS = (b'{"code":310,', b'{"code":320,')
OPAQUE = re.compile(rb'"opaque":(-?\d+)')
ANSWER = (
    b'{"code":0,"extFields":{"msgId":"7F00000100002A9F0000000000000000","queueId":"0",'
    b'"queueOffset":"0","transactionId":"0"},"flag":1,"language":"JAVA","opaque":%b,"version":479}'
)

ordinary = Endpoint._handle


def answer_at_once(
    self: Endpoint, connection: Connection, frames: list[Frame], started_ns: int
) -> int:
    """Answer sends without doing anything; leave the rest to the broker."""
    answers = []
    others = []
    for frame in frames:
        found = OPAQUE.search(frame.header) if frame.header.startswith(SENDS) else None
        if found is None:
            others.append(frame)
        else:
            answers.append(encode_frame(0, ANSWER % found[1]))
    if answers:
        connection.deliver(answers)
    while others:
        others = others[ordinary(self, connection, others, started_ns) :]
    return len(frames)


if __name__ == "__main__":
    Endpoint._handle = answer_at_once  # type: ignore[method-assign]
    main()

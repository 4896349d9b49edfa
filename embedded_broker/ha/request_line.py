"""Ask a master or a name server, one question at a time, over a connection that stays.

Must not know: what is asked. Read on: ``synchronize.py``, which asks.
"""

import socket
from collections.abc import Mapping
from itertools import count
from typing import Final

from rocketmq_py.clock import monotonic
from rocketmq_py.errors import MQBrokerException
from rocketmq_py.protocol.codes import FLAG_RESPONSE, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder

WAIT_S: Final = 3.0


class RequestLine:
    """A connection to ``address``, made when something is asked. Used by one thread."""

    def __init__(self, address: str, version: int) -> None:
        self.address = address
        self._version = version
        self._opaque = count(1)
        self._socket: socket.socket | None = None
        self._decoder = FrameDecoder()

    def ask(
        self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b""
    ) -> RemotingCommand:
        """Send a request and wait for its answer.

        Raises ``OSError`` for a server that does not answer, ``RemotingCommandException`` for one
        that answers rubbish, ``MQBrokerException`` for a refusal.
        """
        request = RemotingCommand(
            code=code,
            opaque=next(self._opaque),
            version=self._version,
            ext_fields=dict(ext or {}),
            body=body,
        )
        try:
            answer = self._exchange(request)
        except Exception:
            self.close()
            raise
        if answer.code != ResponseCode.SUCCESS:
            raise MQBrokerException(answer.code, answer.remark, self.address)
        return answer

    def _exchange(self, request: RemotingCommand) -> RemotingCommand:
        line = self._socket
        if line is None:
            host, _, port = self.address.rpartition(":")
            line = self._socket = socket.create_connection((host.strip("[]"), int(port)), WAIT_S)
            self._decoder = FrameDecoder()
        deadline = monotonic() + WAIT_S
        line.settimeout(WAIT_S)
        line.sendall(request.encode())
        while (left_s := deadline - monotonic()) > 0:
            line.settimeout(left_s)
            data = line.recv(65_536)
            if not data:
                raise ConnectionResetError(f"{self.address} has ended the connection")
            for frame in self._decoder.feed(data):
                answer = RemotingCommand.decode(frame)
                if answer.flag & FLAG_RESPONSE and answer.opaque == request.opaque:
                    return answer
        raise TimeoutError(f"{self.address} says other things, for {WAIT_S:g} s")

    def close(self) -> None:
        """End the connection; the next question makes another one. Idempotent."""
        line, self._socket = self._socket, None
        if line is not None:
            line.close()

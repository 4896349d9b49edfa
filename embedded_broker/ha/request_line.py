"""Request line to a master or a name server: one question at a time, on a connection that stays.

Must not know: what is asked. Read on: ``synchronize.py``, which asks.
"""

import socket
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final

from rocketmq_py.clock import monotonic_ns
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
        self,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        until_ns: int | None = None,
    ) -> RemotingCommand:
        """Send a request and wait for its answer, until a monotonic time.

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
        if until_ns is None:
            until_ns = monotonic_ns() + int(WAIT_S * 1e9)
        try:
            answer = self._exchange(request, until_ns)
        except Exception:
            self.close()
            raise
        if answer.code != ResponseCode.SUCCESS:
            raise MQBrokerException(answer.code, answer.remark, self.address)
        return answer

    def _exchange(self, request: RemotingCommand, until_ns: int) -> RemotingCommand:
        line = self._socket
        if line is None:
            host, _, port = self.address.rpartition(":")
            place = (host.strip("[]"), int(port))
            line = self._socket = socket.create_connection(place, self._left_s(until_ns))
            self._decoder = FrameDecoder()
        line.settimeout(self._left_s(until_ns))
        line.sendall(request.encode())
        while True:
            line.settimeout(self._left_s(until_ns))
            data = line.recv(65_536)
            if not data:
                raise ConnectionResetError(f"{self.address} has ended the connection")
            for frame in self._decoder.feed(data):
                answer = RemotingCommand.decode(frame)
                if answer.flag & FLAG_RESPONSE and answer.opaque == request.opaque:
                    return answer

    def _left_s(self, until_ns: int) -> float:
        left_ns = until_ns - monotonic_ns()
        if left_ns <= 0:
            raise TimeoutError(f"{self.address} has not answered in time")
        return left_ns / 1e9

    def close(self) -> None:
        """End the connection; the next question makes another one. Idempotent."""
        line, self._socket = self._socket, None
        if line is not None:
            line.close()


def lines_to(addresses: str, version: int) -> Sequence[RequestLine]:
    """Make the lines to servers whose addresses are separated by semicolons."""
    return [RequestLine(one.strip(), version) for one in addresses.split(";") if one.strip()]

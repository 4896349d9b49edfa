"""A slave of a few lines, which knows nothing of records, and what its master knows of slaves."""

from __future__ import annotations

from embedded_broker import EmbeddedBroker
from embedded_broker.ha.service import HAService
from rocketmq_py.protocol.transfer import Piece, PieceDecoder, encode_report
from tests.unit.embedded_broker.socket_peer import SocketPeer


class RawSlave(SocketPeer):
    """One connection to a master's HA address."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._decoder = PieceDecoder()
        self._arrived: list[Piece] = []

    def report(self, offset: int) -> None:
        """Say how far its log reaches."""
        self.write(encode_report(offset))

    def piece(self) -> Piece:
        """Wait for the next piece; `ConnectionError` when the master ends the connection."""
        while not self._arrived:
            self._arrived += self._decoder.feed(self.read())
        return self._arrived.pop(0)

    def read_to(self, end: int) -> bytes:
        """Read pieces, which must follow each other, until one ends at an offset."""
        first = self.piece()
        data, at = first.data, first.offset + len(first.data)
        while at < end:
            piece = self.piece()
            assert piece.offset == at
            data += piece.data
            at += len(piece.data)
        assert at == end
        return data

    def is_ended(self) -> bool:
        """Whether the master ends the connection; what still comes is passed over."""
        while True:
            try:
                self.piece()
            except ConnectionError:
                return True


def service_of(broker: EmbeddedBroker) -> HAService:
    """What knows the slaves of a broker."""
    service = broker._parts().durability.replication.slaves
    assert isinstance(service, HAService)
    return service

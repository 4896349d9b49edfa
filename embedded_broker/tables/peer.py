"""Peer: one client of the broker, whichever wire it came over.

Answers: what the broker may know about who is asking. Must not know: sockets, frames, requests.
Read on: ``embedded_broker/remoting/requests.py`` for a peer that is reached by frames.
"""

from abc import ABC, abstractmethod
from ipaddress import ip_address
from itertools import count
from socket import AF_INET, AF_INET6, inet_pton

_numbers = count(1)


def pack_address(host: str, port: int) -> bytes:
    """Return an address in the stored form: 4 or 16 address bytes, then the port as int32.

    A name that is no IP literal counts as loopback: it is the address of an in-process peer.
    """
    if ":" in host:
        try:
            return inet_pton(AF_INET6, host.partition("%")[0]) + port.to_bytes(4, "big")
        except OSError:
            return b"\x7f\x00\x00\x01" + port.to_bytes(4, "big")
    try:
        return inet_pton(AF_INET, host) + port.to_bytes(4, "big")
    except OSError:
        return b"\x7f\x00\x00\x01" + port.to_bytes(4, "big")


def is_loopback(host: str) -> bool:
    """Whether this is an address that only this host has, or the name ``localhost``.

    Another name is none, whatever it begins with: ``127.example.org`` may be any host.
    """
    if host == "localhost":
        return True
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return address.is_loopback if mapped is None else mapped.is_loopback


class Peer(ABC):
    """A connected peer: its number and its addresses.

    ``client_id`` is empty until a heartbeat names it. ``closed`` turns true once and stays.
    ``mailbox`` is what a client of this process is known by, None for one that came over TCP.
    """

    mailbox: object = None
    asks_always = True
    """Whether a consumer asks for messages all the time, or only when its program wants some."""

    __slots__ = (
        "__weakref__",
        "client_id",
        "closed",
        "id",
        "local",
        "packed_remote",
        "remote",
    )

    def __init__(self, remote: tuple[str, int], local: tuple[str, int]) -> None:
        self.id: int = next(_numbers)
        self.remote = remote
        self.local = local
        self.packed_remote: bytes = pack_address(*remote)
        self.client_id = ""
        self.closed = False

    def __repr__(self) -> str:
        name = f" {self.client_id}" if self.client_id else ""
        return f"<{type(self).__name__} {self.id} {self.remote[0]}:{self.remote[1]}{name}>"

    @abstractmethod
    def close(self) -> None:
        """Close the connection; idempotent, callable on any thread, inside the door or out."""

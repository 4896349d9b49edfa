"""How hosts, message ids and recall handles are written.

=================  ============================================================================
what               text
=================  ============================================================================
offset message id  hex of the store host and the commit-log offset: says where the record lies
UNIQ_KEY           hex made by the sender: the same from send to the last redelivery
recall handle      Base64 of topic, broker, time and UNIQ_KEY: what is needed to take a timer back
=================  ============================================================================

A packed host is 4 or 16 address bytes and an int32 port, as in records. This module must not know
who is asked with these handles. Layouts as in ``MessageDecoder``, ``MessageClientIDSetter`` and
``RecallMessageHandle`` of ``org.apache.rocketmq.common``.
"""

import os
import re
import socket
from base64 import b64decode
from binascii import b2a_base64
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from struct import Struct, pack
from struct import error as StructError  # noqa: N812 - reads as the exception it is
from threading import Lock
from typing import Final

from attrs import frozen

from rocketmq_py.clock import wall_ms
from rocketmq_py.errors import RemotingCommandException
from rocketmq_py.protocol.delay import parse_number

_PORT: Final = Struct(">i")
_OFFSET: Final = Struct(">q")
_OFFSET_ID: Final = re.compile(r"[0-9A-Fa-f]{32}(?:[0-9A-Fa-f]{24})?")
_URL_BASE64: Final = re.compile(r"[A-Za-z0-9_-]+={0,2}")
_HANDLE_VERSION: Final = "v1"
_A_VERSION: Final = re.compile(r"v[0-9]{1,9}")
_HANDLE_ITEMS: Final = 5


# --- hosts ---------------------------------------------------------------------------------


def pack_host(ip: str, port: int) -> bytes:
    """Pack an address: 8 bytes for IPv4, 20 for IPv6. Host names are not looked up.

    Raises ValueError for text that is no address and for a port that is no 32-bit number.

    >>> pack_host("127.0.0.1", 10911).hex()
    '7f00000100002a9f'
    """
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    try:
        return socket.inet_pton(family, ip.partition("%")[0]) + _PORT.pack(port)
    except (OSError, StructError) as error:
        raise ValueError(f"{ip!r}, port {port} cannot be packed: {error}") from error


def unpack_host(host: bytes) -> tuple[str, int]:
    """Give address and port of a packed host. Raises ValueError unless it has 8 or 20 bytes."""
    if len(host) == 8:
        return f"{host[0]}.{host[1]}.{host[2]}.{host[3]}", _PORT.unpack_from(host, 4)[0]
    if len(host) == 20:
        return socket.inet_ntop(socket.AF_INET6, host[:16]), _PORT.unpack_from(host, 16)[0]
    raise ValueError(f"a packed host has 8 or 20 bytes, not {len(host)}")


# --- ids -----------------------------------------------------------------------------------


def encode_offset_id(host: bytes, offset: int) -> str:
    """Write an offset message id from a packed host and a commit-log offset.

    >>> encode_offset_id(pack_host("127.0.0.1", 10911), 237)
    '7F00000100002A9F00000000000000ED'
    """
    return (host + _OFFSET.pack(offset)).hex().upper()


def encode_offset_ids(host: bytes, offsets: Sequence[int]) -> str:
    """Write the offset message ids of several records of one host, with commas between them.

    >>> encode_offset_ids(pack_host("127.0.0.1", 10911), [237, 256])
    '7F00000100002A9F00000000000000ED,7F00000100002A9F0000000000000100'
    """
    begin = host.hex().upper()
    digits = pack(f">{len(offsets)}q", *offsets).hex(",", _OFFSET.size).upper()
    return begin + digits.replace(",", f",{begin}")


def decode_offset_id(text: str) -> tuple[str, int, int]:
    """Give address, port and commit-log offset of an offset message id.

    Raises RemotingCommandException (a ValueError) for anything but 32 or 56 hex digits. A
    UNIQ_KEY has the same look and decodes to nonsense; nothing in the text tells them apart.
    """
    if not _OFFSET_ID.fullmatch(text):
        reason = "an offset message id has 32 or 56 hex digits"
        raise RemotingCommandException(f"message id {text[:80]!r}: {reason}")
    packed = bytes.fromhex(text)
    ip, port = unpack_host(packed[:-8])
    return ip, port, _OFFSET.unpack(packed[-8:])[0]


class UniqIdGenerator:
    """Makes UNIQ_KEYs: unique among all senders, never going back, in any thread or fork.

    An id is the upper-case hex of the sender's address (4 or 16 bytes), its process id (2), four
    random bytes, the milliseconds since the local month began (4) and a counter (2). Java puts
    its class loader's hash where the random bytes are; ours are drawn again in a forked child.
    Time and counter are one growing number, so neither a clock that is set back nor one that
    stands still can repeat an id: a full counter borrows the next millisecond.

    `address` is an IPv4 or IPv6 address or a packed one; `now_ms` gives epoch milliseconds.
    """

    __slots__ = ("_address", "_last", "_lock", "_month", "_now_ms", "_pid", "_prefix")

    def __init__(
        self, address: str | bytes = "127.0.0.1", *, now_ms: Callable[[], int] = wall_ms
    ) -> None:
        self._address = pack_host(address, 0)[:-4] if isinstance(address, str) else address
        if len(self._address) not in {4, 16}:
            raise ValueError(f"an address has 4 or 16 bytes, not {len(self._address)}")
        self._now_ms = now_ms
        self._last = 0
        self._month = (0, 0)
        self._begin()

    def next(self) -> str:
        """Give a new id of 32 (IPv4) or 56 (IPv6) digits."""
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            # Milliseconds and counter as one number: 16 bits of counter below.
            self._last = last = max(self._last + 1, self._now_ms() << 16)
            moment = last >> 16
            if not self._month[0] <= moment < self._month[1]:
                self._month = _month_around(moment)
            span = moment - self._month[0] & 0xFFFF_FFFF
            return f"{self._prefix}{span:08X}{last & 0xFFFF:04X}"

    def _begin(self) -> None:
        # A new lock too: after a fork the old one may be held by a thread that is not here.
        self._lock = Lock()
        pid = os.getpid()
        prefix = self._address + (pid & 0xFFFF).to_bytes(2) + os.urandom(4)
        self._prefix = prefix.hex().upper()
        self._pid = pid


def _month_around(moment_ms: int) -> tuple[int, int]:
    """First and next-first millisecond of the local month that holds the moment."""
    begin = datetime.fromtimestamp(moment_ms / 1000).replace(  # noqa: DTZ006 - local time is meant
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    following = (begin + timedelta(days=32)).replace(day=1)
    # A change of the zone's offset inside the month moves its borders: the moment stays inside.
    first = min(int(begin.timestamp() * 1000), moment_ms)
    return first, max(int(following.timestamp() * 1000), moment_ms + 1)


# --- recall --------------------------------------------------------------------------------


@frozen
class RecallHandle:
    """What a broker gives out for an accepted timer, and takes to recall it.

    `timestamp_ms` is one more than the message's wheel slot, which is before its due time;
    `uniq_key` is the message's UNIQ_KEY.
    """

    topic: str
    broker_name: str
    timestamp_ms: int
    uniq_key: str

    def encode(self) -> str:
        """Write the handle as URL-safe Base64 with padding."""
        return encode_recall_handle(
            self.topic.encode(),
            self.broker_name.encode(),
            self.timestamp_ms,
            self.uniq_key.encode(),
        ).decode()

    @classmethod
    def decode(cls, text: str | None) -> "RecallHandle":
        """Read a handle; missing padding and further items are accepted.

        Raises RemotingCommandException (a ValueError) for an empty or missing text, for anything
        but URL-safe Base64, another version, fewer than five items, and a time that is no number.
        """
        if not text:
            raise RemotingCommandException("the recall handle is empty")
        items = _handle_text(text).split(" ")
        if items[0] != _HANDLE_VERSION:
            if not _A_VERSION.fullmatch(items[0]):  # it was no handle before it was taken apart
                raise _bad_handle(text, f"it does not begin with {_HANDLE_VERSION!r}")
            raise _bad_handle(text, f"version {items[0]!r}, only {_HANDLE_VERSION!r} is known")
        if len(items) < _HANDLE_ITEMS or not items[4]:
            raise _bad_handle(text, "it has fewer than five items")
        try:
            timestamp_ms = parse_number(items[3])
        except ValueError as error:
            raise _bad_handle(text, f"its time {items[3][:40]!r} is no number") from error
        return cls(items[1], items[2], timestamp_ms, items[4])


def encode_recall_handle(
    topic: bytes, broker_name: bytes, timestamp_ms: int, uniq_key: bytes
) -> bytes:
    """Write a `RecallHandle` whose parts are encoded already.

    >>> encode_recall_handle(b"T", b"b", 1000, b"AB")
    b'djEgVCBiIDEwMDAgQUI='
    """
    text = b"v1 %b %b %d %b" % (topic, broker_name, timestamp_ms, uniq_key)
    # As urlsafe_b64encode does it, in half of its time.
    return b2a_base64(text, newline=False).translate(_URL_SAFE)


_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")


def _handle_text(text: str) -> str:
    bare = text.rstrip("=")
    padded = bare + "=" * (-len(bare) % 4)
    # Padding may be missing as a whole, but not in part.
    if not _URL_BASE64.fullmatch(text) or len(bare) % 4 == 1 or text not in {bare, padded}:
        raise _bad_handle(text, "it is no URL-safe Base64")
    return b64decode(padded, altchars=b"-_").decode("utf-8", "replace")


def _bad_handle(text: str, reason: str) -> RemotingCommandException:
    return RemotingCommandException(f"recall handle {text[:80]!r}: {reason}")

"""What a message's ``sysFlag`` says.

One 32-bit number that travels in send headers and in every stored record. This module must not
know records or bodies; `message_codec` sets the two address bits, `compression` reads the
compression bits. Layout as in ``org.apache.rocketmq.common.sysflag.MessageSysFlag``.

=============  ==================================================================
bits           meaning
=============  ==================================================================
0x001          the stored body is compressed
0x002          several tags (never used by clients)
0x00C          transaction: 0 none, 4 half, 8 commit, 12 rollback
0x010, 0x020   born host, store host is IPv6 (20 bytes instead of 8)
0x040, 0x080   needs unwrapping, inner batch (BatchCQ topics)
0x700          compression type: 0 and 3 zlib, 1 LZ4, 2 Zstandard
=============  ==================================================================
"""

from enum import IntEnum
from typing import Final

COMPRESSED: Final = 0x1
MULTI_TAGS: Final = 0x2

TRANSACTION_NONE: Final = 0x0
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
TRANSACTION_MASK: Final = 0xC

BORN_HOST_V6: Final = 0x10
STORE_HOST_V6: Final = 0x20
HOST_MASK: Final = BORN_HOST_V6 | STORE_HOST_V6

NEED_UNWRAP: Final = 0x40
INNER_BATCH: Final = 0x80
WRAPPED: Final = INNER_BATCH | NEED_UNWRAP
"""Of a record that holds a batch."""

COMPRESSION_MASK: Final = 0x700
_COMPRESSION_SHIFT: Final = 8


class CompressionType(IntEnum):
    """How a body is compressed; the value is what stands in the three compression bits.

    `UNSPECIFIED` with the compressed bit set means zlib: clients before 4.9.4 write it.
    """

    UNSPECIFIED = 0
    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


def compression_number(sys_flag: int) -> int:
    """Give the number in the compression bits, 0 to 7; `CompressionType` names 0 to 3."""
    return (sys_flag & COMPRESSION_MASK) >> _COMPRESSION_SHIFT


def with_compression(sys_flag: int, compression: CompressionType) -> int:
    """Mark the body as compressed this way."""
    return sys_flag & ~COMPRESSION_MASK | COMPRESSED | compression << _COMPRESSION_SHIFT


def without_compression(sys_flag: int) -> int:
    """Mark the body as plain; the type bits stay, as Java's client leaves them."""
    return sys_flag & ~COMPRESSED


def with_transaction_type(sys_flag: int, transaction: int) -> int:
    """Replace the transaction bits by one of the ``TRANSACTION_`` numbers."""
    return sys_flag & ~TRANSACTION_MASK | transaction

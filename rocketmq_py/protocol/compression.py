"""How bodies are compressed and, within a bound, decompressed.

Which way a body was compressed stands in its `sysflag`. zlib is always here; LZ4 and Zstandard
need the extras ``lz4`` and ``zstd`` and say so when they are missing. This module must not know
when to compress: that is a setting of the producer. Formats as in
``org.apache.rocketmq.common.compression``: zlib with header (RFC 1950), LZ4 and Zstandard frames.
"""

import zlib
from importlib import import_module
from types import ModuleType
from typing import Final

from rocketmq_py.errors import BodyError, BodyTooLargeError, how_to_install
from rocketmq_py.protocol.sysflag import CompressionType, compression_number

BODY_SIZE_MAX: Final = 64 * 1024 * 1024
"""Bytes to which a body may grow by default: sixteen times what an unchanged broker takes."""
BODY_SIZE_SETTING: Final = "decompressed_body_max_bytes"
"""The setting of clients that changes it."""

DEFAULT_LEVEL: Final = 5
"""What Java's client uses for every type."""

LEVEL_MAX: Final[dict[int, int]] = {
    CompressionType.UNSPECIFIED: 9,  # it is zlib
    CompressionType.ZLIB: 9,
    CompressionType.LZ4: 16,
    CompressionType.ZSTD: 22,
}
"""The highest level of each type."""

_ZSTD_PIECE: Final = 64

_GROWTH_MAX: Final[dict[int, int]] = {
    CompressionType.UNSPECIFIED: 1_032,  # 258 bytes for two bits
    CompressionType.ZLIB: 1_032,
    CompressionType.LZ4: 255,  # a byte lengthens a match by so many
    CompressionType.ZSTD: 32_768,  # a block of 128 KiB for four bytes
}


def compress(
    body: bytes,
    compression: CompressionType = CompressionType.ZLIB,
    level: int = DEFAULT_LEVEL,
) -> bytes:
    """Compress a body. Raises BodyError naming the extra if its library is not installed."""
    if compression is CompressionType.LZ4:
        return bytes(_lz4_frame().compress(body, compression_level=level))
    if compression is CompressionType.ZSTD:
        return bytes(_zstandard().ZstdCompressor(level=level).compress(body))
    return zlib.compress(body, level)


def decompressed_size_max(size: int, sys_flag: int) -> int:
    """Say how many bytes a compressed body of so many bytes can become at most, at least 1."""
    return max(1, size * _GROWTH_MAX.get(compression_number(sys_flag), 1))


def decompress(
    body: bytes, sys_flag: int, size_max: int = BODY_SIZE_MAX, setting: str = BODY_SIZE_SETTING
) -> bytes:
    """Give the original of a compressed body, whose type is read from its `sys_flag`.

    Type bits of 0 mean zlib. Never builds much more than `size_max` bytes (with Zstandard up to
    8 MiB more), however small the input: a larger original raises BodyTooLargeError, which names
    the ``setting`` that the limit is from. A truncated or foreign stream, an unknown type, and a
    type whose extra is not installed raise BodyError. What follows the end of the stream is not
    looked at.
    """
    number = compression_number(sys_flag)
    if number in {CompressionType.UNSPECIFIED, CompressionType.ZLIB}:
        original = _zlib_original(body, size_max)
    elif number == CompressionType.LZ4:
        original = _lz4_original(body, size_max)
    elif number == CompressionType.ZSTD:
        original = _zstd_original(body, size_max)
    else:
        raise BodyError("message", f"compression type {number} is unknown (sysFlag {sys_flag:#x})")
    if len(original) > size_max:
        raise BodyTooLargeError("message", len(body), size_max, setting)
    return original


def _zlib_original(body: bytes, size_max: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        original = stream.decompress(body, size_max + 1)
    except zlib.error as error:
        raise BodyError("message", f"no zlib stream: {error}") from error
    if not stream.eof and len(original) <= size_max:
        raise BodyError("message", "the zlib stream ends too early")
    return original


def _lz4_original(body: bytes, size_max: int) -> bytes:
    frame = _lz4_frame().LZ4FrameDecompressor()
    try:
        original = bytes(frame.decompress(body, max_length=size_max + 1))
    except (RuntimeError, ValueError, EOFError) as error:
        raise BodyError("message", f"no LZ4 frame: {error}") from error
    if not frame.eof and len(original) <= size_max:
        raise BodyError("message", "the LZ4 frame ends too early")
    return original


def _zstd_original(body: bytes, size_max: int) -> bytes:
    zstandard = _zstandard()
    # Its stream object has no output bound, so the input is fed in pieces too small to explode:
    # a block of 128 KiB takes at least four bytes.
    frame = zstandard.ZstdDecompressor().decompressobj()
    parts: list[bytes] = []
    length = 0
    try:
        for at in range(0, len(body), _ZSTD_PIECE):
            part = frame.decompress(body[at : at + _ZSTD_PIECE])
            parts.append(part)
            length += len(part)
            if frame.eof or length > size_max:
                break
    except (zstandard.ZstdError, MemoryError) as error:
        raise BodyError("message", f"no Zstandard frame: {error}") from error
    if not frame.eof and length <= size_max:
        raise BodyError("message", "the Zstandard frame ends too early")
    return b"".join(parts)


def _lz4_frame() -> ModuleType:
    return _library("lz4.frame", "LZ4", "lz4")


def _zstandard() -> ModuleType:
    return _library("zstandard", "Zstandard", "zstd")


def _library(module: str, name: str, extra: str) -> ModuleType:
    try:
        return import_module(module)
    except ImportError as error:
        reason = f"{name} compression needs {module.partition('.')[0]}: {how_to_install(extra)}"
        raise BodyError("message", reason) from error

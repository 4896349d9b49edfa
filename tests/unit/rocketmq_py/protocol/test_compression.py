"""Bodies are compressed and, within a bound, decompressed."""

from __future__ import annotations

import sys
import zlib

import pytest

from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.compression import compress, decompress, decompressed_size_max
from rocketmq_py.protocol.sysflag import CompressionType, with_compression

TEXT = "消息 message ".encode() * 500
INSTALLED = [CompressionType.ZLIB, CompressionType.LZ4, CompressionType.ZSTD]


@pytest.mark.case("W42")
@pytest.mark.parametrize("compression", INSTALLED)
@pytest.mark.parametrize("body", [TEXT, b"", b"\x00"])
def test_a_body_comes_back_as_it_was(compression: CompressionType, body: bytes) -> None:
    packed = compress(body, compression)
    assert body == decompress(packed, with_compression(0, compression))


@pytest.mark.parametrize("sys_flag", [0x1, 0x301])
def test_zlib_is_meant_by_type_zero_and_by_type_three(sys_flag: int) -> None:
    assert decompress(zlib.compress(TEXT, 5), sys_flag) == TEXT


@pytest.mark.case("W42")
@pytest.mark.parametrize("number", [4, 5, 6, 7])
def test_an_unknown_type_is_a_clear_error(number: int) -> None:
    with pytest.raises(BodyError, match=f"type {number} is unknown"):
        decompress(b"x", 1 | number << 8)


@pytest.mark.parametrize("compression", INSTALLED)
def test_a_body_that_would_grow_beyond_the_limit_is_refused(compression: CompressionType) -> None:
    flag = with_compression(0, compression)
    exact = compress(b"\x00" * 1000, compression)
    assert len(decompress(exact, flag, 1000)) == 1000
    with pytest.raises(BodyError, match="999 bytes of decompressed_body_max_bytes"):
        decompress(exact, flag, 999)


@pytest.mark.parametrize("compression", INSTALLED)
def test_a_bomb_is_refused_without_building_it(compression: CompressionType) -> None:
    bomb = compress(bytes(20 * 1024 * 1024), compression)
    with pytest.raises(BodyError, match="bytes of decompressed_body_max_bytes"):
        decompress(bomb, with_compression(0, compression), 1024)


@pytest.mark.parametrize("compression", INSTALLED)
def test_a_truncated_stream_is_refused(compression: CompressionType) -> None:
    packed = compress(TEXT, compression)
    for length in range(len(packed)):
        with pytest.raises(BodyError):
            decompress(packed[:length], with_compression(0, compression))


@pytest.mark.parametrize("compression", INSTALLED)
def test_bytes_that_are_no_stream_are_refused(compression: CompressionType) -> None:
    with pytest.raises(BodyError):
        decompress(b"no stream at all, but long enough", with_compression(0, compression))


@pytest.mark.parametrize(
    ("compression", "module", "extra"),
    [(CompressionType.LZ4, "lz4.frame", "lz4"), (CompressionType.ZSTD, "zstandard", "zstd")],
)
def test_a_missing_library_is_reported_with_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch, compression: CompressionType, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BodyError, match=f"install the extra {extra} "):
        decompress(b"x", with_compression(0, compression))
    with pytest.raises(BodyError, match=f"install the extra {extra} "):
        compress(b"x", compression)


@pytest.mark.parametrize("kind", [CompressionType.ZLIB, CompressionType.LZ4, CompressionType.ZSTD])
@pytest.mark.parametrize("size", [0, 1, 100, 1 << 20, 40 << 20])
def test_no_body_grows_beyond_what_its_kind_can_reach(kind: CompressionType, size: int) -> None:
    packed = compress(bytes(size), kind)
    assert decompressed_size_max(len(packed), with_compression(0, kind)) >= size

"""The bits of ``sysFlag``."""

from __future__ import annotations

import pytest

from rocketmq_py.protocol import sysflag
from rocketmq_py.protocol.sysflag import CompressionType


@pytest.mark.parametrize(
    ("flag", "compressed", "number"),
    [(0, False, 0), (1, True, 0), (769, True, 3), (0x101, True, 1), (0x201, True, 2)],
)
def test_the_flag_says_whether_and_how_a_body_is_compressed(
    flag: int, compressed: bool, number: int
) -> None:
    assert compressed is bool(flag & sysflag.COMPRESSED)
    assert number == sysflag.compression_number(flag)


def test_marking_a_body_as_compressed_replaces_the_type_and_keeps_the_rest() -> None:
    flag = sysflag.TRANSACTION_COMMIT | 0x701
    marked = sysflag.with_compression(flag, CompressionType.ZLIB)
    assert marked == 0x301 | sysflag.TRANSACTION_COMMIT
    assert sysflag.without_compression(marked) == 0x300 | sysflag.TRANSACTION_COMMIT


def test_the_transaction_bits_are_replaced_alone() -> None:
    flag = sysflag.with_transaction_type(0x301, sysflag.TRANSACTION_PREPARED)
    assert flag == 0x305
    assert flag & sysflag.TRANSACTION_MASK == sysflag.TRANSACTION_PREPARED
    flag = sysflag.with_transaction_type(flag, sysflag.TRANSACTION_ROLLBACK)
    assert flag & sysflag.TRANSACTION_MASK == sysflag.TRANSACTION_ROLLBACK


def test_each_host_has_its_own_address_bit() -> None:
    assert (sysflag.BORN_HOST_V6, sysflag.STORE_HOST_V6) == (0x10, 0x20)

"""Bits of a Bloom filter by themselves."""

from __future__ import annotations

import pytest

from embedded_broker.tables.consumers.bloom import bit_positions


@pytest.mark.parametrize(
    ("text", "positions"),
    [
        ("", [0, 0, 0]),
        ("G#T", [24, 26, 83]),
        ("G#Bestellung", [95, 107, 7]),
        ("consumers#an order", [96, 3, 22]),
        ("The quick brown fox jumps over the lazy dog", [24, 29, 109]),
        ("Gruppe-ä中😀#T", [39, 73, 107]),
    ],
)
def test_bits_are_those_that_rocketmq_5_3_3_computes(text: str, positions: list[int]) -> None:
    assert bit_positions(text) == positions

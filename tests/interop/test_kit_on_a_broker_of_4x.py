"""Tests of the SDK on a real 4.9.7; in a file of its own, so that no other file waits for it."""

from __future__ import annotations

import pytest

from tests.interop.sdk_runs import EMBEDDED, LONG_SECONDS, NEW, POPS, TESTS, counts, outcomes


@pytest.mark.case("W110")
@pytest.mark.timeout(LONG_SECONDS + 100)
def test_a_process_of_49() -> None:
    found, said = outcomes("process:4.9.7")
    skipped = POPS + NEW + EMBEDDED
    assert found == counts(TESTS - skipped, skipped)
    assert "RocketMQ has pops since 5.0: code 3" in said
    assert "process:4.9.7 does not offer delays of any length: RocketMQ has them since" in said

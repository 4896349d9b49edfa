"""Numbers of faults."""

from __future__ import annotations

import pytest

from embedded_broker.control.fault_numbers import FaultNumbers
from embedded_broker.store.fault_points import DiskFault


def test_a_fault_keeps_its_number_and_is_found_by_it() -> None:
    numbers = FaultNumbers()
    first, second = DiskFault("a"), DiskFault("b")
    assert [numbers.of(one) for one in (first, second, first)] == [1, 2, 1]
    assert numbers.find("2", [first, second]) is second
    with pytest.raises(KeyError, match="there are 1"):
        numbers.find("2", [first])

"""Which cases of a long table `make test` runs; the others have the mark ``slow``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")


def short_form(cases: Iterable[Case], is_in_it: Callable[[Case], bool]) -> list[Any]:
    """Give the parameters of a test: all cases, and ``slow`` those of the long commands only.

    A case that is a tuple gives several parameters.
    """
    return [
        one
        if is_in_it(one)
        else pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=pytest.mark.slow)
        for one in cases
    ]

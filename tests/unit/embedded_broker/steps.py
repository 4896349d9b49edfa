"""Work in steps, done by a test."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any


def rests(work: Generator[Callable[[], Any] | None, Any, Any]) -> Iterator[None]:
    """Do the calls that work asks for; stop wherever it may rest."""
    result = None
    while True:
        try:
            call = work.send(result)
        except StopIteration:
            return
        result = None if call is None else call()
        if call is None:
            yield

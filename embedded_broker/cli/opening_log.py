"""Warnings of an opening store: those that the printed report tells are not printed again.

Answers: which warnings a program still has to print once it has printed its report. Without this
the last resort of `logging` writes them to stderr at once, and the report repeats them. Must not
know: what was wrong. Read on: `serve.py` and `store.py`, which print reports.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_PACKAGE: Final = "embedded_broker"


class OpeningLog(logging.Handler):
    """Holds warnings back; `left` gives those that the lines of a report do not tell."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what it says."""
        self._lines.append(record.getMessage())

    def left(self, told: str) -> Iterator[str]:
        """Give every warning once that is no part of what was told, and forget them all."""
        lines, self._lines = dict.fromkeys(self._lines), []
        return (line for line in lines if line not in told)


@contextmanager
def opening_log() -> Iterator[OpeningLog]:
    """Hold the warnings of the broker back until the end of the block."""
    held, logger = OpeningLog(), logging.getLogger(_PACKAGE)
    logger.addHandler(held)
    try:
        yield held
    finally:
        logger.removeHandler(held)

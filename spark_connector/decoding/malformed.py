"""How many messages of a task could not be decoded, where, and why: for one line in the log.

Must not know bytes or columns. Read on: ``decoder.py``.
"""

import logging

from attrs import define, field

_log = logging.getLogger("spark_connector")

SHOWN = 5


@define
class Malformed:
    """Counts what could not be decoded and keeps the first reasons, which name the places."""

    count: int = 0
    _first: list[str] = field(factory=list, init=False)

    def add(self, why: str) -> None:
        """Take one message that could not be decoded."""
        self.count += 1
        if len(self._first) < SHOWN:
            self._first.append(why)

    def forget_since(self, count: int) -> None:
        """Take back what came after the first so many, which are decoded once more."""
        self.count = count
        del self._first[count:]

    def tell(self, where: str, mode: str) -> None:
        """Log all of them together, if there are any."""
        if self.count:
            _log.warning(
                "%d messages cannot be decoded (mode=%s) of %s: %s%s",
                self.count,
                mode,
                where,
                "; ".join(self._first),
                "; and more" * (self.count > SHOWN),
            )

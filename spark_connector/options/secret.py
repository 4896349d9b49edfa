"""How a secret travels between Spark's processes without showing up in texts.

Spark can print local variables and whole objects; this one prints as ``***``. It does pickle:
executors need the key. Must not know what the secret opens.
"""

from __future__ import annotations

__all__ = ["Secret"]


class Secret:
    """A text whose ``repr`` and ``str`` are ``***``; `reveal` gives it.

    >>> Secret("abc"), str(Secret("abc")), Secret("abc").reveal()
    (***, '***', 'abc')
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the secret."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (self._text,)

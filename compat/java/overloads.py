"""Which of Java's overloads a call means, told by the number and the kinds of its arguments.

A form is one overload: its arguments in order, each with a name, and what may stand there. Must
not know what is done with them.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from attrs import frozen


@frozen
class Argument:
    """One argument of an overload."""

    name: str
    shown: str
    accepts: Callable[[object], bool] = lambda _: True


Form: TypeAlias = tuple[Argument, ...]


def read(owner: str, forms: Sequence[Form], given: Sequence[object]) -> dict[str, Any]:
    """Give the arguments by name; `TypeError` with all forms when none of them fits."""
    for form in forms:
        if len(form) == len(given) and all(
            argument.accepts(value) for argument, value in zip(form, given, strict=True)
        ):
            return {argument.name: value for argument, value in zip(form, given, strict=True)}
    shown = ", ".join(f"({', '.join(argument.shown for argument in form)})" for form in forms)
    kinds = ", ".join(type(value).__name__ for value in given)
    raise TypeError(f"{owner} takes one of {shown}: not ({kinds})")

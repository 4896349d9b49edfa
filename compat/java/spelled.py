"""What the classes here have in common: an answer to a Java name that they lack.

`JavaNames` adds the reasons of ``names.py`` to what the SDK says. Must not know the classes.
"""

from typing import TYPE_CHECKING

from compat.java.names import reason_of
from rocketmq_py.spelling import Spelled


class JavaNames(Spelled):
    """Base of classes that have Java's names."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a checker that saw this method would accept every name

        def __getattr__(self, name: str) -> object:
            reason = None if name.startswith("_") else reason_of(type(self), name)
            if reason is not None:
                text = f"{type(self).__name__} has no {name}: {reason}"
                raise AttributeError(text, name=name, obj=self)
            return super().__getattr__(name)

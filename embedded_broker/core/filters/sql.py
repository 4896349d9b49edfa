"""SQL92 expressions as filters: which messages match by their properties.

Must not know: topics, groups, how an expression is read (``sql_parser.py``) or what its parts mean
(``sql_terms.py``). As in the original (``ExpressionMessageFilter``) a message matches only if the
expression is true for it; one that cannot be evaluated does not match.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from attrs import frozen

from embedded_broker.core.filters.sql_terms import Term
from embedded_broker.core.filters.sql_values import NoMatch, SqlError
from embedded_broker.store.consume_queue import Entry
from rocketmq_py.errors import BodyError

SQL92: Final = "SQL92"


@frozen
class SqlFilter:
    """Messages for which an expression is true."""

    term: Term
    codes: ClassVar[None] = None
    reads_properties: ClassVar[bool] = True

    @property
    def steps(self) -> int:
        """How many terms are evaluated for a message at most."""
        return self.term.steps

    def accepts(self, entry: Entry, properties: Mapping[str, str] | None) -> bool:  # noqa: ARG002
        """Say whether the expression is true for the message."""
        return properties is not None and self.matches(properties)

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Say whether the expression is true for these properties."""
        try:
            return self.term.give(properties) is True
        except NoMatch:
            return False


def sql_filter(
    expression: str,
    codes: frozenset[int],  # noqa: ARG001 - of tags
    *,
    with_searches: bool = True,
) -> SqlFilter:
    """Make the filter of an expression; raises ``BodyError`` for one that is wrong."""
    from embedded_broker.core.filters.sql_parser import parse  # for those who use it

    try:
        return SqlFilter(parse(expression, with_searches=with_searches))
    except SqlError as error:
        raise BodyError(SQL92, str(error)) from error

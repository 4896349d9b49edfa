"""Message filters: which messages a subscription wants.

Answers: how an expression becomes a filter, for each type of expression there is. What a filter is
asked stands in ``embedded_broker/store/filter_budget.py`` (``Filter``). To add a type: a module
beside ``tags.py`` with a class of filters and its maker, and a line in ``Filters.makers``. Must not
know: queues, who subscribes, long polling.
"""

from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Final

from embedded_broker.core.filters.sql import SQL92, SqlFilter, sql_filter
from embedded_broker.core.filters.tags import NO_TAG, TagFilter, tag_filter
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.store.filter_budget import Filter
from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.bodies.heartbeat import TAG

__all__ = ["NO_TAG", "Filter", "Filters", "Maker", "SqlFilter", "TagFilter", "Unmade"]

Maker = Callable[[str, frozenset[int]], Filter | None]
"""Makes a filter of an expression and the tags codes that came with it.

It gives None when every message passes, and raises ``BodyError`` for an expression that is wrong.
"""

Asked = tuple[str | None, str, frozenset[int]]
"""Type and text of an expression, and the tags codes that came with it."""

LONG: Final = 1024
"""To read a longer expression takes more than a few milliseconds: that is done outside the door."""
_KEPT_MAX: Final = 1024
_KEPT_LENGTH_MAX: Final = 256 * 1024
"""So many filters are kept, of so many characters and codes together; the last one always."""
_NO_CODES: Final[frozenset[int]] = frozenset()
_NOT_MADE: Final = BodyError("SubscriptionData", "was not made yet")


class Unmade(Exception):  # noqa: N818 - no error: the filter is to be made elsewhere
    """A filter that takes long to be made."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self.asked = asked


class Filters:
    """Makes filters. One that was made for an expression is given again for the same.

    ``with_sql`` says whether SQL92 may be used now, ``with_searches`` whether it has CONTAINS,
    STARTSWITH and ENDSWITH.
    """

    def __init__(
        self, *, with_sql: Callable[[], bool] = lambda: True, with_searches: bool = True
    ) -> None:
        by_sql = partial(sql_filter, with_searches=with_searches)
        self.makers: dict[str, Maker] = {TAG: tag_filter, SQL92: by_sql}
        """By type of expression; the name is what clients say."""
        self._with_sql = with_sql
        self._made: dict[Asked, Filter | BodyError | None] = {}
        self._kept_length = 0
        self._lock = Lock()
        """Of what is kept: some filters are made outside the door."""

    def allow(self, kind: str | None) -> None:
        """Refuse filters by properties where the broker's settings do."""
        if (kind or TAG) != TAG and not self._with_sql():
            raise Refused(
                Reason.FAILED, f"The broker does not support consumer to filter message by {kind}"
            )

    def check(self, kind: str | None, expression: str) -> None:
        """Refuse an expression that is wrong, as the original's request 46 does."""
        if (kind or TAG) == TAG:
            return  # nobody looks at tags there
        self.allow(kind)
        problem = self.problem(kind, expression)
        if problem is not None:
            raise Refused(Reason.SUBSCRIPTION_PARSE_FAILED, problem)

    def of(self, kind: str | None, expression: str) -> Filter | None:
        """Give the filter of an expression that somebody asks with; None: every message passes.

        Refuses a type of expression that nobody makes filters of, and a wrong expression.
        """
        self.allow(kind)
        try:
            return self.made(kind, expression)
        except BodyError as error:
            raise Refused(
                Reason.SUBSCRIPTION_PARSE_FAILED,
                f"parse the consumer's subscription failed: {error.reason}",
            ) from error

    def problem(self, kind: str | None, expression: str) -> str | None:
        """Say what is wrong with an expression, whoever may use it; None: nothing."""
        try:
            self.made(kind, expression)
        except BodyError as error:
            return error.reason
        return None

    def made(
        self, kind: str | None, expression: str, codes: frozenset[int] = _NO_CODES
    ) -> Filter | None:
        """Give the filter of an expression, whoever may use it; None: every message passes.

        `codes` are the tags codes that came with it. Raises ``BodyError`` for an expression that
        is wrong, and for a type of expression that nobody makes filters of.
        """
        asked = (kind, expression, codes)
        made = self._made.get(asked, _NOT_MADE)
        if made is _NOT_MADE:
            made = self.make(asked)
        if isinstance(made, BodyError):
            raise made
        return made

    def demand_made(self, kind: str | None, expression: str, codes: frozenset[int]) -> None:
        """Raise ``Unmade`` for a filter that takes long to be made, and was not made yet."""
        asked = (kind, expression, codes)
        if len(expression) > LONG and asked not in self._made:
            raise Unmade(asked)

    def make(self, asked: Asked) -> Filter | BodyError | None:
        """Make a filter and keep it, or what is wrong with its expression; on any thread."""
        kind, expression, codes = asked
        maker = self.makers.get(kind or TAG)
        made: Filter | BodyError | None
        if maker is None:
            known = " and ".join(self.makers)
            made = BodyError("SubscriptionData", f"{kind} is no type of expression: {known} are")
        else:
            try:
                made = maker(expression, codes)
            except BodyError as error:
                made = error
        size = len(expression) + len(codes)
        with self._lock:
            if len(self._made) >= _KEPT_MAX or self._kept_length + size > _KEPT_LENGTH_MAX:
                self._made.clear()
                self._kept_length = 0
            self._made[asked] = made
            self._kept_length += size
        return made

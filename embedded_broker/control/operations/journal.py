"""The journal: which requests came, and how each one ended.

Read on: ``embedded_broker/remoting/journal.py``.
"""

from collections.abc import Callable
from typing import Final

from attrs import define, frozen

from embedded_broker.api.broker import EmbeddedBroker
from embedded_broker.control.fields import Field, FieldType
from embedded_broker.control.operation import TIMEOUT, Call, Operation
from embedded_broker.remoting.journal import ENTRIES_MAX, JournalEntry


@frozen(kw_only=True)
class JournalPage:
    """How many requests fit, and the last ones of them, oldest first."""

    count: int
    requests: tuple[JournalEntry, ...]


@frozen(kw_only=True)
class Forgotten:
    """How many requests were forgotten."""

    count: int


@define(repr=False)
class _Enough:
    """The condition of a wait: so many requests that fit."""

    _find: Callable[[], list[JournalEntry]]
    _count: int
    _about: str

    def __call__(self, _: EmbeddedBroker) -> bool:
        return len(self._find()) >= self._count

    def __repr__(self) -> str:
        return f"{self._count} requests in the journal{self._about}"


def read_journal(call: Call) -> JournalPage:
    """Tell the requests that fit, with their answers; with a count, wait until so many came."""
    wanted = call.only("code", "topic", "group", "client")

    def find() -> list[JournalEntry]:
        return call.broker.journal.requests(**wanted)

    if call["count"]:
        about = "".join(f", {name} {value}" for name, value in wanted.items() if value is not None)
        find()  # an unknown code is said at once
        call.broker.wait_for(_Enough(find, call["count"], about), timeout=call["timeout"])
    found = find()
    return JournalPage(count=len(found), requests=tuple(found[-call["last"] :]))


def clear_journal(call: Call) -> Forgotten:
    """Forget all requests so far."""
    count = len(call.broker.journal)
    call.broker.journal.clear()
    return Forgotten(count=count)


JOURNAL: Final = (
    Operation(
        "GET",
        "/journal",
        read_journal,
        (
            Field("code", FieldType.CODE, "Only this request, such as PULL_MESSAGE."),
            Field("topic", FieldType.TEXT, "Only requests about this topic."),
            Field("group", FieldType.TEXT, "Only requests of this group."),
            Field("client", FieldType.TEXT, "Only the client whose id begins so."),
            Field(
                "last",
                FieldType.INTEGER,
                "How many of them to tell.",
                default=100,
                low=1,
                high=ENTRIES_MAX,
            ),
            Field("count", FieldType.INTEGER, "Wait until there are so many.", default=0, low=0),
            TIMEOUT,
        ),
    ),
    Operation("DELETE", "/journal", clear_journal),
)

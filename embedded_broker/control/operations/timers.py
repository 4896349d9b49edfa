"""What waits for its time: list it, take it back, let it leave now or at another time.

Must not know: timer engines. Read on: ``embedded_broker/api/views/timers.py``.
"""

from contextlib import suppress
from datetime import datetime
from typing import Final

from attrs import frozen

from embedded_broker.api.views import Bodies, PendingTimer
from embedded_broker.api.views.timers import SHOWN
from embedded_broker.clocks.instants import epoch_ms
from embedded_broker.control.fields import Field, FieldType
from embedded_broker.control.operation import PAGE_MAX, Call, Operation, answer_bodies
from embedded_broker.errors import MessageNotFound
from embedded_broker.timer.listing import BEFORE_ALL, NEVER_MS, ListPosition, TimerKind
from embedded_broker.timer.outcomes import RecallOutcome
from rocketmq_py.errors import ConfigError


@frozen(kw_only=True)
class WaitingTimer:
    """One message that waits for its time; empty: body and properties not asked for, or gone."""

    msg_id: str
    topic: str
    queue_id: int
    due_at: datetime
    accepted_at: datetime
    rolls: int
    keys: tuple[str, ...]
    size: int
    kind: TimerKind
    tags: str | None
    recall_handle: str | None
    body: bytes
    properties: dict[str, str]


@frozen(kw_only=True)
class TimerPage:
    """How many messages wait, and a page of them by due time; ``next`` leads to the next page."""

    count: int
    next_due: datetime | None
    timers: tuple[WaitingTimer, ...]
    next: str | None


@frozen(kw_only=True)
class Recalled:
    """What became of a request to take a timer back."""

    outcome: RecallOutcome


@frozen(kw_only=True)
class Moved:
    """The timer that was moved or fired."""

    msg_id: str


def list_timers(call: Call) -> TimerPage:
    """List the messages that wait for their time, those at delay levels and retries included."""
    timers, limit = call.broker.timers, call["limit"]
    kind = call["kind"]
    after, since = _place(call["after"]), call["since"]
    if since is not None:
        after = max(after, ListPosition(epoch_ms(since) - 1, NEVER_MS))
    found = timers.pending(
        **call.only("topic", "before"),
        kind=None if kind is None else TimerKind(kind),
        limit=limit,
        after=after,
    )
    bodies = answer_bodies() if call["bodies"] else None
    return TimerPage(
        count=timers.count(topic=call["topic"]),
        next_due=timers.next_due(),
        timers=tuple(_waiting(one, bodies) for one in found),
        next=f"{found[-1].place.due_ms}.{found[-1].place.root}" if len(found) == limit else None,
    )


def recall_timer(call: Call) -> Recalled:
    """Take back a pending timer. It works until the release itself."""
    return Recalled(outcome=call.broker.timers.recall(call["id"], topic=call["topic"]))


def fire_timer(call: Call) -> Moved:
    """Deliver a pending timer at once."""
    call.broker.timers.fire_now(call["id"], topic=call["topic"])
    return Moved(msg_id=call["id"])


def reschedule_timer(call: Call) -> Moved:
    """Give a pending timer another time. One in the past delivers it at once."""
    call.broker.timers.reschedule(call["id"], **call.only("deliver_at", "topic"))
    return Moved(msg_id=call["id"])


def _waiting(one: PendingTimer, bodies: Bodies | None) -> WaitingTimer:
    body: bytes = b""
    properties: dict[str, str] = {}
    if bodies is not None:
        with suppress(MessageNotFound):  # it left while the page was made
            body, properties = one.body_within(bodies), one.properties
    shown = {name: getattr(one, name) for name in SHOWN}
    return WaitingTimer(**shown, body=body, properties=properties)


def _place(text: str | None) -> ListPosition:
    """Read the place at which a page ended."""
    if text is None:
        return BEFORE_ALL
    due_ms, _, root = text.partition(".")
    if not (due_ms.isdecimal() and root.isdecimal()):
        raise ConfigError("after", text, "what the page before gave as next")
    return ListPosition(int(due_ms), int(root))


_TOPIC: Final = Field("topic", FieldType.TEXT, "Only what will go to this topic.")
TIMERS: Final = (
    Operation(
        "GET",
        "/timers",
        list_timers,
        (
            _TOPIC,
            Field("since", FieldType.INSTANT, "Only what is due at this time or later."),
            Field("before", FieldType.INSTANT, "Only what is due before this."),
            Field(
                "kind",
                FieldType.TEXT,
                "Only what asked for its delay in this way.",
                choices=tuple(one.value for one in TimerKind),
            ),
            Field("limit", FieldType.INTEGER, "Size of a page.", default=100, low=1, high=PAGE_MAX),
            Field("after", FieldType.TEXT, "The field next of the page before."),
            Field(
                "bodies",
                FieldType.FLAG,
                "Whether bodies and properties are given. Without them a page is several times as "
                "fast.",
                default=True,
            ),
        ),
    ),
    Operation("POST", "/timers/{id}/recall", recall_timer, (_TOPIC,)),
    Operation("POST", "/timers/{id}/fire", fire_timer, (_TOPIC,)),
    Operation(
        "POST",
        "/timers/{id}/reschedule",
        reschedule_timer,
        (Field("deliver_at", FieldType.INSTANT, "The new time.", required=True), _TOPIC),
    ),
)

"""Recorder: what arrived in a topic, and what a test expects to arrive.

Answers: ``rocketmq_recorder(topic)``: a consumer that notes every delivery, and expectations that
go forward in the broker's time instead of sleeping. Must not know: pytest, what kind of broker it
is. Read on: ``embedded_broker/kit/failure_text.py`` for the text of an expectation that failed.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Lock

from embedded_broker.api.views import StoredMessage
from embedded_broker.clocks.instants import instant
from embedded_broker.clocks.waiting import refuse_in_event_loop
from embedded_broker.kit.failure_text import Arrival, FailedExpectation, failure_text
from embedded_broker.kit.fixture_broker import QUIET_S, FixtureBroker
from embedded_broker.kit.threads import in_thread
from rocketmq_py import ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus, MessageExt
from rocketmq_py.errors import ConfigError

Span = timedelta | float
"""A timedelta, or seconds."""
Body = bytes | str | Callable[[MessageExt], object]
"""What is expected: a body (text as UTF-8), or a function that says yes to the message."""

SPAN_MAX = timedelta(days=36_500)
EARLY_OK = timedelta(seconds=1)
"""On wall time, how much earlier than ``after`` is right: a real broker rounds down to seconds."""


class Recorder:
    """Notes what a consumer group of its own gets from a topic.

    Each expectation takes one delivery that no other expectation has taken. Time goes forward in
    the broker's virtual clock, so waiting for half an hour takes milliseconds. On a broker with
    wall time an expectation really waits.
    """

    def __init__(self, fixture: FixtureBroker, topic: str, tags: str, group: str) -> None:
        self.topic = topic
        self.tags = tags
        self.group = group
        self._fixture = fixture
        self._lock = Lock()
        self._arrivals: list[Arrival] = []
        self._known: set[str | None] = set()
        """The ids of the arrivals."""

    def __repr__(self) -> str:
        return f"<recorder of {self.topic}: {len(self.messages)} messages>"

    # -- what came ----------------------------------------------------------------------------

    @property
    def messages(self) -> list[MessageExt]:
        """Every delivery so far, in the order in which they came."""
        return [one.message for one in self._seen()]

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of all deliveries so far."""
        return [one.message.body for one in self._seen()]

    @property
    def texts(self) -> list[str]:
        """The same as text."""
        return [one.message.body.decode() for one in self._seen()]

    @property
    def duplicates(self) -> list[MessageExt]:
        """The deliveries whose id had come before."""
        return [one.message for one in self._seen() if one.again]

    @property
    def unexpected(self) -> list[MessageExt]:
        """The deliveries that no expectation has taken."""
        return [one.message for one in self._seen() if not one.taken]

    def dead_letters(self, group: str) -> list[StoredMessage]:
        """Give the messages that a consumer group gave up, oldest first."""
        return self._fixture.dead_letters(group)

    def clear(self) -> None:
        """Forget what came."""
        with self._lock:
            self._arrivals.clear()
            self._known.clear()

    # -- what is expected ---------------------------------------------------------------------

    def expect(self, body: Body, *, within: Span = 0, after: Span = 0) -> MessageExt:
        """Go forward until a message arrives, and return it.

        ``within``: at most this far from now (seconds or a timedelta). Without it, the message has
        to be on its way now. ``after``: it must not be there before, and without a longer
        ``within`` it has to come then. On wall time ``after`` counts from the send, if that was
        before: a machine that is slow in between does not shorten a delay. Fails with what was
        expected, what arrived, what still waits and until when.
        """
        __tracebackhide__ = True
        refuse_in_event_loop("recorder.expect(...)", "await recorder.aio.expect(...)")
        held, began = _span("after", after), self._fixture.now()
        latest = max(_span("within", within), held)
        wanted = _as_test(body)
        reached = self._fixture.until(lambda: self._find(wanted) is not None, latest)
        found = self._find(wanted)
        earliest = began + held if held else None
        if found is None:
            raise self._failed(body, began, latest, reached.trouble, earliest)
        if held:
            earliest = self._since(found.message, began) + held
            if self._is_early(found.message, earliest):
                raise self._failed(body, began, latest, "", earliest, too_early=found)
        found.taken = True
        return found.message

    def expect_nothing(self, *, within: Span = 0) -> None:
        """Go forward by ``within``; fails if anything arrives that no expectation has taken."""
        __tracebackhide__ = True
        refuse_in_event_loop(
            "recorder.expect_nothing(...)", "await recorder.aio.expect_nothing(...)"
        )
        span, began = _span("within", within), self._fixture.now()
        reached = self._fixture.until(lambda: self.unexpected, span, grace_s=QUIET_S)
        if self.unexpected:
            raise self._failed(None, began, span, "")
        if reached.trouble:
            raise self._failed(None, began, span, reached.trouble)

    @property
    def aio(self) -> "AsyncRecorder":
        """The expectations as coroutines, for tests in an event loop."""
        return AsyncRecorder(self)

    # -- inside -------------------------------------------------------------------------------

    def listen(
        self, messages: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        """Note what comes; the listener of its consumer."""
        del context
        with self._lock:
            for message in messages:
                self._arrivals.append(Arrival(message, again=message.msg_id in self._known))
                self._known.add(message.msg_id)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    def _seen(self) -> list[Arrival]:
        with self._lock:
            return list(self._arrivals)

    def _find(self, wanted: Callable[[MessageExt], object]) -> Arrival | None:
        return next((one for one in self._seen() if not one.taken and wanted(one.message)), None)

    def _since(self, message: MessageExt, began: datetime) -> datetime:
        """Give the time from which ``after`` counts."""
        return began if self._fixture.is_virtual else min(began, instant(message.born_timestamp))

    def _is_early(self, message: MessageExt, earliest: datetime) -> bool:
        early = earliest - instant(message.store_timestamp)
        return early > (timedelta(0) if self._fixture.is_virtual else EARLY_OK)

    def _failed(
        self,
        body: Body | None,
        began: datetime,
        latest: timedelta,
        trouble: str,
        earliest: datetime | None = None,
        too_early: Arrival | None = None,
    ) -> AssertionError:
        return AssertionError(
            failure_text(
                self._fixture,
                FailedExpectation(
                    topic=self.topic,
                    tags=self.tags,
                    body=body,
                    began=began,
                    within=latest,
                    earliest=earliest,
                    arrivals=self._seen(),
                    trouble=trouble,
                    too_early=too_early,
                ),
            )
        )


class AsyncRecorder:
    """The expectations of one recorder as coroutines."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def expect(self, body: Body, *, within: Span = 0, after: Span = 0) -> MessageExt:
        """Go forward until a message arrives; see ``Recorder.expect``."""
        return await in_thread(lambda: self._recorder.expect(body, within=within, after=after))

    async def expect_nothing(self, *, within: Span = 0) -> None:
        """Go forward; fails if anything arrives; see ``Recorder.expect_nothing``."""
        await in_thread(lambda: self._recorder.expect_nothing(within=within))


def _span(name: str, value: Span) -> timedelta:
    if isinstance(value, bool) or not isinstance(value, (int, float, timedelta)):
        raise TypeError(f"{name}: give seconds or a timedelta, not {value!r}")
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not 0 <= seconds <= SPAN_MAX.total_seconds():
        raise ConfigError(name, value, f"from 0 to {SPAN_MAX.days} days")
    return value if isinstance(value, timedelta) else timedelta(seconds=value)


def _as_test(body: Body) -> Callable[[MessageExt], object]:
    if isinstance(body, str):
        body = body.encode()
    if isinstance(body, bytes):
        wanted = body
        return lambda message: message.body == wanted
    if callable(body):
        return body
    raise TypeError(f"expect a body as bytes or str, or a function of the message, not {body!r}")

"""Many requests that are entered, written and timed as one call, and answered one by one: a run.

A call of its own for each row of a table costs more than its bytes; a request of a run has a number
in it, and no object before somebody asks what became of it. Each has an outcome of its own all the
same: an answer, an error, or the end of its time. Must not know what the requests say, routes or
retries. Read on in ``calls.py`` for the book in which each of them stands.
"""

from _thread import allocate_lock
from collections.abc import Callable, Sequence
from functools import partial

from rocketmq_py.errors import RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.codes import SerializeType
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Buffer, Frame
from rocketmq_py.protocol.header_form import HeaderForm
from rocketmq_py.protocol.header_json import opaque_of_success
from rocketmq_py.transport.calls import BIG_BODY, OPAQUE_MASK, Call, CallTable, Done

_log = get_logger(__name__)

Outcome = Frame | RemotingCommand | RocketMQError
"""Of one request: a frame that says success and is not read further, any other answer, or why there
is none."""

_OPEN = RocketMQError("no outcome yet")


class RequestRun(Call):
    """Requests of one form, which differ in one field and the body.

    ``ended`` is called once, when each of them has its outcome, on any thread; it must not block.
    """

    __slots__ = ("_bodies", "_first", "_form", "_lock", "_open", "_values", "ended", "outcomes")

    def __init__(
        self,
        form: HeaderForm,
        values: Sequence[str],
        bodies: Sequence[Buffer],
        ended: Callable[["RequestRun"], None],
    ) -> None:
        average = sum(map(len, bodies)) // max(1, len(bodies))
        super().__init__(None, average if average >= BIG_BODY else 0)
        self._form = form
        self._values = values
        self._bodies = bodies
        self._first = 0
        self._lock = allocate_lock()
        self._open = len(bodies)
        self.ended = ended
        self.outcomes: list[Outcome] = [_OPEN] * len(bodies)

    def __len__(self) -> int:
        return len(self._bodies)

    # --- on the way ------------------------------------------------------------------------

    def enter(self, calls: CallTable) -> None:
        """Stand in the book under an opaque for each request; raises when these are too many."""
        self._first = calls.open_many(self, len(self))

    def frames(self) -> bytes:
        """Write all requests, one behind the other; raises for one that cannot be written."""
        return self._form.frames(self._opaques(), self._values, self._bodies)

    def end_in(self, calls: CallTable, error: RocketMQError) -> None:
        """End by an error what still stands in the book."""
        for opaque in self._opaques():
            calls.end(opaque, error)

    def drop_from(self, calls: CallTable) -> None:
        """Take what still stands in the book out of it, without an outcome."""
        for opaque in self._opaques():
            calls.pop(opaque)

    def _opaques(self) -> list[int]:
        return [one & OPAQUE_MASK for one in range(self._first, self._first + len(self))]

    # --- one by one ------------------------------------------------------------------------

    def command(self, number: int) -> RemotingCommand:
        """Make one of the requests by itself."""
        return self._form.command(self._values[number], self._bodies[number])

    def commands(self) -> list[RemotingCommand]:
        """Make all requests by themselves, for those who look at each."""
        return [self.command(number) for number in range(len(self))]

    def dones(self) -> list[Done]:
        """Give what takes the outcome of each of the `commands`."""
        return [partial(self.end, number) for number in range(len(self))]

    def again(self, count: int) -> None:
        """Wait once more for the outcomes of so many requests; nobody waits for any now."""
        self._open = count

    # --- the end ---------------------------------------------------------------------------

    def end(self, number: int, answer: RemotingCommand | None, error: RocketMQError | None) -> None:
        """Take the outcome of one request."""
        outcome = answer if answer is not None else error
        if outcome is not None:
            self.outcomes[number] = outcome
        self.close(1)

    def finish(self, response: RemotingCommand | None, error: RocketMQError | None) -> None:
        """Take the answer to the request that it names."""
        if response is not None:
            self.end(self.number_of(response.opaque), response, error)

    def fail(self, opaque: int, error: RocketMQError) -> None:
        """End one request by an error."""
        self.end(self.number_of(opaque), None, error)

    def number_of(self, opaque: int) -> int:
        """Return which of the requests has this opaque."""
        return (opaque - self._first) & OPAQUE_MASK

    def close(self, count: int) -> None:
        """Say that so many requests more have their outcome."""
        with self._lock:
            self._open -= count
            if self._open:
                return
        try:
            self.ended(self)
        except Exception:  # noqa: BLE001 - the reader outlives who takes the outcomes
            _log.exception("taking the outcomes of a run failed")


def take_answers(calls: CallTable, frames: Sequence[Frame]) -> list[Frame]:
    """Give runs the answers that say success, and return the frames that are something else."""
    rest: list[Frame] = []
    closed: dict[RequestRun, int] = {}
    for frame in frames:
        kind, header, _ = frame
        opaque = opaque_of_success(header) if kind == SerializeType.JSON else None
        run = None if opaque is None else calls.find(opaque)
        if opaque is None or not isinstance(run, RequestRun):
            rest.append(frame)
        elif calls.pop(opaque) is not None:  # else its time is over this very moment
            run.outcomes[run.number_of(opaque)] = frame
            closed[run] = closed.get(run, 0) + 1
    for run, count in closed.items():
        run.close(count)
    return rest

"""How many futures become one: places asked side by side, servers asked one after the other.

`SideBySide` begins a call for each of many places, no more than `IN_FLIGHT_MOST` of a server at a
time, and has what became of each. `Ladder` asks servers for one and the same until one answers.
Nothing here waits; every outcome is a future's, whose callbacks must not block. Must not know what
is asked: that is `asking.py`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Generic, TypeVar

from attrs import define, field

from rocketmq_py.errors import MQClientException, RemotingException, RocketMQError

IN_FLIGHT_MOST = 256
"""Calls that one server has before it at a time, so that the last one is not late."""

_K = TypeVar("_K", bound=Hashable)
_T = TypeVar("_T")
_U = TypeVar("_U")


class SideBySide(Generic[_K, _T]):
    """Calls for many places, until each has its outcome.

    ``lanes`` says what stands for the server of each place; ``begin`` makes the call of one, whose
    future must end in time; ``submit`` runs something on a thread that may work, and says whether
    it will. `result` has the outcomes in the order of the places, and fails by what is no error of
    ours. A server that does not answer one call is not asked the later ones. With ``first_alone``
    the calls of a lane are made one after the other until one has succeeded, then side by side.
    """

    def __init__(
        self,
        lanes: Mapping[_K, object],
        begin: Callable[[_K], Future[_T]],
        submit: Callable[..., bool],
        *,
        first_alone: bool = False,
    ) -> None:
        self.result: Future[dict[_K, _T | RocketMQError]] = Future()
        self._order = list(lanes)
        self._begin = begin
        self._submit = submit
        self._lock = threading.Lock()
        self._open = len(lanes)
        self._found: dict[_K, _T | RocketMQError] = {}
        self._trouble: BaseException | None = None
        found: dict[object, _Lane[_K]] = {}
        for place, lane in lanes.items():
            found.setdefault(lane, _Lane.of(first_alone=first_alone)).waiting.append(place)
        if not found:
            self.result.set_result({})
        for one in found.values():
            self._pump(one)

    def _pump(self, lane: _Lane[_K]) -> None:
        """Begin what waits, as far as there is room; one thread at a time does that for a lane."""
        with self._lock:
            if lane.is_pumped:
                return
            lane.is_pumped = True
        while True:
            with self._lock:
                if not lane.waiting or not lane.room:
                    lane.is_pumped = False
                    return
                place = lane.waiting.popleft()
                lane.room -= 1
            self._begin(place).add_done_callback(partial(self._ended, lane, place))

    def _ended(self, lane: _Lane[_K], place: _K, call: Future[_T]) -> None:
        error = call.exception()
        over = [place]
        with self._lock:
            lane.ended(success=error is None)
            if isinstance(error, RemotingException):  # it would let the later ones wait, too
                over += lane.waiting
                lane.waiting.clear()
            if error is None:
                self._found[place] = call.result()
            elif isinstance(error, RocketMQError):
                self._found.update(dict.fromkeys(over, error))
            else:
                self._trouble = self._trouble or error
            self._open -= len(over)
            is_last = not self._open
            is_more = bool(lane.waiting) and not lane.is_pumped
        if is_last:
            self._end()
        elif is_more and not self._submit(self._pump, lane):
            self._pump(lane)  # the client ends, and so will these

    def _end(self) -> None:
        if self._trouble is not None:
            fail(self.result, self._trouble)
        elif self.result.set_running_or_notify_cancel():  # else the caller gave up
            self.result.set_result({place: self._found[place] for place in self._order})


@define(eq=False)
class _Lane(Generic[_K]):
    """The calls to one server that are not begun yet."""

    waiting: deque[_K] = field(factory=deque)
    room: int = IN_FLIGHT_MOST
    is_pumped: bool = False
    _more_room: int = 0
    """Further calls that may be made at a time once one has succeeded."""

    @classmethod
    def of(cls, *, first_alone: bool) -> _Lane[_K]:
        """Make a lane. With ``first_alone`` it has room for one call until one has succeeded."""
        return cls(room=1, more_room=IN_FLIGHT_MOST - 1) if first_alone else cls()

    def ended(self, *, success: bool) -> None:
        """Free the room of a call; the first success makes the room whole."""
        self.room += 1
        if success:
            self.room, self._more_room = self.room + self._more_room, 0


class Ladder(Generic[_T]):
    """A call to servers of which the first answer counts.

    The next is asked when one fails, and when ``later`` says that it is slow: that runs something
    soon, and returns what forgets it. `result` fails as the first of them did.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        begin: Callable[[str], Future[_T]],
        later: Callable[[Callable[[], object]], Callable[[], object]],
    ) -> None:
        self.result: Future[_T] = Future()
        self._left = deque(addresses)
        self._begin = begin
        self._later = later
        self._lock = threading.Lock()
        self._asked = 0
        self._failure: BaseException | None = None
        self._is_decided = False
        self._forget: Callable[[], object] = int
        if not addresses:
            self.result.set_exception(MQClientException("there is no server that could be asked"))
        self._climb()

    def _climb(self) -> None:
        """Ask the next server, and soon the one after it."""
        with self._lock:
            if self._is_decided or not self._left:
                return
            address = self._left.popleft()
            self._asked += 1
            if self._left:
                self._forget = self._later(self._climb)
        self._begin(address).add_done_callback(self._ended)

    def _ended(self, call: Future[_T]) -> None:
        error = call.exception()
        with self._lock:
            self._asked -= 1
            self._failure = self._failure or error
            is_last = not self._asked and not self._left
            if self._is_decided or (error is not None and not is_last and not self._left):
                return
            self._forget()
            self._is_decided = error is None or is_last
        if not self._is_decided:
            self._climb()
        elif error is not None:
            fail(self.result, self._failure)
        elif self.result.set_running_or_notify_cancel():  # else the caller gave up
            self.result.set_result(call.result())


def fail(result: Future[_T], error: BaseException | None) -> None:
    """End a future by an error, unless its caller gave up."""
    if result.set_running_or_notify_cancel():
        result.set_exception(error)


def chained(first: Future[_T], step: Callable[[_T], Future[_U]]) -> Future[_U]:
    """Return the outcome of a second step, which begins with the result of the first."""
    result: Future[_U] = Future()

    def copy(last: Future[_U]) -> None:
        error = last.exception()
        if error is not None:
            fail(result, error)
        elif result.set_running_or_notify_cancel():
            result.set_result(last.result())

    def go_on(done: Future[_T]) -> None:
        try:
            step(done.result()).add_done_callback(copy)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits
            fail(result, error)

    first.add_done_callback(go_on)
    return result


def mapped(first: Future[_T], change: Callable[[_T], _U]) -> Future[_U]:
    """Return the outcome of a future, changed."""

    def changed(value: _T) -> Future[_U]:
        done: Future[_U] = Future()
        done.set_result(change(value))
        return done

    return chained(first, changed)


def value_of(outcome: _T | RocketMQError) -> _T:
    """Return what one of many calls brought, or raise why it did not."""
    if isinstance(outcome, RocketMQError):
        raise outcome
    return outcome


def first_error(outcomes: Iterable[object]) -> RocketMQError | None:
    """Return the first failure among outcomes."""
    return next((one for one in outcomes if isinstance(one, RocketMQError)), None)

"""Which queues the rows of one task may go to, and which of them is next.

Rows without a fixed queue take the queues of their topic in turn; a key that routes or a queue id
fixes one. A topic whose only broker restarts has no route for a while: if it is known to have had
one this waits, and refuses only a topic that nobody has seen while brokers are there. Must not
know requests or Spark. Read on: ``sending.py``.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import cycle
from random import randrange
from weakref import WeakKeyDictionary

import pyarrow.compute as pc
from attrs import define, field, frozen

from rocketmq_py import (
    MessageQueue,
    MQClientException,
    NameServerUnavailableError,
    NoRouteError,
    RemotingException,
)
from rocketmq_py.clock import monotonic
from rocketmq_py.raw import QueueAccess, RawMessages
from spark_connector.writing.encoding import Encoded
from spark_connector.writing.send_errors import Patience, given_up

LOOK_AGAIN_S = 1.0

_log = logging.getLogger("spark_connector")

_seen: WeakKeyDictionary[QueueAccess, set[str]] = WeakKeyDictionary()
"""The topics that had writable queues before in this process: what reused workers remember."""


def first_queues(access: QueueAccess, topic: str | None) -> tuple[MessageQueue, ...]:
    """Return the writable queues of a topic before a write is begun; () when it must wait.

    Raises `NoRouteError` for a topic that is in no route although brokers are registered, and
    `NameServerUnavailableError`. None is no topic: only the name server is asked.
    """
    if topic is None:
        access.registered_brokers()
        return ()
    try:
        return _asked(access, topic)
    except NoRouteError:
        if _is_missing(access, topic):
            raise
        return ()


@frozen
class Places:
    """Where the rows of a batch may go.

    `queues` says how many queues each topic has, `lanes` has the fixed queue of each row that has
    one, `missing` says of rows whose queue does not exist why they cannot be messages.
    """

    queues: dict[str, int]
    lanes: dict[int, MessageQueue] = field(factory=dict)
    missing: dict[int, str] = field(factory=dict)


@define
class QueueChoice:
    """The queues of the topics of one task. One thread uses it.

    ``fixed`` are queues that are not asked for. ``expected`` is a topic that had a route when the
    write was planned: the name server answered then, too. With ``unknown_is_invalid`` rows of a
    topic that does not exist are rows that cannot be messages, and no reason to end the task.
    """

    _access: QueueAccess
    _patience: Patience
    _fixed: dict[str, tuple[MessageQueue, ...]]
    _is_planned: bool
    _expected: str | None
    _unknown_is_invalid: bool = field(default=False, kw_only=True)
    _hash_of: Callable[[str], int] = field(default=RawMessages.hash_of_key, kw_only=True)
    _unknown: dict[str, float] = field(factory=dict, init=False)
    _queues: dict[str, tuple[MessageQueue, ...]] = field(factory=dict, init=False)
    _turns: dict[str, Iterator[MessageQueue]] = field(factory=dict, init=False)
    _looked: dict[str, float] = field(factory=dict, init=False)

    def places_of(self, encoded: Encoded) -> Places:
        """Return where the rows of a batch may go; raises as `queues_of` does."""
        topics = [one for one in pc.unique(encoded.topics).to_pylist() if one is not None]
        known, unknown = self._known_of(topics)
        places = Places({topic: len(queues) for topic, queues in known.items()})
        for topic in unknown:
            rows = pc.indices_nonzero(pc.fill_null(pc.equal(encoded.topics, topic), False))
            why = f"topic {topic} does not exist"
            places.missing.update(dict.fromkeys(rows.to_pylist(), why))
        keys, ids = encoded.routing_keys, encoded.queue_ids
        if keys is None and ids is None:
            return places
        nothing = [None] * len(encoded)
        cells = (
            nothing if one is None else one.to_pylist() for one in (encoded.broker_names, ids, keys)
        )
        given = zip(encoded.topics.to_pylist(), *cells, strict=True)
        for row, (topic, broker, number, key) in enumerate(given):
            if row in encoded.problems or row in places.missing:
                continue
            queues = known[topic]
            if number is None:
                if key is not None:
                    places.lanes[row] = queues[self._hash_of(key) % len(queues)]
            elif (lane := _queue_named(queues, broker, number)) is not None:
                places.lanes[row] = lane
            else:
                at = f" at broker {broker}" if broker else ""
                places.missing[row] = f"topic {topic} has no writable queue {number}{at}"
        return places

    def _known_of(
        self, topics: Iterable[str]
    ) -> tuple[dict[str, tuple[MessageQueue, ...]], list[str]]:
        """Return the queues of topics, and those that do not exist, if these are no error."""
        known, unknown, now = {}, [], monotonic()
        for topic in topics:
            if RawMessages.topic_problem(topic) is not None:
                continue
            if now < self._unknown.get(topic, -LOOK_AGAIN_S) + LOOK_AGAIN_S:
                unknown.append(topic)
                continue
            try:
                known[topic] = self.queues_of(topic)
            except NoRouteError:
                if not self._unknown_is_invalid or topic == self._expected:
                    raise
                self._unknown[topic] = monotonic()
                unknown.append(topic)
        return known, unknown

    def queues_of(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the writable queues of a topic, the same ones for the whole task.

        Waits for the route of a topic that had one. Raises `NoRouteError` for good for one that
        does not exist, `MQClientException` after the patience that the options give.
        """
        queues = self._queues.get(topic)
        if queues is None:
            queues = self._fixed.get(topic) or self._wait_for(topic)
            self._queues[topic] = queues
            self._turns[topic] = cycle(queues[(at := randrange(len(queues))) :] + queues[:at])
        return queues

    def next_queue(self, topic: str, after: MessageQueue | None) -> MessageQueue:
        """Return the next queue of a topic; on another broker than ``after``, if there is one."""
        queues = self.queues_of(topic)
        turn = self._turns[topic]
        queue = next(turn)
        if after is not None:
            for _ in queues:
                if queue.broker_name != after.broker_name:
                    break
                queue = next(turn)
        return queue

    def look_again(self, topic: str) -> None:
        """Ask where the brokers of a topic are now, once in `LOOK_AGAIN_S` at most."""
        now = monotonic()
        if now < self._looked.get(topic, -LOOK_AGAIN_S) + LOOK_AGAIN_S:
            return  # many requests fail together, and a name server may be silent
        self._looked[topic] = now
        with suppress(RemotingException, MQClientException):
            self._access.read_queues(topic)

    def has_several_brokers(self, topic: str) -> bool:
        """Whether what one broker of a topic did not take may go to another one."""
        return len({queue.broker_name for queue in self._queues.get(topic, ())}) > 1

    def _wait_for(self, topic: str) -> tuple[MessageQueue, ...]:
        first_at = monotonic()
        failed = 0
        while True:
            asked_at = monotonic()
            try:
                return _asked(self._access, topic)
            except MQClientException as error:
                if not self._may_wait(topic, error):
                    raise
                failed += 1
                now = monotonic()
                again = self._patience.next_try(failed, first_at, asked_at, now)
                if again is None:
                    raise given_up(f"topic {topic}", topic, failed, now - first_at, error) from None
                if failed == 1:
                    _log.warning("topic %s has no route now, waiting for it: %s", topic, error)
            threading.Event().wait(max(0.0, again - monotonic()))

    def _may_wait(self, topic: str, error: MQClientException) -> bool:
        is_known = topic == self._expected or topic in _seen.get(self._access, ())
        if isinstance(error, NameServerUnavailableError):
            return is_known or self._is_planned  # else the address may be wrong
        if is_known or not isinstance(error, NoRouteError):
            return True
        return not _is_missing(self._access, topic)


def _queue_named(
    queues: Iterable[MessageQueue], broker: str | None, queue_id: int
) -> MessageQueue | None:
    fits = (one for one in queues if one.queue_id == queue_id)
    return next((one for one in fits if broker in {None, one.broker_name}), None)


def _asked(access: QueueAccess, topic: str) -> tuple[MessageQueue, ...]:
    queues = access.write_queues(topic)
    _seen.setdefault(access, set()).add(topic)
    return queues


def _is_missing(access: QueueAccess, topic: str) -> bool:
    """Whether a topic without a route does not exist, as far as anybody can know.

    Without a single broker no topic has a route, whether it exists or not.
    """
    return topic not in _seen.get(access, ()) and bool(access.registered_brokers())

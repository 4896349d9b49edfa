"""How offsets of a group get to the brokers: one of them, and how far a stream is.

What a stream tells is best effort, on the side, for whoever looks at groups; the stream itself goes
by its checkpoint. A broker that is slow or refuses keeps nobody waiting, and its failure fails
nothing. Must not know what is read, or what an offset means: the replay guard keeps its mark so,
too. Read on: ``servers/back_off.py`` for who is left alone.
"""

import logging
from collections.abc import Callable, Container
from concurrent.futures import Future, wait
from functools import partial
from typing import TypeVar

from attrs import define, field

from rocketmq_py import MessageQueue, MQBrokerException, QueueAccess, RocketMQError
from rocketmq_py.clock import monotonic
from spark_connector.options.positions import Positions
from spark_connector.servers.access import SERVER_ERRORS
from spark_connector.servers.back_off import PATIENCE_S, BackOff

UNKNOWN_GROUP = 26
CALL_TIMEOUT_MS = 3_000

_log = logging.getLogger("spark_connector")

_Offsets = list[tuple[MessageQueue, int]]
_T = TypeVar("_T")


def store_group_offset(access: QueueAccess, group: str, queue: MessageQueue, offset: int) -> None:
    """Tell the broker a group's offset; a group that it does not know is introduced first.

    Brokers from 5.1 on keep no offset of a group they have not met; a pull introduces it where
    groups are made by use. Raises what `QueueAccess.store_group_offset` raises.
    """
    told = _Telling(access, group, [(queue, offset)]).result.result()
    if told.error is not None:
        raise told.error


@define
class _Told:
    """What one broker was told: the offsets that it stored, and why it stored no more."""

    stored: dict[MessageQueue, int] = field(factory=dict)
    error: RocketMQError | None = None
    at: float = 0.0


class _Telling:
    """Tells one broker offsets: first of one queue of each topic, then all others; nothing waits.

    The first ones introduce the group; of a topic whose first one is not stored no other is told.
    """

    def __init__(self, access: QueueAccess, group: str, offsets: _Offsets) -> None:
        self.result: Future[_Told] = Future()
        self._access = access
        self._group = group
        self._told = _Told()
        firsts = {queue.topic: queue for queue, _ in reversed(offsets)}.values()
        self._rest = dict(offsets)
        self._is_introduced = False
        self._store({queue: self._rest.pop(queue) for queue in firsts})

    def _store(self, offsets: dict[MessageQueue, int]) -> None:
        call = self._access.begin_store_group_offsets(self._group, offsets, first_alone=False)
        call.add_done_callback(partial(self._step, partial(self._stored, offsets)))

    def _step(self, follow: Callable[[_T], None], call: Future[_T]) -> None:
        """Go on with the result of a call; what fails is an outcome, too."""
        try:
            follow(call.result())
        except SERVER_ERRORS as error:
            self._failed(error)
            self.result.set_result(self._told)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits
            self.result.set_exception(error)

    def _stored(
        self, offsets: dict[MessageQueue, int], answers: dict[MessageQueue, RocketMQError | None]
    ) -> None:
        for queue, trouble in answers.items():
            if trouble is None:
                self._told.stored[queue] = offsets[queue]
            elif _is_unknown_group(trouble) and not self._is_introduced:
                self._is_introduced = True
                pull = self._access.pull(queue, 0, 1, group=self._group, timeout_ms=CALL_TIMEOUT_MS)
                pull.add_done_callback(partial(self._step, lambda _: self._store(offsets)))
                return
            else:
                self._failed(trouble)
        topics = {queue.topic for queue in self._told.stored}
        rest = {queue: at for queue, at in self._rest.items() if queue.topic in topics}
        self._rest = {}
        if rest:
            self._is_introduced = True
            self._store(rest)
        else:
            self.result.set_result(self._told)

    def _failed(self, error: RocketMQError) -> None:
        if self._told.error is None:
            self._told.error, self._told.at = error, monotonic()


def _is_unknown_group(error: RocketMQError) -> bool:
    return isinstance(error, MQBrokerException) and error.response_code == UNKNOWN_GROUP


class GroupProgress:
    """Tells brokers the offsets of one group, the newest only. One thread uses it."""

    def __init__(self, access: QueueAccess, group: str) -> None:
        self._access = access
        self._group = group
        self._stored: dict[MessageQueue, int] = {}
        self._refusing = BackOff()
        self._calls: dict[str, Future[_Told]] = {}
        self._patience_s = PATIENCE_S

    def tell(self, done: Positions, known: Container[MessageQueue]) -> None:
        """Tell what is new of known queues; what fails is logged and tried again at a later call.

        A broker that stored the last offsets is waited for, `PATIENCE_S` at most. One that is
        still busy with older offsets gets the newest ones at a later call.
        """
        self._collect()
        news: dict[str, _Offsets] = {}
        for queue, offset in done.items():
            broker = queue.broker_name
            is_told = self._stored.get(queue) == offset or queue not in known
            if not (is_told or broker in self._calls or self._refusing.holds(("", broker))):
                news.setdefault(broker, []).append((queue, offset))
        for broker, offsets in news.items():
            self._calls[broker] = _Telling(self._access, self._group, offsets).result
        awaited = [self._calls[one] for one in news if self._refusing.last(("", one)) is None]
        if awaited:
            wait(awaited, self._patience_s)
            self._collect()

    def finish(self, done: Positions, known: Container[MessageQueue]) -> None:
        """Tell the newest offsets also where older ones are under way; two `PATIENCE_S` at most."""
        wait(self._calls.values(), self._patience_s)
        self.tell(done, known)

    def _collect(self) -> None:
        for broker, call in list(self._calls.items()):
            if not call.done():
                continue
            del self._calls[broker]
            told = call.result()
            self._stored |= told.stored
            if told.error is None:
                self._refusing.clear(("", broker))
                continue
            self._refusing.failed(("", broker), told.error, told.at)
            _log.warning(
                "offset of group %s was not stored at broker %s: %s",
                self._group,
                broker,
                told.error,
            )

"""How offsets of a group get to the brokers: one of them, and how far a stream is.

What a stream tells is best effort, on the side, for whoever looks at groups; the stream itself goes
by its checkpoint. A broker that is slow or refuses keeps nobody waiting, and its failure fails
nothing. Must not know what is read, or what an offset means: the replay guard keeps its mark so,
too. Read on: ``servers/back_off.py`` for how calls are made.
"""

import logging
from collections.abc import Container
from concurrent.futures import Future, wait
from functools import partial

from attrs import define, field

from rocketmq_py import MessageQueue, MQBrokerException, QueueAccess, RocketMQError
from rocketmq_py.clock import monotonic
from spark_connector.options.positions import Positions
from spark_connector.servers.access import SERVER_ERRORS
from spark_connector.servers.back_off import PATIENCE_S, BackOff, in_background

UNKNOWN_GROUP = 26
CALL_TIMEOUT_MS = 3_000

_log = logging.getLogger("spark_connector")

_Offsets = list[tuple[MessageQueue, int]]


def store_group_offset(access: QueueAccess, group: str, queue: MessageQueue, offset: int) -> None:
    """Tell the broker a group's offset; a group that it does not know is introduced first.

    Brokers from 5.1 on keep no offset of a group they have not met; a pull introduces it where
    groups are made by use. Raises what `QueueAccess.store_group_offset` raises.
    """
    try:
        access.store_group_offset(group, queue, offset)
    except MQBrokerException as error:
        if error.response_code != UNKNOWN_GROUP:
            raise
        access.pull(queue, 0, 1, group=group, timeout_ms=CALL_TIMEOUT_MS).result()
        access.store_group_offset(group, queue, offset)


@define
class _Told:
    """What one broker was told: the offsets that it stored, and why it stored no more."""

    stored: dict[MessageQueue, int] = field(factory=dict)
    error: RocketMQError | None = None
    at: float = 0.0


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
            self._calls[broker] = in_background(partial(self._store, offsets))
        awaited = [self._calls[one] for one in news if self._refusing.last(("", one)) is None]
        if awaited:
            wait(awaited, self._patience_s)
            self._collect()

    def finish(self, done: Positions, known: Container[MessageQueue]) -> None:
        """Tell the newest offsets also where older ones are under way; two `PATIENCE_S` at most."""
        wait(self._calls.values(), self._patience_s)
        self.tell(done, known)

    def _store(self, offsets: _Offsets) -> _Told:
        """Tell one broker, on a thread of its own: first of one queue, then of all others at once.

        The first one introduces the group; without it nothing else is told.
        """
        told = _Told()
        (first, offset), rest = offsets[0], dict(offsets[1:])
        try:
            store_group_offset(self._access, self._group, first, offset)
        except SERVER_ERRORS as error:
            told.error, told.at = error, monotonic()
            return told
        told.stored[first] = offset
        for queue, trouble in self._access.store_group_offsets(self._group, rest).items():
            if trouble is None:
                told.stored[queue] = rest[queue]
            elif told.error is None:
                told.error, told.at = trouble, monotonic()
        return told

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

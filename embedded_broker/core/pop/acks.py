"""Acks of popped messages: one is done, or stays hidden for longer.

RocketMQ's AckMessageProcessor and ChangeInvisibleTimeProcessor. An ack is kept in the revive topic
(`revive.py`); one of an ordered pop moves the group on instead (`ordered.py`). What comes too late,
twice, or with the handle of another pop is answered as if it were in time and changes nothing: the
message comes back, or has come back. Must not know: headers, how a handle is written.
"""

from collections.abc import Sequence
from typing import NamedTuple

from attrs import define

from embedded_broker.core.environment import Environment
from embedded_broker.core.pop.checks import PopChecks
from embedded_broker.core.pop.ordered import OrderedPops
from embedded_broker.core.pop.revive import ReviveService
from embedded_broker.core.pop.revive_log import PopKey, check_invisible
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.tables.offsets.orders import NOT_ITS_BLOCK
from embedded_broker.tables.offsets.table import OffsetTable
from embedded_broker.tables.peer import Peer
from rocketmq_py.protocol.bodies.pop import Ack, CheckPoint
from rocketmq_py.protocol.pop_handles import PopHandle


class Hidden(NamedTuple):
    """One message that was popped: its group, the topic it lies in, its place and its handle."""

    peer: Peer
    group: str
    topic: str
    queue_id: int
    offset: int
    handle: PopHandle


class HiddenUntil(NamedTuple):
    """What the new handle of a message is made of."""

    pop_time_ms: int
    invisible_ms: int
    revive_queue: int


@define(eq=False, kw_only=True)
class Acks:
    """Takes acks, and lets messages stay hidden. Used under the door."""

    _env: Environment
    _offsets: OffsetTable
    _checks: PopChecks
    _revive: ReviveService
    _ordered: OrderedPops

    def ack(self, one: Hidden) -> None:
        """Note that a message is done."""
        self._checks.handed_out(one.topic, one.queue_id, one.offset, one.peer, end_counts=True)
        if one.handle.is_ordered:
            self._ack_ordered(one)
        else:
            self._ack_all(one, None)

    def ack_batch(self, one: Hidden, offsets: Sequence[int]) -> None:
        """Note that several messages of one pop are done; those outside the queue are left out."""
        low = self._env.store.min_offset(one.topic, one.queue_id)
        high = self._env.store.max_offset(one.topic, one.queue_id)
        within = [offset for offset in offsets if low <= offset <= high]
        if one.handle.is_ordered:
            for offset in within:
                self._ack_ordered(one._replace(offset=offset))
        elif within:
            self._ack_all(one._replace(offset=-1), within)

    def is_open(self, one: Hidden) -> bool:
        """Say whether a handle is in force: its message is hidden by it, and was not acked.

        The original does not look.
        """
        handle = one.handle
        if handle.pop_time_ms + handle.invisible_ms <= self._env.clock.now_ms:
            return False
        if handle.is_ordered:
            return self._ordered.table.holds(
                one.group,
                one.topic,
                one.queue_id,
                one.offset,
                handle.pop_time_ms,
                handle.pop_time_ms + handle.invisible_ms,
            )
        name = PopKey(
            one.topic,
            one.group,
            one.queue_id,
            handle.start_offset,
            handle.pop_time_ms,
            handle.broker_name,
        )
        return self._revive.holds(name, one.offset)

    def hide_longer(
        self, one: Hidden, invisible_ms: int, holder: Peer | None = None
    ) -> HiddenUntil | None:
        """Let a message come back so much later than now; its old handle is of no use any more.

        Its consumer is done with it until then, unless it is still in the hands of a ``holder``.
        None for a message of an ordered pop that the group has passed already.
        """
        self._checks.handed_out(one.topic, one.queue_id, one.offset, one.peer, end_counts=False)
        now_ms, handle = self._env.clock.now_ms, one.handle
        check_invisible(invisible_ms, now_ms)
        if handle.is_ordered:
            return self._show_again(one, now_ms + invisible_ms)
        self._check_revive_queue(handle.revive_queue)
        name = PopKey(one.topic, one.group, one.queue_id, one.offset, now_ms, handle.broker_name)
        while self._revive.is_taken(name):  # the clock stands still
            name = name._replace(pop_time_ms=name.pop_time_ms + 1)
        ends_ms = now_ms + invisible_ms
        point = CheckPoint(
            broker_name=handle.broker_name,
            group=one.group,
            diffs=[0],
            invisible_ms=ends_ms - name.pop_time_ms,
            count=1,
            pop_time_ms=name.pop_time_ms,
            queue_id=one.queue_id,
            start_offset=one.offset,
            topic=one.topic,
        )
        put_off = holder is None
        self._revive.hide(point, handle.revive_queue, put_off=put_off, holder=holder)
        self._ack_all(one, None)
        return HiddenUntil(point.pop_time_ms, point.invisible_ms, handle.revive_queue)

    def _ack_all(self, one: Hidden, offsets: Sequence[int] | None) -> None:
        handle = one.handle
        self._check_revive_queue(handle.revive_queue)
        ack = Ack(
            offset=one.offset,
            offsets=None if offsets is None else list(offsets),
            broker_name=handle.broker_name,
            group=one.group,
            pop_time_ms=handle.pop_time_ms,
            queue_id=one.queue_id,
            start_offset=handle.start_offset,
            topic=one.topic,
        )
        due_ms = handle.pop_time_ms + handle.invisible_ms
        self._revive.ack(ack, handle.revive_queue, due_ms)

    def _check_revive_queue(self, queue_id: int) -> None:
        """Refuse a handle that no broker has made: it would make a queue of its own."""
        queues = self._revive.queues
        if not 0 <= queue_id < queues:
            raise Refused(
                Reason.FAILED,
                f"the handle is wrong: revive queue {queue_id} of {self._revive.topic}, which has "
                f"{queues}",
            )

    def _ack_ordered(self, one: Hidden) -> None:
        group, topic, queue_id = one.group, one.topic, one.queue_id
        former = self._offsets.query(group, topic, queue_id)
        if one.offset < former:
            return
        pop_time_ms = one.handle.pop_time_ms
        following = self._ordered.table.ack(group, topic, queue_id, one.offset, pop_time_ms)
        if following == NOT_ITS_BLOCK:
            raise Refused(
                Reason.MESSAGE_ILLEGAL,
                f"offset is illegal, key:{topic}@{group}@{queue_id}, old:{former}, "
                f"commit:{one.offset}, next:{following}, {one.peer.remote[0]}",
            )
        if following >= 0:
            if not self._offsets.is_reset(group, topic, queue_id):
                self._offsets.commit(group, topic, queue_id, following)
            self._ordered.changed(group, topic, queue_id)

    def _show_again(self, one: Hidden, at_ms: int) -> HiddenUntil | None:
        group, topic, queue_id, handle = one.group, one.topic, one.queue_id, one.handle
        if one.offset < self._offsets.query(group, topic, queue_id):
            return None
        pop_time_ms = handle.pop_time_ms
        self._ordered.table.show_again(group, topic, queue_id, one.offset, pop_time_ms, at_ms)
        self._ordered.changed(group, topic, queue_id)
        return HiddenUntil(pop_time_ms, at_ms - pop_time_ms, handle.revive_queue)

"""What each kind of consumer is made of: the table of the core's parts.

| consumer | queues | source | progress | dispatch |
|---|---|---|---|---|
| push, any order | by strategy | pulls | offsets at the broker | pool |
| push, in order | by strategy, locked at the broker | pulls | offsets at the broker | in order |
| push, broadcasting | all | pulls | offsets in a file | pool or in order |

A function here puts one kind together; nothing else is decided here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from rocketmq_py.clock import wall_ms
from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.core.broker_offsets import BrokerOffsets
from rocketmq_py.consumer.core.file_offsets import FileOffsets, default_directory
from rocketmq_py.consumer.core.limits import QueueLimits, SpanLimit
from rocketmq_py.consumer.core.locks import LOCK_RENEW_S, QueueLocks
from rocketmq_py.consumer.core.member import GroupMember, Parts
from rocketmq_py.consumer.core.progress import OffsetProgress
from rocketmq_py.consumer.core.rebalance import Unguarded
from rocketmq_py.consumer.core.shares import Everything, SharedByStrategy
from rocketmq_py.consumer.core.sources import Pulls
from rocketmq_py.consumer.core.start_offset import first_offset
from rocketmq_py.consumer.dispatch.in_order import OrderlyDispatch
from rocketmq_py.consumer.dispatch.listener_calls import MINUTE_MS
from rocketmq_py.consumer.dispatch.pool import PoolDispatch
from rocketmq_py.consumer.inspection import Inspection
from rocketmq_py.consumer.listener import MessageModel
from rocketmq_py.consumer.listening import handler_of
from rocketmq_py.consumer.send_back import NoRetries, SendBack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketmq_py.client.instance import ClientInstance
    from rocketmq_py.clock import Clock
    from rocketmq_py.consumer.core.limits import Gate
    from rocketmq_py.consumer.core.member import Task
    from rocketmq_py.consumer.core.offset_table import OffsetTable
    from rocketmq_py.consumer.core.progress import Progress, Retries
    from rocketmq_py.consumer.core.rebalance import Ownership
    from rocketmq_py.consumer.core.shares import Share
    from rocketmq_py.consumer.dispatch.listener_calls import Handler
    from rocketmq_py.consumer.hooks import Hooks
    from rocketmq_py.consumer.listener import Listening
    from rocketmq_py.consumer.settings import PushConsumerConfig
    from rocketmq_py.consumer.subscriptions import SubscriptionTable
    from rocketmq_py.send_result import MessageQueue

LOCK_FIRST_MS = 1_000
BROADCAST_ONCE = "in broadcasting every member gets each message once"

PushMember: TypeAlias = GroupMember[PoolDispatch | OrderlyDispatch]


class Dispatching(NamedTuple):
    """A dispatch, and what else a consumer needs because of it."""

    dispatch: PoolDispatch | OrderlyDispatch
    gates: Sequence[Gate]
    periodic: Sequence[tuple[float, float, Task]]
    ownership: Ownership = Unguarded()


class Basis(NamedTuple):
    """What every part of one consumer may need."""

    group: str
    engine: ClientInstance
    settings: PushConsumerConfig
    subscriptions: SubscriptionTable
    clock: Clock
    hooks: Hooks


def push_member(basis: Basis, listening: Listening) -> PushMember:
    """Put a push consumer together, for the model in its settings and the kind of its listener."""
    group, engine, settings, subscriptions, clock, hooks = basis
    calls = ConsumerCalls(engine, group, settings)
    offsets: OffsetTable
    share: Share
    retries: Retries
    locks: QueueLocks | None
    if settings.message_model is MessageModel.BROADCASTING:
        offsets = FileOffsets(engine, group, _directory(settings))
        share, retries, locks = Everything(), NoRetries(group, BROADCAST_ONCE), None
    else:
        offsets = BrokerOffsets(engine, calls)
        share = SharedByStrategy(engine, calls, group, settings)
        retries, locks = SendBack(group, calls), QueueLocks(engine, group)

    def begin(queue: MessageQueue) -> int:
        offset = first_offset(queue, offsets=offsets, calls=calls, settings=settings, clock=clock)
        if settings.message_model is MessageModel.BROADCASTING:
            # Nobody else knows where this member has begun: without that it would begin at the end
            # once more if it had to start again before it has handled anything.
            offsets.update(queue, offset)
        return offset

    progress = OffsetProgress(offsets, retries, begin)
    handler = handler_of(listening, group, lambda: settings.suspend_current_queue_time_millis)
    if listening.is_orderly:
        how = _in_order(basis, progress, handler, locks)
    else:
        how = _on_pool(basis, progress, handler)
    parts: Parts[PoolDispatch | OrderlyDispatch] = Parts(
        consume_type="CONSUME_PASSIVELY",
        share=share,
        source=Pulls(calls, subscriptions, offsets, group, hooks),
        offsets=offsets,
        progress=progress,
        dispatch=how.dispatch,
        ownership=how.ownership,
        gates=lambda queues: (QueueLimits(settings, queues), *how.gates),
        periodic=how.periodic,
        answer=_inspection(basis, offsets, listening).answer,
    )
    return GroupMember(
        group=group, engine=engine, settings=settings, subscriptions=subscriptions, parts=parts
    )


def _in_order(
    basis: Basis, progress: Progress, handler: Handler, locks: QueueLocks | None
) -> Dispatching:
    orderly = OrderlyDispatch(
        group=basis.group,
        engine=basis.engine,
        settings=basis.settings,
        progress=progress,
        handler=handler,
        clock=basis.clock,
        hooks=basis.hooks,
        locks=locks,
    )
    return Dispatching(
        orderly,
        ownership=orderly,
        gates=(orderly.closed_gate,),
        periodic=(
            (LOCK_FIRST_MS, LOCK_RENEW_S * 1000, orderly.renew_locks),
            _sweeping(basis, orderly.sweep),
        ),
    )


def _on_pool(basis: Basis, progress: Progress, handler: Handler) -> Dispatching:
    pool = PoolDispatch(
        group=basis.group,
        engine=basis.engine,
        settings=basis.settings,
        progress=progress,
        handler=handler,
        clock=basis.clock,
        hooks=basis.hooks,
    )
    return Dispatching(
        pool, gates=(SpanLimit(basis.settings),), periodic=(_sweeping(basis, pool.sweep),)
    )


def _sweeping(basis: Basis, sweep: Task) -> tuple[float, float, Task]:
    every_ms = basis.settings.consume_timeout * MINUTE_MS
    return every_ms, every_ms, sweep


def _inspection(basis: Basis, offsets: OffsetTable, listening: Listening) -> Inspection:
    return Inspection(
        group=basis.group,
        settings=basis.settings,
        offsets=offsets,
        listening=listening,
        clock=basis.clock,
        started_ms=wall_ms(),
    )


def _directory(settings: PushConsumerConfig) -> Path:
    chosen = settings.local_offset_store_dir
    return Path(chosen) if chosen else default_directory()

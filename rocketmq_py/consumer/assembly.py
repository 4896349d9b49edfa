"""What each kind of consumer is made of: the table of the core's parts.

| consumer | queues | source | progress | dispatch |
|---|---|---|---|---|
| push, any order | by strategy | pulls | offsets at the broker | pool |
| push, in order | by strategy, locked at the broker | pulls | offsets at the broker | in order |
| push, broadcasting | all | pulls | offsets in a file | pool or in order |
| push, popping | by the broker | pops, or pulls | receipts, or offsets at the broker | pool |

A function here puts one kind together; nothing else is decided here.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from rocketmq_py.clock import wall_ms
from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.core.broker_offsets import BrokerOffsets
from rocketmq_py.consumer.core.file_offsets import FileOffsets, default_directory
from rocketmq_py.consumer.core.limits import PopLimit, QueueLimits, SpanLimit
from rocketmq_py.consumer.core.locks import LOCK_RENEW_S, QueueLocks
from rocketmq_py.consumer.core.member import GroupMember, Parts
from rocketmq_py.consumer.core.modes import ProgressByMode, SourceByMode, gate_by_mode
from rocketmq_py.consumer.core.pop_calls import PopCalls
from rocketmq_py.consumer.core.pop_progress import Receipts
from rocketmq_py.consumer.core.pop_shares import ByBroker
from rocketmq_py.consumer.core.progress import OffsetProgress
from rocketmq_py.consumer.core.rebalance import Unguarded
from rocketmq_py.consumer.core.shares import Everything, SharedByStrategy
from rocketmq_py.consumer.core.sources import Pops, Pulls
from rocketmq_py.consumer.core.start_offset import first_offset
from rocketmq_py.consumer.dispatch.in_order import OrderlyDispatch
from rocketmq_py.consumer.dispatch.pool import MINUTE_MS, PoolDispatch
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
    from rocketmq_py.consumer.core.sources import Source
    from rocketmq_py.consumer.dispatch.listener_calls import Handler
    from rocketmq_py.consumer.listener import Listening
    from rocketmq_py.consumer.settings import PushConsumerConfig
    from rocketmq_py.consumer.subscriptions import SubscriptionTable

LOCK_FIRST_MS = 1_000
BROADCAST_ONCE = "in broadcasting every member gets each message once"

PushMember: TypeAlias = GroupMember[PoolDispatch | OrderlyDispatch]


class Dispatching(NamedTuple):
    """A dispatch, and what else a consumer needs because of it."""

    dispatch: PoolDispatch | OrderlyDispatch
    gates: Sequence[Gate]
    periodic: Sequence[tuple[float, float, Task]]
    ownership: Ownership = Unguarded()


class Flow(NamedTuple):
    """Whose messages a consumer gets, where from, and what settling them does."""

    share: Share
    source: Source
    progress: Progress
    ownership: Ownership = Unguarded()


class Basis(NamedTuple):
    """What every part of one consumer may need."""

    group: str
    engine: ClientInstance
    settings: PushConsumerConfig
    subscriptions: SubscriptionTable
    clock: Clock


def push_member(basis: Basis, listening: Listening) -> PushMember:
    """Put a push consumer together, for the model in its settings and the kind of its listener."""
    group, engine, settings, subscriptions, _ = basis
    calls = ConsumerCalls(engine, group, settings)
    offsets: OffsetTable
    locks: QueueLocks | None
    if settings.message_model is MessageModel.BROADCASTING:
        offsets, locks = FileOffsets(engine, group, _directory(settings)), None
        flow = _pulling(basis, calls, offsets, Everything(), NoRetries(group, BROADCAST_ONCE))
    else:
        offsets, locks = BrokerOffsets(engine, calls), QueueLocks(engine, group)
        share, retries = SharedByStrategy(engine, calls, group, settings), SendBack(group, calls)
        flow = _pulling(basis, calls, offsets, share, retries)
        if not (settings.client_rebalance or listening.is_orderly):
            flow = _popping(basis, flow, share, retries)
    handler = handler_of(listening, group, lambda: settings.suspend_current_queue_time_millis)
    if listening.is_orderly:
        how = _in_order(basis, flow.progress, handler, locks)
    else:
        how = _on_pool(basis, flow, handler)
    parts: Parts[PoolDispatch | OrderlyDispatch] = Parts(
        consume_type="CONSUME_PASSIVELY",
        share=flow.share,
        source=flow.source,
        offsets=offsets,
        progress=flow.progress,
        dispatch=how.dispatch,
        ownership=how.ownership,
        gates=lambda queues: (
            gate_by_mode(QueueLimits(settings, queues), PopLimit(settings)),
            *how.gates,
        ),
        periodic=how.periodic,
        answer=_inspection(basis, offsets, listening).answer,
    )
    return GroupMember(
        group=group, engine=engine, settings=settings, subscriptions=subscriptions, parts=parts
    )


def _pulling(
    basis: Basis, calls: ConsumerCalls, offsets: OffsetTable, share: Share, retries: Retries
) -> Flow:
    group, _, settings, subscriptions, clock = basis
    begin = partial(first_offset, offsets=offsets, calls=calls, settings=settings, clock=clock)
    source = Pulls(calls, subscriptions, offsets, group)
    return Flow(share, source, OffsetProgress(offsets, retries, begin))


def _popping(basis: Basis, pulling: Flow, share: SharedByStrategy, retries: Retries) -> Flow:
    """Let brokers assign queues; those that an administrator has not set to popping are pulled."""
    group, engine, settings, subscriptions, clock = basis
    calls = PopCalls(engine, group)
    by_broker = ByBroker(
        engine=engine, group=group, calls=calls, settings=settings, by_strategy=share
    )
    receipts = Receipts(
        engine=engine,
        group=group,
        calls=calls,
        settings=settings,
        dead_letters=retries,
        clock=clock,
    )
    pops = Pops(calls, subscriptions, settings, receipts.acks.unwanted)
    return Flow(
        by_broker,
        SourceByMode(pulling.source, pops),
        ProgressByMode(pulling.progress, receipts, by_broker.pops),
        receipts,
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
        locks=locks,
    )
    return Dispatching(
        orderly,
        ownership=orderly,
        gates=(orderly.closed_gate,),
        periodic=((LOCK_FIRST_MS, LOCK_RENEW_S * 1000, orderly.renew_locks),),
    )


def _on_pool(basis: Basis, flow: Flow, handler: Handler) -> Dispatching:
    pool = PoolDispatch(
        group=basis.group,
        engine=basis.engine,
        settings=basis.settings,
        progress=flow.progress,
        handler=handler,
        clock=basis.clock,
    )
    sweep_ms = basis.settings.consume_timeout * MINUTE_MS
    return Dispatching(
        pool,
        gates=(SpanLimit(basis.settings),),
        periodic=((sweep_ms, sweep_ms, pool.sweep),),
        ownership=flow.ownership,
    )


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

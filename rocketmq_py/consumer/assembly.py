"""What each kind of consumer is made of: the table of the core's parts.

| consumer | queues | source | progress | dispatch |
|---|---|---|---|---|
| push, any order | by strategy | pulls | offsets at the broker | pool |
| push, in order | by strategy, locked at the broker | pulls | offsets at the broker | in order |
| push, broadcasting | all | pulls | offsets in a file | pool or in order |
| asyncio | as push | pulls | as push | as push, with `LoopWorkers` instead of threads |
| lite pull | by strategy, or assigned | pulls | offsets, committed by the next poll | inbox |

A function here puts one kind together; nothing else is decided here.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from rocketmq_py.clock import wall_ms
from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.core.broker_offsets import BrokerOffsets
from rocketmq_py.consumer.core.file_offsets import FileOffsets, default_directory
from rocketmq_py.consumer.core.limits import InboxLimit, QueueLimits, SpanLimit
from rocketmq_py.consumer.core.locks import LOCK_RENEW_S, QueueLocks
from rocketmq_py.consumer.core.member import GroupMember, Parts
from rocketmq_py.consumer.core.polled import PolledProgress
from rocketmq_py.consumer.core.progress import OffsetProgress
from rocketmq_py.consumer.core.rebalance import Unguarded
from rocketmq_py.consumer.core.shares import Everything, SharedByStrategy
from rocketmq_py.consumer.core.sources import Pulls
from rocketmq_py.consumer.core.start_offset import first_offset
from rocketmq_py.consumer.dispatch.in_order import OrderlyDispatch
from rocketmq_py.consumer.dispatch.inbox import Inbox
from rocketmq_py.consumer.dispatch.pool import MINUTE_MS, PoolDispatch
from rocketmq_py.consumer.inspection import Inspection
from rocketmq_py.consumer.listener import MessageModel
from rocketmq_py.consumer.listening import handler_of
from rocketmq_py.consumer.send_back import NoRetries, SendBack
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.names import retry_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocketmq_py.client.instance import ClientInstance
    from rocketmq_py.clock import Clock
    from rocketmq_py.consumer.core.limits import Gate
    from rocketmq_py.consumer.core.member import Task
    from rocketmq_py.consumer.core.offset_table import OffsetTable
    from rocketmq_py.consumer.core.progress import Progress, Retries
    from rocketmq_py.consumer.core.rebalance import Ownership
    from rocketmq_py.consumer.core.shares import Assigned, Share
    from rocketmq_py.consumer.dispatch.listener_calls import Handler
    from rocketmq_py.consumer.dispatch.pool import Workers
    from rocketmq_py.consumer.listener import Listening
    from rocketmq_py.consumer.settings import (
        ConsumerConfig,
        LitePullConsumerConfig,
        PushConsumerConfig,
    )
    from rocketmq_py.consumer.subscriptions import SubscriptionTable
    from rocketmq_py.send_result import MessageQueue

logger = get_logger(__name__)

LOCK_FIRST_MS = 1_000
BROADCAST_ONCE = "in broadcasting every member gets each message once"

_Settings_co = TypeVar("_Settings_co", covariant=True)

PushMember: TypeAlias = GroupMember[PoolDispatch | OrderlyDispatch]


class Dispatching(NamedTuple):
    """A dispatch, and what else a consumer needs because of it."""

    dispatch: PoolDispatch | OrderlyDispatch
    gates: Sequence[Gate]
    periodic: Sequence[tuple[float, float, Task]]
    ownership: Ownership = Unguarded()


class Basis(NamedTuple, Generic[_Settings_co]):
    """What every part of one consumer may need."""

    group: str
    engine: ClientInstance
    settings: _Settings_co
    subscriptions: SubscriptionTable
    clock: Clock


class Queues(NamedTuple):
    """Which queues a consumer has, and where it begins in each."""

    calls: ConsumerCalls
    offsets: OffsetTable
    share: Share
    begin: Callable[[MessageQueue], int]


def queues_of(basis: Basis[ConsumerConfig]) -> Queues:
    """Choose share and offsets by the message model."""
    group, engine, settings, _, clock = basis
    calls = ConsumerCalls(engine, group, settings)
    offsets: OffsetTable
    share: Share
    if settings.message_model is MessageModel.BROADCASTING:
        offsets, share = FileOffsets(engine, group, _directory(settings)), Everything()
    else:
        offsets = BrokerOffsets(engine, calls)
        share = SharedByStrategy(engine, calls, group, settings)
    begin = partial(first_offset, offsets=offsets, calls=calls, settings=settings, clock=clock)
    return Queues(calls, offsets, share, begin)


def push_member(
    basis: Basis[PushConsumerConfig], listening: Listening, workers: Workers | None = None
) -> PushMember:
    """Put a push consumer together, for the model in its settings and the kind of its listener.

    ``workers`` run the listener calls; None: a pool of threads.
    """
    group, engine, settings, subscriptions, _ = basis
    if not subscriptions.topics():
        logger.warning(
            "group %s: no topic is subscribed, so nothing will arrive: call subscribe()", group
        )
    calls, offsets, share, begin = queues_of(basis)
    retries: Retries
    locks: QueueLocks | None
    if settings.message_model is MessageModel.BROADCASTING:
        retries, locks = NoRetries(group, BROADCAST_ONCE), None
    else:
        retries, locks = SendBack(group, calls, settings), QueueLocks(engine, group)
        subscriptions.put(retry_topic(group), "*")
    progress = OffsetProgress(offsets, retries, begin)
    handler = handler_of(listening, group, lambda: settings.suspend_current_queue_time_millis)
    if listening.is_orderly:
        how = _in_order(basis, progress, handler, locks, workers)
    else:
        how = _on_pool(basis, progress, handler, workers)
    parts: Parts[PoolDispatch | OrderlyDispatch] = Parts(
        consume_type="CONSUME_PASSIVELY",
        share=share,
        source=Pulls(calls, subscriptions, offsets, group),
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


def lite_pull_member(
    basis: Basis[LitePullConsumerConfig], assigned: Assigned | None
) -> GroupMember[Inbox]:
    """Put a consumer together that is asked for messages; ``assigned``: of which queues."""
    group, engine, settings, subscriptions, _ = basis
    calls, offsets, share, begin = queues_of(basis)
    progress = PolledProgress(offsets, begin)
    inbox = Inbox()
    parts = Parts(
        consume_type="CONSUME_ACTIVELY",
        share=assigned or share,
        source=Pulls(calls, subscriptions, offsets, group),
        offsets=offsets,
        progress=progress,
        dispatch=inbox,
        gates=lambda queues: (QueueLimits(settings, queues), InboxLimit(settings, inbox)),
        answer=_inspection(basis, offsets, None).answer,
    )
    return GroupMember(
        group=group, engine=engine, settings=settings, subscriptions=subscriptions, parts=parts
    )


def _in_order(
    basis: Basis[PushConsumerConfig],
    progress: Progress,
    handler: Handler,
    locks: QueueLocks | None,
    workers: Workers | None,
) -> Dispatching:
    orderly = OrderlyDispatch(
        **_given(workers),
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


def _given(workers: Workers | None) -> dict[str, Any]:
    return {} if workers is None else {"pool": workers}


def _on_pool(
    basis: Basis[PushConsumerConfig],
    progress: Progress,
    handler: Handler,
    workers: Workers | None,
) -> Dispatching:
    pool = PoolDispatch(
        **_given(workers),
        group=basis.group,
        engine=basis.engine,
        settings=basis.settings,
        progress=progress,
        handler=handler,
        clock=basis.clock,
    )
    sweep_ms = basis.settings.consume_timeout * MINUTE_MS
    return Dispatching(
        pool, gates=(SpanLimit(basis.settings),), periodic=((sweep_ms, sweep_ms, pool.sweep),)
    )


def _inspection(basis: Basis[Any], offsets: OffsetTable, listening: Listening | None) -> Inspection:
    return Inspection(
        group=basis.group,
        settings=basis.settings,
        offsets=offsets,
        listening=listening,
        clock=basis.clock,
        started_ms=wall_ms(),
    )


def _directory(settings: ConsumerConfig) -> Path:
    chosen = settings.local_offset_store_dir
    return Path(chosen) if chosen else default_directory()

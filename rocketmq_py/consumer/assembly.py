"""What each kind of consumer is made of: the table of the core's parts.

| consumer | queues | source | progress | dispatch |
|---|---|---|---|---|
| push, any order | by strategy | pulls | offsets at the broker | pool |
| push, in order | by strategy, locked at the broker | pulls | offsets at the broker | in order |
| push, broadcasting | all | pulls | offsets in a file | pool or in order |
| asyncio | as push | as push | as push | as push, `LoopWorkers` instead of threads; or inbox |
| lite pull | by strategy, or assigned | pulls | offsets, committed by the next poll | inbox |
| push, popping | by the broker | pops, or pulls | receipts, or offsets at the broker | pool |
| push, popping in order | by the broker, queue by queue | as popping | as popping | in order |
| push, popping all queues | of every broker | pops | receipts | pool or in order |
| pop | none | a pop for each receive (`core/receiving.py`) | each message by its receipt | none |

A function here puts one kind together; nothing else is decided here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from rocketmq_py.clock import wall_ms
from rocketmq_py.consumer.agreement import PART_OF_A_HEARTBEAT, Agreement
from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.core.broker_offsets import BrokerOffsets
from rocketmq_py.consumer.core.file_offsets import FileOffsets, default_directory
from rocketmq_py.consumer.core.limits import InboxLimit, PopLimit, QueueLimits, SpanLimit
from rocketmq_py.consumer.core.locks import LOCK_RENEW_S, QueueLocks
from rocketmq_py.consumer.core.member import GroupMember, Parts, nothing
from rocketmq_py.consumer.core.modes import ProgressByMode, SourceByMode, gate_by_mode
from rocketmq_py.consumer.core.polled import PolledProgress
from rocketmq_py.consumer.core.pop_calls import PopCalls
from rocketmq_py.consumer.core.pop_progress import Receipts
from rocketmq_py.consumer.core.pop_shares import ByBroker, EveryBroker
from rocketmq_py.consumer.core.progress import OffsetProgress
from rocketmq_py.consumer.core.rebalance import Unguarded
from rocketmq_py.consumer.core.shares import Assigned, Everything, SharedByStrategy
from rocketmq_py.consumer.core.sources import Pops, Pulls
from rocketmq_py.consumer.core.start_offset import first_offset
from rocketmq_py.consumer.dispatch.in_order import OrderlyDispatch
from rocketmq_py.consumer.dispatch.inbox import Inbox
from rocketmq_py.consumer.dispatch.listener_calls import MINUTE_MS
from rocketmq_py.consumer.dispatch.pacing import Pace
from rocketmq_py.consumer.dispatch.pool import PoolDispatch
from rocketmq_py.consumer.inspection import Inspection
from rocketmq_py.consumer.listener import MessageModel
from rocketmq_py.consumer.listening import handler_of
from rocketmq_py.consumer.send_back import NoRetries, SendBack
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.names import retry_topic, with_namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocketmq_py.client.instance import ClientInstance
    from rocketmq_py.clock import Clock
    from rocketmq_py.consumer.core.limits import Gate
    from rocketmq_py.consumer.core.member import Task
    from rocketmq_py.consumer.core.offset_table import OffsetTable
    from rocketmq_py.consumer.core.progress import Progress, Retries
    from rocketmq_py.consumer.core.rebalance import Ownership
    from rocketmq_py.consumer.core.shares import Share
    from rocketmq_py.consumer.core.sources import Source
    from rocketmq_py.consumer.dispatch.listener_calls import Handler, Workers
    from rocketmq_py.consumer.hooks import Hooks
    from rocketmq_py.consumer.listener import Listening
    from rocketmq_py.consumer.settings import (
        ConsumerConfig,
        LitePullConsumerConfig,
        PopConsumerConfig,
        PushConsumerConfig,
    )
    from rocketmq_py.consumer.subscriptions import SubscriptionTable
    from rocketmq_py.consumer.tracing import ConsumerTracing
    from rocketmq_py.send_result import MessageQueue

LOCK_FIRST_MS = 1_000
_NOT_ASSIGNED = "client_rebalance", True
BROADCAST_ONCE = "in broadcasting every member gets each message once"

_Settings_co = TypeVar("_Settings_co", covariant=True)

PushMember: TypeAlias = GroupMember[PoolDispatch | OrderlyDispatch]


class Dispatching(NamedTuple):
    """A dispatch, and what else a consumer needs because of it."""

    dispatch: PoolDispatch | OrderlyDispatch
    gates: Sequence[Gate]
    periodic: Sequence[tuple[float, float, Task]]
    ownership: Ownership = Unguarded()


class Flow(NamedTuple):
    """Whose messages a consumer gets, where from, and what settling them does.

    ``pops`` says which queues are popped.
    """

    share: Share
    source: Source
    progress: Progress
    ownership: Ownership = Unguarded()
    pops: Callable[[MessageQueue], bool] = lambda _queue: False


class Basis(NamedTuple, Generic[_Settings_co]):
    """What every part of one consumer may need."""

    group: str
    engine: ClientInstance
    settings: _Settings_co
    subscriptions: SubscriptionTable
    clock: Clock
    hooks: Hooks


class Queues(NamedTuple):
    """Which queues a consumer has, and where it begins in each."""

    calls: ConsumerCalls
    offsets: OffsetTable
    share: Share
    begin: Callable[[MessageQueue], int]


def queues_of(basis: Basis[ConsumerConfig]) -> Queues:
    """Choose share and offsets by the message model."""
    group, engine, settings, _, clock, _ = basis
    calls = ConsumerCalls(engine, group, settings)
    offsets: OffsetTable
    share: Share
    if settings.message_model is MessageModel.BROADCASTING:
        filed = with_namespace(settings.namespace, group)  # another namespace has other offsets
        offsets, share = FileOffsets(engine, filed, _directory(settings)), Everything()
    else:
        offsets = BrokerOffsets(engine, calls)
        share = SharedByStrategy(engine, calls, group, settings)

    def begin(queue: MessageQueue) -> int:
        offset = first_offset(queue, offsets=offsets, calls=calls, settings=settings, clock=clock)
        if settings.message_model is MessageModel.BROADCASTING:
            # Nobody else knows where this member has begun: without that it would begin at the end
            # once more if it had to start again before it has handled anything.
            offsets.update(queue, offset)
        return offset

    return Queues(calls, offsets, share, begin)


def push_member(
    basis: Basis[PushConsumerConfig],
    listening: Listening,
    workers: Workers | None = None,
    pace: Pace | None = None,
) -> PushMember:
    """Put a push consumer together, for the model in its settings and the kind of its listener.

    ``workers`` run the listener calls; None: a pool of threads. ``pace``: how often, in any order.
    """
    group, engine, settings, subscriptions, _, _ = basis
    _check_together(settings, listening)
    pops = _pops(settings)
    queues = queues_of(basis)
    offsets = queues.offsets
    locks: QueueLocks | None
    if settings.message_model is MessageModel.BROADCASTING:
        locks = None
        flow = _pulling(basis, queues, NoRetries(group, BROADCAST_ONCE))
    else:
        retries = SendBack(group, queues.calls, settings)
        if not settings.pop_all_queues:  # pops of a topic get its retries, too
            subscriptions.put(retry_topic(group), "*")
        flow = _pulling(basis, queues, retries)
        if pops:
            flow = _popping(basis, flow, retries, in_order=listening.is_orderly)
        locks = QueueLocks(engine, group, needs_none=flow.pops)
    tracing = _traced(basis)
    handler = handler_of(
        listening,
        group,
        lambda: settings.suspend_current_queue_time_millis,
        commits=not pops,
    )
    if listening.is_orderly:
        how = _in_order(basis, flow.progress, handler, locks, workers)
    else:
        how = _on_pool(basis, flow, handler, workers, pace or Pace())
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
        periodic=(*how.periodic, _comparing(basis)),
        answer=_inspection(basis, offsets, listening).answer,
        last=nothing if tracing is None else tracing.close,
    )
    return GroupMember(
        group=group, engine=engine, settings=settings, subscriptions=subscriptions, parts=parts
    )


def _pops(settings: PushConsumerConfig) -> bool:
    """Whether topics may be popped: all, or those that an administrator has set to it."""
    return settings.pop_all_queues or not settings.client_rebalance


def _check_together(settings: PushConsumerConfig, listening: Listening) -> None:
    """Raise ConfigError for settings, or a listener, that do not go together."""
    if settings.message_model is MessageModel.BROADCASTING and _pops(settings):
        name, needed = ("pop_all_queues", False) if settings.pop_all_queues else _NOT_ASSIGNED
        raise ConfigError(
            name,
            not needed,
            f"must be {needed} for broadcasting: each member has all queues, so brokers assign "
            "none",
        )
    if settings.consume_message_batch_max_wait and (listening.is_orderly or _pops(settings)):
        raise ConfigError(
            "consume_message_batch_max_wait",
            settings.consume_message_batch_max_wait,
            "must be 0 for a listener in order, and where topics are popped",
        )


def lite_pull_member(
    basis: Basis[LitePullConsumerConfig], assigned: Assigned | None
) -> GroupMember[Inbox]:
    """Put a consumer together that is asked for messages; ``assigned``: of which queues."""
    group, engine, settings, subscriptions, _, hooks = basis
    calls, offsets, share, begin = queues_of(basis)
    progress = PolledProgress(offsets, begin)
    inbox = Inbox()
    tracing = _traced(basis)
    parts = Parts(
        consume_type="CONSUME_ACTIVELY",
        share=assigned or share,
        source=Pulls(calls, subscriptions, offsets, group, hooks),
        offsets=offsets,
        progress=progress,
        dispatch=inbox,
        gates=lambda queues: (
            QueueLimits(settings, queues),
            SpanLimit("consume_max_span", lambda: settings.consume_max_span),
            InboxLimit(settings, inbox),
        ),
        periodic=() if assigned else (_comparing(basis),),
        answer=_inspection(basis, offsets, None).answer,
        last=nothing if tracing is None else tracing.close,
    )
    return GroupMember(
        group=group, engine=engine, settings=settings, subscriptions=subscriptions, parts=parts
    )


def pop_member(basis: Basis[PopConsumerConfig]) -> GroupMember[Inbox]:
    """Put a consumer together that pops when it is asked: a member of its group without queues."""
    group, engine, settings, subscriptions, _, hooks = basis
    calls, offsets, _, begin = queues_of(basis)
    tracing = _traced(basis)
    parts = Parts(
        consume_type="CONSUME_ACTIVELY",
        share=Assigned(),
        source=Pulls(calls, subscriptions, offsets, group, hooks),
        offsets=offsets,
        progress=PolledProgress(offsets, begin),
        dispatch=Inbox(),
        gates=lambda _queues: (),
        periodic=(_comparing(basis),),
        answer=_inspection(basis, offsets, None).answer,
        last=nothing if tracing is None else tracing.close,
    )
    return GroupMember(
        group=group, engine=engine, settings=settings, subscriptions=subscriptions, parts=parts
    )


def _traced(basis: Basis[ConsumerConfig]) -> ConsumerTracing | None:
    """Let hooks note the trace, if the settings say so."""
    group, engine, settings, _, clock, hooks = basis
    if not settings.enable_trace:
        return None
    from rocketmq_py.consumer.tracing import ConsumerTracing  # most consumers have none

    tracing = ConsumerTracing(settings, engine, group, clock)
    hooks.own = (tracing,)
    return tracing


def _pulling(basis: Basis[PushConsumerConfig], queues: Queues, retries: Retries) -> Flow:
    source = Pulls(queues.calls, basis.subscriptions, queues.offsets, basis.group, basis.hooks)
    return Flow(queues.share, source, OffsetProgress(queues.offsets, retries, queues.begin))


def _popping(
    basis: Basis[PushConsumerConfig], pulling: Flow, retries: Retries, *, in_order: bool
) -> Flow:
    """Let brokers assign queues; those that an administrator has not set to popping are pulled.

    With ``pop_all_queues`` nobody is asked: all are popped.
    """
    group, engine, settings, subscriptions, clock, hooks = basis
    calls = PopCalls(engine, group)
    by_broker: ByBroker | EveryBroker = EveryBroker(in_order)
    if not settings.pop_all_queues:
        by_broker = ByBroker(
            engine=engine,
            group=group,
            calls=calls,
            settings=settings,
            by_strategy=pulling.share,
            in_order=in_order,
        )
    receipts = Receipts(
        engine=engine,
        group=group,
        calls=calls,
        settings=settings,
        dead_letters=retries,
        clock=clock,
        in_order=in_order,
        as_proxy=settings.pop_all_queues,
    )
    pops = Pops(calls, subscriptions, settings, receipts.acks.unwanted, group, hooks)
    return Flow(
        by_broker,
        SourceByMode(pulling.source, pops),
        ProgressByMode(pulling.progress, receipts, by_broker.pops),
        receipts,
        by_broker.pops,
    )


def _in_order(
    basis: Basis[PushConsumerConfig],
    progress: Progress,
    handler: Handler,
    locks: QueueLocks | None,
    workers: Workers | None,
) -> Dispatching:
    orderly = OrderlyDispatch(
        pool=workers,
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


def _on_pool(
    basis: Basis[PushConsumerConfig],
    flow: Flow,
    handler: Handler,
    workers: Workers | None,
    pace: Pace,
) -> Dispatching:
    pool = PoolDispatch(
        pool=workers,
        pace=pace,
        group=basis.group,
        engine=basis.engine,
        settings=basis.settings,
        progress=flow.progress,
        handler=handler,
        clock=basis.clock,
        hooks=basis.hooks,
    )
    return Dispatching(
        pool,
        gates=(
            SpanLimit(
                "consume_concurrently_max_span",
                lambda: basis.settings.consume_concurrently_max_span,
            ),
        ),
        periodic=(_sweeping(basis, pool.sweep),),
        ownership=flow.ownership,
    )


def _sweeping(basis: Basis[PushConsumerConfig], sweep: Task) -> tuple[float, float, Task]:
    every_ms = basis.settings.consume_timeout * MINUTE_MS
    return every_ms, every_ms, sweep


def _comparing(basis: Basis[Any]) -> tuple[float, float, Task]:
    every_ms = basis.settings.heartbeat_broker_interval * PART_OF_A_HEARTBEAT
    agreement = Agreement(basis.engine, basis.group, basis.subscriptions)
    return every_ms, every_ms, agreement.look


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

"""Which timer engine a broker gets, and whether its store allows that.

Answers: the wheel or the sliced engine, by the option timerEngine. Each keeps what waits in its own
topic and files and reads nothing of the other's. So a store in which timers of the other engine
still wait is refused instead of forgetting them; the same goes for delay levels that were switched
off while messages waited in their queues. Must not know: how an engine works.

Read on: `interface.py` for what both offer.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from embedded_broker.config import BrokerConfig
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.message_store import MessageStore
from embedded_broker.timer.delay_offsets import SLICE_INBOUND, DelayOffsetFile
from embedded_broker.timer.engine import TimerMessageStore
from embedded_broker.timer.interface import TimerEngine
from embedded_broker.timer.metrics import TimerMetrics
from embedded_broker.timer.sliced.engine import SlicedTimerStore
from embedded_broker.timer.sliced.opening import METRICS_FILE as SLICED_METRICS
from embedded_broker.timer.state import METRICS_FILE as WHEEL_METRICS
from rocketmq_py.clock import Clock
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC

__all__ = ["make_engine"]

_ADVICE: Final = "or a store without them: open it as it was, until they are delivered"


def make_engine(
    store: MessageStore,
    fs: FileSystem,
    config: BrokerConfig,
    clock: Clock,
    *,
    random: Random,
    file: DelayOffsetFile,
    levels: bool,
) -> TimerEngine:
    """Make the engine that the settings ask for. After `MessageStore.load`; opens nothing yet.

    `levels` is False when delay levels have no queues of their own: the engine then serves them.
    Raises ConfigError when messages wait in the store that nobody would deliver.
    """
    table = file.load()
    is_sliced = config.text("timerEngine") == "sliced"
    inbound = table.get(SLICE_INBOUND)
    own_queue = [SCHEDULE_TOPIC, 1]
    waiting = _waiting(fs, SLICED_METRICS)
    if is_sliced:
        _refuse("timerEngine", "sliced", "wheel", _waiting_in_wheel(store, fs))
        if inbound is not None and (inbound == own_queue) is levels:
            _refuse("levels", "on" if levels else "off", "off" if levels else "on", waiting)
    elif inbound is not None:
        _refuse("timerEngine", "wheel", "sliced", waiting)
    if not levels:
        _refuse("levels", "off", "on", _waiting_at_levels(store, table, inbound == own_queue))
    if is_sliced:
        return SlicedTimerStore(
            store, fs, config, clock, random=random, file=file, levels_off=not levels
        )
    engine = TimerMessageStore(store, fs, config, clock, random=random)
    if not levels:
        engine.admission.serve_levels()
    return engine


def _refuse(setting: str, value: str, other: str, waiting: int) -> None:
    if waiting:
        raise ConfigError(setting, value, f"{other} while {waiting} messages wait there, {_ADVICE}")


def _waiting(fs: FileSystem, path: str) -> int:
    metrics = TimerMetrics(fs, path)
    metrics.load()
    return metrics.total


def _waiting_in_wheel(store: MessageStore, fs: FileSystem) -> int:
    return _waiting(fs, WHEEL_METRICS) if store.max_offset(TIMER_TOPIC, 0) else 0


def _waiting_at_levels(
    store: MessageStore,
    table: dict[str, Any],  # JSON values
    shares_a_queue: bool,
) -> int:
    """Count what lies in the queues of the levels behind their saved offsets."""
    offsets = table.get("offsetTable")
    saved = offsets if isinstance(offsets, dict) else {}
    waiting = 0
    for topic, queue_id in list(store.queues):
        if topic != SCHEDULE_TOPIC or (queue_id == 1 and shares_a_queue):
            continue
        low = store.min_offset(topic, queue_id)
        offset = saved.get(queue_id + 1, saved.get(str(queue_id + 1)))
        begin = max(low, offset) if isinstance(offset, int) else low
        waiting += max(0, store.max_offset(topic, queue_id) - begin)
    return waiting

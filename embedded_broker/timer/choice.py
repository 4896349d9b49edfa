"""Choice of the timer engine, and whether a store allows it.

Answers: the wheel or the sliced engine, by the option timerEngine. Each keeps what waits in its own
topic and files and reads nothing of the other's. So a store in which timers of the other engine
still wait, or may wait because the last stop was no clean one, is refused instead of forgetting
them; the same goes for delay levels that were switched off while messages waited in their queues.
Whose the store is stands in `config/delayOffset.json` (`sliceInbound`) before the first timer
arrives. Must not know: how an engine works.

Read on: `interface.py` for what both offer.
"""

from random import Random
from typing import Any, Final

from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.message_store import MessageStore
from embedded_broker.timer.delay_offsets import SLICE_INBOUND, SLICE_WHEEL_END, DelayOffsetFile
from embedded_broker.timer.interface import TimerEngine
from embedded_broker.timer.metrics import TimerMetrics
from embedded_broker.timer.request import parse_request
from embedded_broker.timer.slices.dcommit_log import DCOMMIT_LOG_FOLDER
from embedded_broker.timer.slices.engine import SlicedTimerStore
from embedded_broker.timer.slices.opening import METRICS_FILE as SLICED_METRICS
from embedded_broker.timer.slices.opening import SCHEDULE_QUEUE, level_offsets_behind
from embedded_broker.timer.slices.progress import SliceProgress
from embedded_broker.timer.wheel.checkpoint import TimerMetaFile
from embedded_broker.timer.wheel.engine import TimerMessageStore
from embedded_broker.timer.wheel.flush import META_FILE
from embedded_broker.timer.wheel.state import METRICS_FILE as WHEEL_METRICS
from rocketmq_py.clock import Clock
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.names import SCHEDULE_TOPIC, SLICE_TIMER_TOPIC, TIMER_TOPIC

_ADVICE: Final = "or use another store; this one must be open as it was until they are delivered"
_UNKNOWN: Final = (
    "the store was not stopped cleanly, so it does not tell how many messages wait there. Open it "
    "as it was and stop it cleanly first"
)
_WHEEL_QUEUE: Final = [TIMER_TOPIC, 0]
_SLICE_QUEUE: Final = [SLICE_TIMER_TOPIC, 0]
_SHARED_QUEUE: Final = [SCHEDULE_TOPIC, SCHEDULE_QUEUE]


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
    Raises ConfigError when messages may wait in the store that nobody would deliver, and
    StoreError when it cannot be noted whose the store is.
    """
    table = file.load()
    is_sliced = config.text("timerEngine") == "sliced"
    inbound = table.get(SLICE_INBOUND, _SLICE_QUEUE)
    if SLICE_INBOUND not in table and _has_timers_at_level(store, fs):
        inbound = _SHARED_QUEUE
    if is_sliced:
        _refuse("timerEngine", "sliced", "wheel", _waiting_in_wheel(store, fs, table))
        if inbound != (_SLICE_QUEUE if levels else _SHARED_QUEUE):
            waiting = _waiting_in_slices(store, fs, table, inbound)
            _refuse("levels", "on" if levels else "off", "off" if levels else "on", waiting)
    else:
        waiting = _waiting_in_slices(store, fs, table, inbound)
        _refuse("timerEngine", "wheel", "sliced", waiting)
    if not levels:
        waiting = _waiting_at_levels(store, table, shares_a_queue=inbound == _SHARED_QUEUE)
        _refuse("levels", "off", "on", waiting)
    if is_sliced:
        return SlicedTimerStore(
            store, fs, config, clock, random=random, file=file, levels_off=not levels
        )
    if SLICE_INBOUND in table and inbound != _WHEEL_QUEUE:
        # Nothing waits in the other queue; what is put there from now on is not the engine's.
        file.save({SLICE_INBOUND: _WHEEL_QUEUE, **level_offsets_behind(table)})
    engine = TimerMessageStore(store, fs, config, clock, random=random)
    if not levels:
        engine.admission.serve_levels()
    return engine


def _refuse(setting: str, value: str, other: str, waiting: int | None) -> None:
    if waiting is None:
        raise ConfigError(setting, value, f"it must be {other}: {_UNKNOWN}")
    if waiting:
        raise ConfigError(
            setting, value, f"it must be {other} while {waiting} messages wait there, {_ADVICE}"
        )


# --- what waits: None where the files do not tell -----------------------------------------------


def _waiting_in_wheel(store: MessageStore, fs: FileSystem, table: dict[str, Any]) -> int | None:
    """Count the timers of the wheel, which is not open."""
    end = store.max_offset(TIMER_TOPIC, 0)
    taken_at = table.get(SLICE_WHEEL_END)
    is_taken = table.get(SLICE_INBOUND) in (_SLICE_QUEUE, _SHARED_QUEUE)
    if end == 0 or (is_taken and isinstance(taken_at, int) and end <= taken_at):
        return 0
    meta = TimerMetaFile(fs, META_FILE).load()
    if meta is None or meta.clean_end is None:
        return None
    log_end, _, counter = meta.clean_end
    is_same = log_end == store.log.max_offset or end <= meta.checkpoint.last_timer_queue_offset
    return _counted(fs, WHEEL_METRICS, counter) if is_same else None


def _waiting_in_slices(
    store: MessageStore,
    fs: FileSystem,
    table: dict[str, Any],  # JSON values
    inbound: object,
) -> int | None:
    """Count the timers of the sliced engine with this queue, which is not open."""
    if inbound == _WHEEL_QUEUE:
        return 0
    if inbound == _SHARED_QUEUE:
        end = store.max_offset(SCHEDULE_TOPIC, SCHEDULE_QUEUE)
    else:
        end = store.max_offset(SLICE_TIMER_TOPIC, 0)
    if end == 0:
        return 0
    progress = SliceProgress.from_table(table)
    if progress is None or progress.clean is None:
        return None
    log_end, counter = progress.clean
    is_same = log_end == store.log.max_offset or end <= progress.delay_offset
    return _counted(fs, SLICED_METRICS, counter) if is_same else None


def _counted(fs: FileSystem, path: str, counter: int) -> int | None:
    """Give the number of a clean stop; None when other counts were saved since.

    Counts are saved lazily, at most once a second. So they are believed only if they are those of
    a clean stop and no timer came since: the commit log, or the engine's own queue, ends there.
    """
    metrics = TimerMetrics(fs, path)
    metrics.load()
    return metrics.total if metrics.counter == counter else None


def _has_timers_at_level(store: MessageStore, fs: FileSystem) -> bool:
    """Say whether the shared queue ends with a timer although the file does not say whose it is.

    The file is lost then, or the process died before it was written.
    """
    queue = store.consume_queue(SCHEDULE_TOPIC, SCHEDULE_QUEUE)
    entry = None if queue is None else queue.entry(queue.max_offset - 1)
    if entry is None or not fs.list(DCOMMIT_LOG_FOLDER):
        return False
    record = store.record(entry[0])
    return record is not None and parse_request(record.properties) is not None


def _waiting_at_levels(
    store: MessageStore,
    table: dict[str, Any],  # JSON values
    *,
    shares_a_queue: bool,
) -> int:
    """Count what lies in the queues of the levels behind their saved offsets."""
    offsets = table.get("offsetTable")
    saved = offsets if isinstance(offsets, dict) else {}
    waiting = 0
    for topic, queue_id in list(store.queues):
        if topic != SCHEDULE_TOPIC or (queue_id == SCHEDULE_QUEUE and shares_a_queue):
            continue
        low = store.min_offset(topic, queue_id)
        offset = saved.get(queue_id + 1, saved.get(str(queue_id + 1)))
        begin = max(low, offset) if isinstance(offset, int) else low
        waiting += max(0, store.max_offset(topic, queue_id) - begin)
    return waiting


def wheel_of(engine: TimerEngine) -> TimerMessageStore:
    """Give the engine that can follow a master and deliver elsewhere.

    Raises ``ConfigError`` for one that cannot.
    """
    if not isinstance(engine, TimerMessageStore):
        limit = "wheel, with brokerRole=SLAVE and with escapeNamesrvAddr"
        raise ConfigError("timerEngine", "sliced", limit)
    return engine

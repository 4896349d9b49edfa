"""Settings that a sliced store was made with: checked and noted before anything of it is read.

Answers: where its timers arrive, how long a slice is and how large its files are. The last two
belong to the store: a setting that is not the default and disagrees is refused. And what is noted
before the first timer arrives, so that no stop leaves open whose messages a queue holds. Must not
know: records, times.

Read on: `engine.py`, `recovery.py`.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve

from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.options import OPTIONS
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.message_store import MessageStore
from embedded_broker.timer.delay_offsets import (
    SLICE_DELAY_OFFSET,
    SLICE_INBOUND,
    SLICE_WHEEL_END,
    DelayOffsetFile,
)
from embedded_broker.timer.metrics import TimerMetrics
from embedded_broker.timer.slices.dcommit_log import DCOMMIT_LOG_FOLDER, DCommitLog, folder_of
from embedded_broker.timer.slices.progress import SliceProgress
from embedded_broker.timer.slices.state import SliceRole, SliceState
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.names import SCHEDULE_TOPIC, SLICE_TIMER_TOPIC, TIMER_TOPIC

METRICS_FILE: Final = "config/slicemetrics"
SCHEDULE_QUEUE: Final = 1
"""Queue of SCHEDULE_TOPIC_XXXX that the document uses; possible only without delay levels."""


def make_state(
    store: MessageStore,
    fs: FileSystem,
    config: BrokerConfig,
    progress: SliceProgress | None,
    *,
    levels_off: bool,
    role: SliceRole,
) -> SliceState:
    """Make the state of a store that is still to be recovered. Raises ConfigError."""
    length = _slice_length(config, progress)
    return SliceState(
        store=store,
        log=DCommitLog(fs, _log_file_size(config, fs, progress)),
        metrics=TimerMetrics(fs, METRICS_FILE),
        inbound=(SCHEDULE_TOPIC, SCHEDULE_QUEUE) if levels_off else (SLICE_TIMER_TOPIC, 0),
        length=length,
        preload_seconds=min(config.int("slicePreloadSec"), length),
        role=role,
    )


def first_offset(table: Mapping[str, Any]) -> int:  # JSON values
    """Give where the engine's messages begin in the queue that it shares with a delay level.

    Up to there the level delivered; what follows was put there by nobody yet.
    """
    level = SCHEDULE_QUEUE + 1
    offsets = table.get("offsetTable")
    found = offsets.get(level, 0) if isinstance(offsets, dict) else 0
    return found if isinstance(found, int) else 0


def level_offsets_behind(table: Mapping[str, Any]) -> dict[str, Any]:  # JSON values
    """Give the offsets of the levels to save when the engine leaves the queue of one of them.

    What it has sent on its way from there is none of the level's. Empty when it has another queue.
    """
    offset = table.get(SLICE_DELAY_OFFSET)
    if table.get(SLICE_INBOUND) != [SCHEDULE_TOPIC, SCHEDULE_QUEUE] or not isinstance(offset, int):
        return {}
    offsets = table.get("offsetTable")
    saved = offsets if isinstance(offsets, dict) else {}
    return {"offsetTable": {**saved, SCHEDULE_QUEUE + 1: max(offset, first_offset(table))}}


def take_store(file: DelayOffsetFile, state: SliceState, progress: SliceProgress | None) -> None:
    """Note durably which queue is the engine's, before the first timer arrives in it.

    `progress` is what was found, about this queue. Without the note a process that is killed
    before its first flush leaves timers that nobody can tell from messages of a delay level.
    Raises StoreError.
    """
    table = file.load()
    part: dict[str, Any] = {}
    if progress is None:
        first = SliceProgress(
            delay_offset=state.queue_offset,
            current_second=state.current_second,
            length=state.length,
            inbound=state.inbound,
        )
        part = {**first.to_table(), **level_offsets_behind(table)}
    elif table.get(SLICE_INBOUND) != list(state.inbound):
        taken = evolve(progress, length=state.length, inbound=state.inbound)
        part = {**taken.to_table(), **level_offsets_behind(table)}
    if part or SLICE_WHEEL_END not in table:
        part[SLICE_WHEEL_END] = state.store.max_offset(TIMER_TOPIC, 0)
        file.save(part)


def _slice_length(config: BrokerConfig, progress: SliceProgress | None) -> int:
    """Give the length of a slice: the store's own while it has slices."""
    name = "timeSliceLength"
    wanted = config.int(name)
    if progress is None or progress.length == wanted or not progress.ends:
        return wanted
    if wanted != OPTIONS[name].default:
        raise ConfigError(name, wanted, f"it must be {progress.length}, as in this store's slices")
    return progress.length


def _log_file_size(config: BrokerConfig, fs: FileSystem, progress: SliceProgress | None) -> int:
    """Give the length of a slice's files: the store's own, unless another is asked for."""
    name = "mappedFileSizeDCommitLog"
    wanted = config.int(name)
    lengths = _lengths_of_files(fs, {} if progress is None else progress.ends)
    if not lengths or lengths[wanted]:
        return wanted
    # One file that was cut short does not speak for the others.
    found = max(lengths, key=lambda one: (lengths[one], one))
    if wanted != OPTIONS[name].default:
        raise ConfigError(name, wanted, f"it must be {found}, as in this store's logs")
    return found


def _lengths_of_files(fs: FileSystem, ends: Mapping[int, int]) -> Counter[int]:
    """Count the lengths of the files that can be whole.

    The last file of a slice was cut if it is shorter than what was flushed into it.
    """
    lengths: Counter[int] = Counter()
    for number in fs.list(DCOMMIT_LOG_FOLDER):
        folder = folder_of(int(number)) if number.isdecimal() else ""
        starts = {int(one): one for one in fs.list(folder) if one.isdecimal()} if folder else {}
        for start, name in starts.items():
            length = fs.size(f"{folder}/{name}")
            is_last = start == max(starts)
            if length and not (is_last and start + length < ends.get(int(number), 0)):
                lengths[length] += 1
    return lengths

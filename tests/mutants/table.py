"""The mutants of the timers, by the numbered cases whose tests must notice; and all mutants.

Must not know: how a mutant is run. Read on: ``mutant.py``; ``rooms.py`` for the rest of the broker.
"""

from __future__ import annotations

from tests.cases import expand
from tests.mutants.mutant import Mutant
from tests.mutants.rooms import ROOMS

TIMER = "embedded_broker/timer/"
DELAY = "rocketmq_py/protocol/delay.py"


def _mutant(cases: str, file: str, old: str, new: str) -> Mutant:
    return Mutant(file, old, new, cases=tuple(expand(cases)))


FORMATS = (
    _mutant(
        "F1",
        TIMER + "wheel/timer_log.py",
        'struct.Struct(">iqiqiqiiq")',
        'struct.Struct("<iqiqiqiiq")',
    ),
    _mutant(
        "F2",
        TIMER + "wheel/timer_log.py",
        "files.append(_BLANK.pack(room, 0, BLANK_MAGIC))",
        "files.append(_BLANK.pack(BLANK_SIZE, 0, BLANK_MAGIC))",
    ),
    _mutant(
        "F5",
        TIMER + "wheel/timer_log.py",
        "if len(data) + BLANK_SIZE > room:",
        "if len(data) > room:",
    ),
    _mutant(
        "F4",
        TIMER + "wheel/timer_log.py",
        "        return self._files.let_go_before(keep_from)",
        "        return self._files.let_go_before(keep_from - 1)",
    ),
    _mutant(
        "F10",
        TIMER + "wheel/slots.py",
        "        if stored != unit or stored == 0:",
        "        if stored == 0:",
    ),
    _mutant(
        "F13-14",
        "rocketmq_py/protocol/bodies/timers.py",
        'struct.Struct(">7q")',
        'struct.Struct(">6q")',
    ),
    _mutant(
        "F15",
        "embedded_broker/store/config_files.py",
        "        found, wrong_too = self._read(self.backup_path)",
        "        found, wrong_too = None, None",
    ),
    _mutant(
        "F17",
        "rocketmq_py/protocol/tag_hash.py",
        "value = (value * 31 + (high << 8 | low)) & _MASK",
        "value = (value * 31 + (low << 8 | high)) & _MASK",
    ),
    _mutant(
        "F18",
        "embedded_broker/settings/config.py",
        "max((one for one in PRECISIONS if one <= number), default=PRECISIONS[0])",
        "min((one for one in PRECISIONS if one >= number), default=PRECISIONS[-1])",
    ),
)
ADMISSION = (
    _mutant(
        "A1",
        DELAY,
        "return (deliver_at_ms - 1) // precision_ms * precision_ms",
        "return deliver_at_ms // precision_ms * precision_ms",
    ),
    _mutant("A5", TIMER + "admission.py", "if due_ms <= now_ms:", "if due_ms < now_ms:"),
    _mutant(
        "A6",
        TIMER + "admission.py",
        "if due_ms - now_ms >= self._refused_from_ms:",
        "if due_ms - now_ms > self._refused_from_ms:",
    ),
    _mutant(
        "A8", TIMER + "admission.py", "            properties.pop(name, None)", "            pass"
    ),
    _mutant("A9", DELAY, "return min(level, len(levels))", "return level"),
    _mutant("A17", TIMER + "admission.py", "if num >= 2 * limit:", "if num > 2 * limit:"),
    _mutant(
        "A26",
        TIMER + "admission.py",
        "if room < ROOM_FOR_TIMER_PROPERTIES:",
        "if room < 0:",
    ),
)
PIPELINE = (
    _mutant(
        "P2",
        TIMER + "wheel/release.py",
        "while (due_ms := due_heap.next_due_ms) is not None and due_ms <= limit_ms:",
        "while (due_ms := due_heap.next_due_ms) is not None and due_ms <= limit_ms + 1:",
    ),
    _mutant(
        "P8-9", TIMER + "wheel/enqueue.py", "        if behind >= 0:", "        if behind > 0:"
    ),
    _mutant(
        "P14",
        TIMER + "request.py",
        'return f"{real_topic}+{unique_key}"',
        "return unique_key",
    ),
    _mutant(
        "P20",
        TIMER + "delivery.py",
        "if self._attempts >= _ATTEMPTS and",
        "if self._attempts > _ATTEMPTS and",
    ),
    _mutant(
        "P28",
        TIMER + "wheel/state.py",
        "return self.releases or queue_offset < self.master_queue_offset",
        "return self.releases or queue_offset <= self.master_queue_offset",
    ),
    _mutant(
        "P29",
        TIMER + "wheel/engine.py",
        "            may_leave=lambda: state.role.releases,",
        "            may_leave=lambda: True,",
    ),
    _mutant("P34", TIMER + "delivery.py", "_LOOKS_MOST: Final = 4", "_LOOKS_MOST: Final = 5"),
)
RECALL = (
    _mutant(
        "R8",
        TIMER + "recall.py",
        "if not 0 < left_ms < max_delay_sec * 1000:",
        "if not -1000 < left_ms < max_delay_sec * 1000:",
    ),
    _mutant(
        "R6",
        TIMER + "recall.py",
        "    if broker_name != handle.broker_name:",
        "    if not broker_name:",
    ),
    _mutant(
        "R7",
        TIMER + "recall.py",
        'RECALL_TAG: Final = "_RECALL_TAG_"',
        'RECALL_TAG: Final = "_RECALL_TAG"',
    ),
    _mutant(
        "R2",
        TIMER + "request.py",
        "    return int(out) + 1 if out.isdecimal()",
        "    return int(out) if out.isdecimal()",
    ),
    _mutant(
        "R4-5",
        TIMER + "wheel/release.py",
        '        key = delete_key(topic, properties.get(Prop.UNIQ_KEY, ""))',
        '        key = properties.get(Prop.UNIQ_KEY, "")',
    ),
)
RECOVERY = (
    _mutant(
        "C5",
        TIMER + "wheel/recovery.py",
        "        self.truncated = log.truncate(self.end)",
        "        self.truncated = 0",
    ),
    _mutant(
        "C7",
        TIMER + "wheel/recovery.py",
        "        released_from = state.store.log.min_offset",
        "        released_from = state.store.log.max_offset",
    ),
    _mutant(
        "C9",
        TIMER + "wheel/recovery.py",
        "    if read_ms < skip_before_ms:",
        "    if False:",
    ),
    _mutant(
        "C11",
        TIMER + "wheel/record_judge.py",
        "        if 0 <= offset < self._log.min_offset:",
        "        if 0 <= offset < self._log.min_offset or self._log.read(offset, size) is None:",
    ),
    _mutant(
        "C12",
        TIMER + "wheel/enqueue.py",
        "        slot_ms = state.curr_read_ms\n",
        "        slot_ms = message.request.out_ms\n",
    ),
    _mutant(
        "C14",
        TIMER + "wheel/recovery.py",
        "    if found is not None and found != state.precision_ms:",
        "    if found is None:",
    ),
    _mutant(
        "C16-18",
        TIMER + "wheel/recovery.py",
        "        found.add(source)",
        "        found.discard(source)",
    ),
)
LEVELS = (
    _mutant("L3", TIMER + "levels/service.py", "max(low, min(wanted, high))", "max(low, wanted)"),
    _mutant(
        "L4",
        TIMER + "levels/service.py",
        "if deliver_ms > self.level_deliver_ms(level, now_ms):",
        "if deliver_ms > self.level_deliver_ms(level, deliver_ms):",
    ),
    _mutant(
        "L5",
        TIMER + "levels/service.py",
        "RETRY_AFTER_MS: Final = 100",
        "RETRY_AFTER_MS: Final = 99",
    ),
    _mutant(
        "L6",
        TIMER + "levels/unanswered_puts.py",
        "if len(flights) > pending_limit:",
        "if len(flights) >= pending_limit:",
    ),
    _mutant("L8", DELAY, "else _FIRST_RETRY_LEVEL + reconsume_times", "else _FIRST_RETRY_LEVEL"),
    _mutant(
        "L9",
        DELAY,
        "return store_timestamp + _UNKNOWN_LEVEL_MS",
        "return store_timestamp",
    ),
)
SLICED = (
    _mutant(
        "E2 E6",
        TIMER + "slices/record.py",
        "return out_ms // SECOND_MS + 1",
        "return out_ms // SECOND_MS",
    ),
    _mutant(
        "E2",
        TIMER + "slices/dispatch.py",
        "        if seen.second < state.current_second:",
        "        if seen.second <= state.current_second:",
    ),
    _mutant(
        "E1", TIMER + "slices/state.py", "return second // self.length", "return second // 100"
    ),
    _mutant(
        "E3",
        TIMER + "slices/state.py",
        "            return self.following",
        "            return None",
    ),
    _mutant(
        "E4",
        TIMER + "slices/recovery.py",
        "    state.current_second = progress.current_second",
        "    state.current_second = progress.current_second + 60",
    ),
    _mutant(
        "E7",
        TIMER + "delay_offsets.py",
        "content = {**self.load(), **part}",
        "content = {**part}",
    ),
)

TIMERS = (*FORMATS, *ADMISSION, *PIPELINE, *RECALL, *RECOVERY, *LEVELS, *SLICED)
MUTANTS = (*TIMERS, *ROOMS)

"""Roles of a sliced store: a node that follows a master, and how it takes over.

Answers: what a follower keeps up with, and what it must find out when the master is gone. A
follower sends everything that arrives to the logs of the slices, and fires nothing. It is told the
master's delayOffset.json from time to time. A slave does nothing at all and is told nothing.

A take-over loses nothing and repeats nothing that reached this node's commit log: what the master
released lies there as copies that name their sources, and what it had accounted for is in its
saved progress. Must not know: how a commit log is replicated, or who decides who is the master;
roles are set by calls.

Read on: `engine.py` (`become`, `follow`), `recovery.py` for how copies are found.
"""

from collections.abc import Mapping
from typing import Any

from embedded_broker.timer.slices.dispatch import hold_late
from embedded_broker.timer.slices.progress import SliceProgress
from embedded_broker.timer.slices.recovery import note_released
from embedded_broker.timer.slices.state import Late, SliceRole, SliceState
from rocketmq_py.errors import ConfigError


def step_down(state: SliceState, role: SliceRole) -> None:
    """Fire no more. What is in memory lies in the logs too; only what was fired is remembered."""
    state.role = role
    state.done |= state.fired
    state.current = state.following = None


def follow(state: SliceState, table: Mapping[str, Any]) -> None:  # JSON values
    """Take note of how far the master has come; slices that are over there are over here."""
    master = SliceProgress.from_table(table)
    if master is None:
        return
    if master.length != state.length:
        raise ConfigError("timeSliceLength", state.length, f"{master.length}, as on the master")
    if master.inbound != state.inbound:
        raise ConfigError("levels", state.inbound, f"those of the master: {master.inbound}")
    known = state.master
    if known is not None and master.delay_offset < known.delay_offset:
        return
    state.master = master
    state.current_second = max(state.current_second, master.current_second)
    state.cell_scan_pos = max(state.cell_scan_pos, master.scan_pos)
    state.changes += 1
    current = state.slice_of(state.current_second)
    for number in [one for one in state.log.slices if one < current]:
        state.log.drop(number)
        state.passed.append(number)

    def is_left(entry: Late) -> bool:
        return (
            entry.queue_offset >= master.delay_offset
            or entry.second >= master.current_second
            or entry.queue_offset in master.late
        )

    state.late.keep(is_left)
    _hold_what_master_holds(state, master)


def take_over(state: SliceState) -> None:
    """Find out what the master released; after it, the current second can be fired."""
    note_released(state, state.scan_pos())
    state.late.keep(lambda entry: entry.source not in state.done)


def _hold_what_master_holds(state: SliceState, master: SliceProgress) -> None:
    """Hold the late timers of the master that lie in a slice here: that is over as well."""
    for queue_offset in sorted(master.late - state.late.queue_offsets()):
        seen = state.glance_at(queue_offset) if queue_offset < state.queue_offset else None
        if seen is not None and seen.second < state.current_second:
            hold_late(state, seen, queue_offset)

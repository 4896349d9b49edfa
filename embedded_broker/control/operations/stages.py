"""The services of the timer store: look at them, hold one, let it work once.

Read on: ``embedded_broker/api/views/timers.py`` (``StageView``).
"""

from typing import Final

from attrs import frozen

from embedded_broker.api.views import StageView
from embedded_broker.control.operation import Call, Operation


@frozen(kw_only=True)
class StageTold:
    """One service: what waits for it, how far it is behind, what it has done."""

    name: str
    paused: bool
    queue_depth: int
    lag_ms: int
    counters: dict[str, int]


def list_stages(call: Call) -> list[StageTold]:
    """List the services of the timer store."""
    return [_told(one) for one in call.broker.timers.stages.values()]


def pause_stage(call: Call) -> StageTold:
    """Stop its work until it is resumed. New items wait."""
    stage = _find(call)
    stage.pause()
    return _told(stage)


def resume_stage(call: Call) -> StageTold:
    """Let it work again, beginning with what waited."""
    stage = _find(call)
    stage.resume()
    return _told(stage)


def step_stage(call: Call) -> StageTold:
    """Let it do once what waits for it, and hold it again if it was held."""
    stage = _find(call)
    stage.step()
    return _told(stage)


def _find(call: Call) -> StageView:
    stages, name = call.broker.timers.stages, call["stage"]
    if name not in stages:
        raise KeyError(f"no service {name!r}; there are {', '.join(stages)}")
    return stages[name]


def _told(stage: StageView) -> StageTold:
    return StageTold(
        name=stage.name,
        paused=stage.paused,
        queue_depth=stage.queue_depth,
        lag_ms=stage.lag_ms,
        counters=stage.counters,
    )


STAGES: Final = (
    Operation("GET", "/stages", list_stages),
    Operation("POST", "/stages/{stage}/pause", pause_stage),
    Operation("POST", "/stages/{stage}/resume", resume_stage),
    Operation("POST", "/stages/{stage}/step", step_stage),
)

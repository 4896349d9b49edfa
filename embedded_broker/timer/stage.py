"""Timer service as a test holds it: paused, resumed, looked at.

Answers: what the stages of both engines have in common. Nothing runs by itself: an engine steps
its stages. Must not know: what any of them does, or which engine it belongs to. Read on:
`wheel/engine.py` for the wheel's seven, `slices/engine.py` for the sliced engine's four.
"""

from collections import Counter
from collections.abc import Callable
from typing import ClassVar, Generic, Protocol, TypeVar

from embedded_broker.clocks.timeline import Alarm
from embedded_broker.store.message_store import MessageStore
from embedded_broker.timer.metrics import TimerMetrics


class EngineState(Protocol):
    """What the parts of an engine share, as far as all engines have it."""

    store: MessageStore
    metrics: TimerMetrics
    lost: Counter[str]
    alarm: Alarm


State_co = TypeVar("State_co", bound=EngineState, covariant=True)


class Stage(Generic[State_co]):
    """One service: can be held, and says how much waits for it and for how long."""

    name: ClassVar[str] = ""

    def __init__(self, state: State_co) -> None:
        self.state = state
        self.paused = False
        self.on_hold: Callable[[], None] = lambda: None
        """Called when it was held or let go."""

    def pause(self) -> None:
        """Let this service do nothing until `resume`."""
        self.paused = True
        self.on_hold()

    def resume(self) -> None:
        """Let this service work again."""
        self.paused = False
        self.on_hold()

    @property
    def queue_depth(self) -> int:
        """How many items wait for this service."""
        return 0

    def lag_ms(self, now_ms: int) -> int:  # noqa: ARG002 - most services cannot lag
        """For how long the oldest of them has been waiting."""
        return 0

    @property
    def counters(self) -> dict[str, int]:
        """What this service has done since the store was opened, by name."""
        return {}


class FlushStage(Stage[State_co]):
    """Marks the flush in the table of stages; the work is the engine's `begin_flush`.

    While it is held the timers' files stay as they are; a close and a snapshot write them even so.
    """

    def __init__(self, state: State_co) -> None:
        super().__init__(state)
        self.begun = 0

    @property
    def counters(self) -> dict[str, int]:
        """How many flushes were begun."""
        return {"begun": self.begun}

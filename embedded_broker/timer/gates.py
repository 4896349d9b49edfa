"""The two gates of an engine: whether timers may enter it now, and whether they may leave it.

Answers: what closes a gate: stages that a test holds, the options `timerStopEnqueue`,
`timerStopDequeue` and `disappearTimeAfterStart`, and the role of the broker. Must not know: what
would enter or leave, and what a role is.

Read on: `wheel/state.py` and `slices/state.py` for roles, the engines for who asks.
"""

from collections.abc import Callable

from attrs import define, field

from embedded_broker.settings.config import BrokerConfig
from embedded_broker.timer.stage import EngineState, Stage


@define(eq=False, repr=False)
class Gates:
    """Asked with every timer, so what stages and options say is kept as attributes.

    `may_enter` and `may_leave` say what the role allows now.
    """

    _config: BrokerConfig
    _entering: tuple[Stage[EngineState], ...]
    _leaving: tuple[Stage[EngineState], ...]
    _may_enter: Callable[[], bool]
    _may_leave: Callable[[], bool]
    _until_ms: int = field(default=0, init=False)
    entry_stopped: bool = field(default=False, init=False)
    """Whether a stage or the option keeps messages out, while others may go on leaving."""
    _exit_stopped: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        for stage in (*self._entering, *self._leaving):
            stage.on_hold = self._look
        self._config.on_change(lambda _: self._look())
        self._look()

    def _look(self) -> None:
        """See what is held."""
        entering, leaving = self._entering, self._leaving
        flag = self._config.flag
        self.entry_stopped = flag("timerStopEnqueue") or any(one.paused for one in entering)
        self._exit_stopped = flag("timerStopDequeue") or any(one.paused for one in leaving)

    def start(self, now_ms: int) -> None:
        """Let nothing leave for `disappearTimeAfterStart` from now on."""
        closed_ms = self._config.int("disappearTimeAfterStart")
        self._until_ms = now_ms + closed_ms if closed_ms > 0 else 0

    @property
    def entry_closed(self) -> bool:
        """Whether nothing may enter."""
        return self.entry_stopped or not self._may_enter()

    def exit_closed(self, now_ms: int) -> bool:
        """Whether nothing may leave at this time."""
        return now_ms < self._until_ms or self._closed_without_end

    def exit_opens_ms(self, now_ms: int) -> int | None:
        """When the wait after the start ends; None if it is over or something else is closed."""
        is_over = self._until_ms <= now_ms or self._closed_without_end
        return None if is_over else self._until_ms

    @property
    def _closed_without_end(self) -> bool:
        return self._exit_stopped or not self._may_leave()

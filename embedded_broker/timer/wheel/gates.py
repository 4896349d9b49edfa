"""The two gates of the wheel: whether timers may enter it now, and whether they may leave it.

Answers: what closes a gate: stages that a test holds, the options `timerStopEnqueue`,
`timerStopDequeue` and `disappearTimeAfterStart`, and the role of the broker. Must not know: what
would enter or leave.

Read on: `state.py` for the role, `engine.py` for who asks.
"""

from __future__ import annotations

from embedded_broker.settings.config import BrokerConfig
from embedded_broker.timer.stage import Stage
from embedded_broker.timer.wheel.state import TimerState

__all__ = ["Gates"]


class Gates:
    """Asked with every timer, so the options are kept as attributes."""

    def __init__(
        self,
        state: TimerState,
        config: BrokerConfig,
        *,
        entering: tuple[Stage[TimerState], Stage[TimerState]],
        leaving: tuple[Stage[TimerState], Stage[TimerState], Stage[TimerState]],
    ) -> None:
        self._state = state
        self._config = config
        self._enqueue_get, self._enqueue_put = entering
        self._dequeue_get, self._get_message, self._put_message = leaving
        self._until_ms = 0
        self._read_settings()
        config.on_change(lambda _: self._read_settings())

    def _read_settings(self) -> None:
        self._stop_enqueue = self._config.flag("timerStopEnqueue")
        self._stop_dequeue = self._config.flag("timerStopDequeue")

    def start(self, now_ms: int) -> None:
        """Let nothing leave for `disappearTimeAfterStart` from now on."""
        closed_ms = self._config.int("disappearTimeAfterStart")
        self._until_ms = now_ms + closed_ms if closed_ms > 0 else 0

    @property
    def entry_closed(self) -> bool:
        """Whether nothing may enter the wheel."""
        return self.entry_stopped or not self._state.role.may_enqueue(self._state.curr_queue_offset)

    @property
    def entry_stopped(self) -> bool:
        """Whether a stage or the option keeps messages out, while others may go on leaving."""
        return self._enqueue_get.paused or self._enqueue_put.paused or self._stop_enqueue

    def exit_closed(self, now_ms: int) -> bool:
        """Whether nothing may leave at this time."""
        return now_ms < self._until_ms or self._closed_without_end

    def exit_opens_ms(self, now_ms: int) -> int | None:
        """When the wait after the start ends; None if it is over or something else is closed."""
        is_over = self._until_ms <= now_ms or self._closed_without_end
        return None if is_over else self._until_ms

    @property
    def _closed_without_end(self) -> bool:
        return (
            self._dequeue_get.paused
            or self._get_message.paused
            or self._put_message.paused
            or self._stop_dequeue
            or not self._state.role.releases
        )

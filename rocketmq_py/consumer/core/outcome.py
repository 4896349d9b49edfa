"""What became of messages that the program has had, whatever kind of listener said so."""

from typing import Final, TypeAlias

from attrs import frozen

LEVEL_OF_ATTEMPT: Final = 0
"""The delay level that a broker replaces by that of the attempt."""


@frozen
class Done:
    """Handled: they do not come again."""


@frozen
class Later:
    """They come again after a delay: that of a level (0: of the attempt), or of milliseconds."""

    level: int = LEVEL_OF_ATTEMPT
    delay_ms: int | None = None


@frozen
class Hold:
    """They come again in their place, and nothing behind them before: the queue waits so long."""

    delay_ms: int


@frozen
class Dead:
    """They go to the dead letters at once."""


Outcome: TypeAlias = Done | Later | Hold | Dead

DONE: Final = Done()
DEAD: Final = Dead()
AS_ATTEMPT: Final = Later()
"""Come again after the delay of the attempt."""

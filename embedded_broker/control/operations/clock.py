"""Time: read it, move it, wait until the clients are idle.

Must not know: how a clock fires what is due. Read on: ``embedded_broker/clocks/clock.py``.
"""

from datetime import datetime
from typing import Final

from attrs import evolve, frozen

from embedded_broker.clocks.clock import VirtualClock
from embedded_broker.clocks.clock_run import Advanced, NextDeadline
from embedded_broker.clocks.settle import Settled
from embedded_broker.control.fields import Field, FieldType
from embedded_broker.control.operation import TIMEOUT, WAIT_MAX_S, Call, Operation

_SPANS: Final = ("days", "hours", "minutes", "seconds")


@frozen(kw_only=True)
class ClockTold:
    """What time it is for the broker, whether it passes by itself, and what is due next."""

    now: datetime
    now_ms: int
    flows: bool
    can_be_moved: bool
    next_deadline: NextDeadline | None


def tell_clock(call: Call) -> ClockTold:
    """Tell the time of the broker and what is due next."""
    clock = call.broker.clock
    return ClockTold(
        now=clock.now(),
        now_ms=clock.now_ms,
        flows=clock.flows,
        can_be_moved=isinstance(clock, VirtualClock),
        next_deadline=clock.next_deadline(),
    )


def advance(call: Call) -> Advanced:
    """Move time forward by a span. Everything due fires in its order before the answer comes."""
    return call.broker.clock.advance(**call.only(*_SPANS, "age", "roll_elision"))


def jump(call: Call) -> Advanced:
    """Move time forward to an instant. Everything due fires before the answer comes."""
    return call.broker.clock.jump_to(call["to"], **call.only("age", "roll_elision"))


def run(call: Call) -> Advanced:
    """Move time forward by a span, deadline by deadline, and let the clients react on the way."""
    return call.broker.clock.run(**call.only(*_SPANS, "timeout"))


def settle(call: Call) -> Settled:
    """Wait until all clients are idle: everything delivered is handled and committed."""
    return call.broker.clock.settle(**call.only("timeout", "check", "groups"))


@frozen(kw_only=True)
class BusyTold:
    """Work of another process: ``settle`` and ``run`` wait until the token is given back.

    ``told`` says what is held and for how long.
    """

    number: int
    told: str


def begin_busy(call: Call) -> BusyTold:
    """Say that your program is busy: time waits until it says the contrary, or the lease is over.

    Work that lasts longer takes a new token before the old one's lease is over. No condition of
    another process can be asked, as ``idle_when`` does: hold a token while it is not true.
    """
    number, token = call.broker.clock.activity.lease(call["name"], call["lease"])
    return BusyTold(number=number, told=token.told())


def end_busy(call: Call) -> BusyTold:
    """Give a token back: the work has ended. A lease that is over is told as not found."""
    number = TOKEN.read(call["token"])
    return BusyTold(number=number, told=call.broker.clock.activity.give_back(number).told())


def set_back(call: Call) -> ClockTold:
    """Set time back, as on a machine whose clock was corrected. Nothing fires."""
    call.broker.clock.set_back(call["milliseconds"])
    return tell_clock(call)


LEASE_S: Final = 30
"""How many seconds of wall time a token counts unless another number is given."""
TOKEN: Final = Field("token", FieldType.INTEGER, "Number of a token.", required=True, low=1)
_SPAN: Final = tuple(
    Field(name, FieldType.NUMBER, f"How many {name} to go forward.", low=0) for name in _SPANS
)
_JUMP: Final = (
    Field(
        "age", FieldType.FLAG, "Let messages grow old by the jump, and remove them.", default=False
    ),
    Field("roll_elision", FieldType.FLAG, "Leave out hops of long delays.", default=True),
)

CLOCK: Final = (
    Operation("GET", "/clock", tell_clock),
    Operation("POST", "/clock/advance", advance, (*_SPAN, *_JUMP)),
    Operation(
        "POST",
        "/clock/jump",
        jump,
        (Field("to", FieldType.INSTANT, "Where to go to.", required=True), *_JUMP),
    ),
    Operation(
        "POST",
        "/clock/run",
        run,
        (*_SPAN, evolve(TIMEOUT, default=30)),
    ),
    Operation(
        "POST",
        "/clock/settle",
        settle,
        (
            TIMEOUT,
            Field("groups", FieldType.TEXTS, "Wait for these consumer groups alone."),
            Field("check", FieldType.FLAG, "Answer a problem when time is up.", default=True),
        ),
    ),
    Operation(
        "POST",
        "/clock/busy",
        begin_busy,
        (
            Field(
                "name", FieldType.TEXT, "What is being done, for who waits in vain.", required=True
            ),
            Field(
                "lease",
                FieldType.NUMBER,
                "For how many seconds of wall time it counts at most, if you never end it.",
                default=LEASE_S,
                low=0.001,
                high=WAIT_MAX_S,
            ),
        ),
    ),
    Operation("DELETE", "/clock/busy/{token}", end_busy),
    Operation(
        "POST",
        "/clock/set_back",
        set_back,
        (Field("milliseconds", FieldType.INTEGER, "How far to set back.", required=True, low=0),),
    ),
)

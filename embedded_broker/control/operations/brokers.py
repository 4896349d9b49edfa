"""Brokers: where they are, their options, and their life: pause, crash, restart, copy, empty.

Read on: ``embedded_broker/api/broker.py``.
"""

from pathlib import Path
from typing import Final

from attrs import frozen

from embedded_broker.api.broker import EmbeddedBroker
from embedded_broker.api.views import GrpcClientInfo
from embedded_broker.control.fields import Field, FieldType
from embedded_broker.control.operation import Call, Operation
from embedded_broker.lifecycle.recovery_report import RecoveryReport
from embedded_broker.lifecycle.reset import Connected

DOWN_MAX_MS: Final = 60_000
"""The longest time for which a crash leaves a broker down."""


@frozen(kw_only=True)
class BrokerTold:
    """One broker: its addresses, and what is needed to repeat its run."""

    name: str
    addr: str
    namesrv_addr: str
    is_running: bool
    profile: str
    seed: int


@frozen(kw_only=True)
class Seen:
    """The state in words, as the text of a wait that failed tells it."""

    seen: str


@frozen(kw_only=True)
class Copied:
    """The directory that ``EmbeddedBroker(store=...)`` or ``serve --store`` opens."""

    path: Path


@frozen(kw_only=True)
class Options:
    """RocketMQ's options of a broker."""

    options: dict[str, object]


def list_brokers(call: Call) -> list[BrokerTold]:
    """List the brokers and their addresses."""
    return [_told(broker) for broker in call.brokers]


def tell_state(call: Call) -> Seen:
    """Tell in words what is there: topics, groups, timers, time, the last requests."""
    return Seen(seen=call.broker.seen())


def list_options(call: Call) -> Options:
    """List RocketMQ's options and their values."""
    return Options(options=dict(call.broker.config.items()))


def list_grpc_clients(call: Call) -> tuple[GrpcClientInfo, ...]:
    """List the clients that are connected by gRPC; 409 where none may be."""
    return call.broker.grpc_clients()


def change_options(call: Call) -> Options:
    """Change options of the running broker."""
    call.broker.config.update(**call["options"])
    return list_options(call)


def pause(call: Call) -> list[BrokerTold]:
    """Let requests of clients wait. The operations of this page are answered all the same."""
    call.broker.pause()
    return list_brokers(call)


def resume(call: Call) -> list[BrokerTold]:
    """Answer clients again, beginning with the requests that wait."""
    call.broker.resume()
    return list_brokers(call)


def crash(call: Call) -> RecoveryReport:
    """End all brokers as killed processes do, and start them again after a while.

    The answer comes when they are back: it says what the broker found in its store.
    """
    call.broker.crash()
    call.closing.wait(call["restart_after_ms"] / 1000)
    return call.broker.restart()


def restart(call: Call) -> RecoveryReport:
    """Close all brokers cleanly and start them again, with the same ports and data."""
    return call.broker.restart()


def snapshot(call: Call) -> Copied:
    """Copy the store, as it is at this instant, to a new directory."""
    return Copied(path=call.broker.snapshot(call["path"]))


def reset(call: Call) -> Connected:
    """Empty the broker: topics, groups, messages, timers, faults and journal go."""
    return call.broker.reset(clock=call["clock"])


def _told(broker: EmbeddedBroker) -> BrokerTold:
    return BrokerTold(
        name=broker.broker_name,
        addr=broker.addr,
        namesrv_addr=broker.namesrv_addr,
        is_running=broker.is_running,
        profile=broker.profile.name,
        seed=broker.seed,
    )


BROKERS: Final = (
    Operation("GET", "/brokers", list_brokers),
    Operation("GET", "/state", tell_state),
    Operation("GET", "/grpc_clients", list_grpc_clients),
    Operation("GET", "/config", list_options),
    Operation(
        "POST",
        "/config",
        change_options,
        (Field("options", FieldType.VALUE_MAP, "Names and new values.", required=True),),
    ),
    Operation("POST", "/pause", pause),
    Operation("POST", "/resume", resume),
    Operation(
        "POST",
        "/crash",
        crash,
        (
            Field(
                "restart_after_ms",
                FieldType.INTEGER,
                "For how many milliseconds of wall time they are gone.",
                required=True,
                low=0,
                high=DOWN_MAX_MS,
            ),
        ),
        changes_life=True,
    ),
    Operation("POST", "/restart", restart, changes_life=True),
    Operation(
        "POST",
        "/snapshot",
        snapshot,
        (Field("path", FieldType.TEXT, "A directory that is new or empty.", required=True),),
        changes_life=True,
    ),
    Operation(
        "POST",
        "/reset",
        reset,
        (Field("clock", FieldType.FLAG, "Let a virtual clock begin anew.", default=False),),
        changes_life=True,
    ),
)

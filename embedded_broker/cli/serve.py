"""`rocketmq-py serve`: the embedded broker as a process, for clients in any language.

The broker is the same one that tests start; this module only turns options into arguments, prints
the one `ready` line that other programs wait for, and stops cleanly on Ctrl-C, SIGTERM or SIGHUP.
"""

import gc
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue
from typing import Annotated, Any, cast

import typer

from embedded_broker.api.cluster import EmbeddedCluster
from embedded_broker.cli.closing import nodes_of, unsaved_lines
from embedded_broker.cli.opening_log import OpeningLog, opening_log
from embedded_broker.cli.paths import given_path
from embedded_broker.cli.ports import options_of
from embedded_broker.cli.secrets import CONTROL_TOKEN_VARIABLE, is_argument, token_of, warn_of_shown
from embedded_broker.clocks.clock import VirtualClock
from embedded_broker.lifecycle.arguments import PORT_MAX
from embedded_broker.lifecycle.recovery_report import RecoveryReport
from embedded_broker.settings.config import ASSIGNMENT, ConfFile, parse_conf
from embedded_broker.settings.grpc import GrpcOptions, Strictness
from embedded_broker.store.open_files import raise_descriptor_limit
from rocketmq_py.errors import ConfigError, RocketMQError
from rocketmq_py.signals import wait_until_told

DEFAULT_NAMESRV_PORT = 9876
DEFAULT_BROKER_PORT = 10911
COLLECT_EVERY = 20_000
"""Objects that are made until the youngest are looked at; 700 is Python's own choice."""
OPTION_OF = {
    "allow_remote=True": "--allow-remote",
    "control=True": "--control-port",
    "grpc=True": "--grpc-port",
}
"""The advice of EmbeddedBroker names its arguments; here they are options."""


class ClockChoice(StrEnum):
    """What the time of messages is. Texts: click before 8.2 finds no other default in a choice."""

    WALL = "wall"
    FROZEN = "frozen"
    FLOWING = "flowing"

    def make(self) -> VirtualClock | None:
        """Make the clock; None is wall time."""
        if self is ClockChoice.WALL:
            return None
        return VirtualClock(rate=1 if self is ClockChoice.FLOWING else 0)


NamesrvPort = Annotated[int, typer.Option(help="Port of the name server. 0 takes a free one.")]
BrokerPort = Annotated[
    int | None,
    typer.Option(
        help="Port of the first broker. The others take the next ports. 0 takes free ones.",
        show_default=f"listenPort of --conf, else {DEFAULT_BROKER_PORT}",
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="An option of the broker, name=value. Repeatable. `rocketmq-py options` lists them.",
    ),
]
StoreFolder = Annotated[
    Path | None,
    typer.Option(
        parser=given_path,
        metavar="DIR",
        help="Directory of the store, in RocketMQ's layout. Without it: in memory, "
        "at most memoryStoreMaxBytes.",
    ),
]
ClockOption = Annotated[
    ClockChoice,
    typer.Option(help="Time of messages: frozen and flowing can be moved (--control-port)."),
]
AclFile = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        help="A plain_acl.yml of RocketMQ: requests must be signed by one of its accounts. "
        "Needs the extra acl.",
    ),
]
TlsFile = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        help="A tls.properties of RocketMQ: certificates, and whether plain connections are "
        "served, too.",
    ),
]
ControlPort = Annotated[
    int | None,
    typer.Option(
        help="Port of the HTTP face: other programs move the clock there, look in and break "
        "things. 0 takes a free one; /docs is its page.",
        show_default="no HTTP face",
    ),
]
GrpcPort = Annotated[
    int | None,
    typer.Option(
        help="Port for RocketMQ's gRPC clients of 5.x; 0 takes a free one. Needs the extra grpc.",
        show_default="no gRPC",
    ),
]
GrpcStrict = Annotated[
    str | None,
    typer.Option(
        help="Answer gRPC clients with the codes of RocketMQ's proxy of this release: 5.3.3.",
        show_default="codes that tell what is wrong",
    ),
]
ControlToken = Annotated[
    str | None,
    typer.Option(
        envvar=CONTROL_TOKEN_VARIABLE,
        help="What every request there has to carry. Without it the face stays on loopback. "
        "Everybody on this machine sees it among the arguments: better use the variable or "
        "--control-token-file.",
    ),
]
ControlTokenFile = Annotated[
    Path | None,
    typer.Option(
        exists=True, dir_okay=False, metavar="FILE", help="A file whose only line is that token."
    ),
]


def settings_of(conf: Path | None, assignments: list[str]) -> ConfFile:
    """Read a broker.conf file and the `--set name=value` options behind it; the last one wins.

    Raises `ConfigError` for an option that assigns nothing and for a file that is no text.
    """
    for assignment in assignments:
        if "=" not in assignment:
            raise ConfigError("--set", assignment, f"an option of RocketMQ as {ASSIGNMENT}")
    try:
        text = conf.read_text(encoding="utf-8") if conf else ""
    except UnicodeDecodeError as error:
        raise ConfigError("--conf", str(conf), f"a text file in UTF-8: {error}") from error
    return parse_conf("\n".join([text, *assignments]))


def serve(
    context: typer.Context,
    *,
    namesrv_port: NamesrvPort = DEFAULT_NAMESRV_PORT,
    broker_port: BrokerPort = None,
    store: StoreFolder = None,
    conf: Annotated[
        Path | None,
        typer.Option("-c", "--conf", exists=True, dir_okay=False, help="A broker.conf file."),
    ] = None,
    brokers: Annotated[int, typer.Option(min=1, max=16, help="How many brokers to run.")] = 1,
    cluster: Annotated[str | None, typer.Option(help="Name of the cluster.")] = None,
    assignments: Assignments = None,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", help="Topic to create at the start. Repeatable.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    allow_remote: Annotated[
        bool, typer.Option(help="Allow a --host that is not loopback.")
    ] = False,
    allow_remote_admin: Annotated[
        bool, typer.Option(help="Let other hosts change topics, groups, options and offsets.")
    ] = False,
    acl: AclFile = None,
    tls: TlsFile = None,
    clock: ClockOption = ClockChoice.WALL,
    grpc_port: GrpcPort = None,
    grpc_strict: GrpcStrict = None,
    control_port: ControlPort = None,
    control_token: ControlToken = None,
    control_token_file: ControlTokenFile = None,
) -> None:
    """Run a name server and broker until Ctrl-C, SIGTERM or SIGHUP.

    The exit status is 0 after a clean stop, and 1 when it could not start or not save everything.
    """
    raise_descriptor_limit()
    stop = _told_to_stop()
    is_shown = is_argument(context, "control_token")
    warn_of_shown(assignments or (), token=is_shown)
    try:
        token = token_of(control_token, control_token_file, is_argument=is_shown)
        given = ["allowRemoteAdmin=true"] if allow_remote_admin else []
        settings = settings_of(conf, [*(assignments or []), *given])
        _tell_ignored(settings)
        arguments = _arguments(
            settings, store=store, broker_port=broker_port, cluster_name=cluster, host=host
        )
        running = EmbeddedCluster(
            brokers=brokers,
            namesrv_port=namesrv_port,
            config=settings.options,
            allow_remote=allow_remote,
            topics=topics or (),
            inproc=False,
            acl=acl,
            tls=tls,
            clock=clock.make(),
            grpc=grpc_options(grpc_port, grpc_strict),
            control=control_port is not None,
            control_port=control_port or 0,
            control_token=token,
            **arguments,
        )
        unsaved = _run_until(stop, running, control_port)
    except (RocketMQError, OSError, ValueError) as error:
        _tell(error)
        sys.exit(1)
    _tell_unsaved(unsaved)


def grpc_options(port: int | None, strict: str | None) -> bool | GrpcOptions:
    """Say what `--grpc-port` and `--grpc-strict` ask for."""
    if port is None and strict is not None:
        raise ConfigError("--grpc-strict", strict, "set only together with --grpc-port")
    return False if port is None else GrpcOptions(port=port, strict=cast("Strictness", strict))


def _tell_ignored(settings: ConfFile) -> None:
    for name in settings.ignored:
        typer.secho(f"the option {name} has no effect in this broker", err=True, fg="yellow")


def _tell_unsaved(lines: list[str]) -> None:
    for line in lines:
        typer.secho(f"rocketmq-py: {line}", err=True, fg="red")
    if lines:
        sys.exit(1)


def _tell(error: Exception) -> None:
    text = "".join([*(f"{note}: " for note in getattr(error, "__notes__", ())), str(error)])
    for argument, option in OPTION_OF.items():
        text = text.replace(argument, option)
    typer.secho(f"rocketmq-py: {text}", err=True, fg="red")


def _told_to_stop() -> SimpleQueue[None]:
    """Give a queue into which Ctrl-C, SIGTERM and SIGHUP put something.

    A SIGHUP that is ignored stays so: ``nohup`` asks for a server that outlives its terminal.
    """
    stop: SimpleQueue[None] = SimpleQueue()
    numbers = [signal.SIGINT, signal.SIGTERM]
    hang_up = getattr(signal, "SIGHUP", None)  # Windows has none
    if hang_up is not None and signal.getsignal(hang_up) is not signal.SIG_IGN:
        numbers.append(hang_up)
    for number in numbers:
        signal.signal(number, lambda *_: stop.put(None))
    return stop


def _run_until(
    stop: SimpleQueue[None], running: EmbeddedCluster, control_port: int | None
) -> list[str]:
    """Run it and close it; gives what could not be saved."""
    with ExitStack() as life:
        with opening_log() as log:
            try:
                life.enter_context(running)
            except (RocketMQError, OSError) as error:
                _warn(log, str(error))
                if options := options_of(error, running, control_port):
                    error.add_note(options)
                raise
            _announce(running, log)
        _collect_rarely()
        wait_until_told(stop)
        nodes = nodes_of(running)
    return list(unsaved_lines(nodes))


def _collect_rarely() -> None:
    """Let the collector look at little and seldom: a broker makes next to no cycles.

    What there is now stays until the end. Only here: who embeds a broker has a say of their own.
    """
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY, *gc.get_threshold()[1:])


def report_lines(report: RecoveryReport | None) -> Iterator[str]:
    """Say what was found when a store was opened; nothing of one that was new or as it was left."""
    if report is None:
        return
    if not report.clean:
        yield (
            "the store was not closed the last time: "
            f"{report.records_read} records of the commit log were checked, "
            f"{report.truncated_bytes} bytes behind them given up, "
            f"{report.entries_added} queue entries added and {report.entries_dropped} dropped; "
            f"{report.timers_pending} timers wait, {report.timer_truncated_bytes} bytes of their "
            "log were given up"
        )
    if report.damaged_places:
        yield (
            f"damaged places of the commit log that were left out: {report.damaged_places}; "
            f"messages that were left out with them: {report.entries_left_out}"
        )
    yield from report.problems


def _warn(log: OpeningLog, told: str) -> None:
    for line in log.left(told):
        typer.echo(line, err=True)


def _announce(running: EmbeddedCluster, log: OpeningLog) -> None:
    """Print what was found, the line that other programs wait for, how long messages are kept."""
    found = [
        f"{broker.broker_name}: {line}"
        for broker in running.brokers
        for line in report_lines(broker.recovery)
    ]
    for line in found:
        typer.echo(line, err=True)
    _warn(log, "\n".join(found))
    addresses = ",".join(broker.addr for broker in running.brokers)
    ready = f"ready namesrv={running.namesrv_addr} broker={addresses}"
    if running.brokers[0].slot.arguments.grpc is not None:
        ready += f" endpoints={running.endpoints}"
    typer.echo(f"{ready} control={running.control_url}" if running.has_control else ready)
    count = len(running.brokers)
    whose = f"by each of {count} brokers " if count > 1 else ""
    typer.echo(f"messages are kept {whose}{running.brokers[0].retention}")
    sys.stdout.flush()


def _arguments(settings: ConfFile, **given: object) -> dict[str, Any]:  # Any: of many types
    """What the command line says wins over the file, the file over the defaults."""
    arguments: dict[str, Any] = {
        "broker_port": DEFAULT_BROKER_PORT,
        **settings.arguments,
        **{name: value for name, value in given.items() if value is not None},
    }
    arguments["broker_port"] = _port(arguments["broker_port"])
    return arguments


def _port(given: object) -> int:
    """Read the port of the first broker: a number of the command line, or text of the file."""
    if isinstance(given, int):
        return given
    text = str(given)
    if not (text.isascii() and text.isdecimal()):
        raise ConfigError("listenPort", given, f"a port from 0 (any free one) to {PORT_MAX}")
    return int(text)

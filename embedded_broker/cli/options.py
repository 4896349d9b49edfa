"""`rocketmq-py options`: every option of `--set` and broker.conf, from the table of options.

Prints what `embedded_broker/settings/options.py` says. Exit status: 0, 1 when no option fits.
"""

import textwrap
from collections.abc import Iterator
from typing import Annotated, Final

import typer

from embedded_broker.settings.options import ARGUMENT_NAMES, OPTIONS, Option, show

COLUMNS: Final = 100
NONE_FITS: Final = 1
OF_THE_COMMAND: Final = {
    "brokerClusterName": "--cluster",
    "brokerIP1": "--host",
    "listenPort": "--broker-port",
    "storePathRootDir": "--store",
}
"""Names of broker.conf that have an option of `serve` of their own."""


def options(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help="Only options in whose name or meaning each of these words is.",
            metavar="[WORD]...",
        ),
    ] = None,
) -> None:
    """List what --set and broker.conf take."""
    wanted = [word.lower() for word in words or ()]
    found = [one for one in OPTIONS.values() if _fits(one, wanted)]
    if not found:
        typer.secho(f"rocketmq-py: no option fits {' '.join(words or ())}", err=True, fg="red")
        raise typer.Exit(NONE_FITS)
    for one in found:
        typer.echo("\n".join(told(one)))
    if not wanted:
        typer.echo(f"In broker.conf, too: {', '.join(_places())}")


def told(option: Option) -> Iterator[str]:
    """Give the lines about one option."""
    default = option.shown(option.default)
    yield f"{option.name} = {default}" if default else f"{option.name} ="
    facts = [option.limit]
    if option.upstream != option.default:
        facts.append(f"RocketMQ's default is {show(option.upstream) or 'empty'}")
    if not option.live and not option.fixed:
        facts.append("fixed while the broker runs")
    for text in (option.meaning, "; ".join(facts)):
        yield from textwrap.wrap(text, COLUMNS, initial_indent="    ", subsequent_indent="    ")


def _fits(option: Option, words: list[str]) -> bool:
    text = f"{option.name} {option.meaning}".lower()
    return all(word in text for word in words)


def _places() -> Iterator[str]:
    for name in ARGUMENT_NAMES:
        place = OF_THE_COMMAND.get(name)
        yield f"{name} (as {place})" if place else name

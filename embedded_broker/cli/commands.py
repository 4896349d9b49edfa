"""The sub-commands of `rocketmq-py`, each imported when it is first asked for.

Answers: which sub-commands there are, and in which module each lives. `serve` brings the whole
broker and `timers` a client, so `--version` and a typing error wait for neither; `--help` imports
all. Must not know: what a sub-command does.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from embedded_broker.cli.version import tell_version

MODULES: Final = {
    "serve": "embedded_broker.cli.serve",
    "timers": "embedded_broker.cli.timers",
    "options": "embedded_broker.cli.options",
    "version": "embedded_broker.cli.version",
    "store": "embedded_broker.cli.store",
}
"""A module has a function of the sub-command's name, or a Typer application of sub-commands."""

SETTINGS: Final[dict[str, Any]] = {
    "add_completion": False,
    "rich_markup_mode": None,  # whose tables cut names in a terminal of 80 columns
    "pretty_exceptions_show_locals": False,
}


class _Commands(Mapping[str, Any]):
    """The commands by their names, as a group of click has them."""

    def __getitem__(self, name: str) -> Any:
        found = getattr(import_module(MODULES[name]), name)
        if isinstance(found, typer.Typer):
            return get_command(found)
        alone = typer.Typer(**SETTINGS)
        alone.command(name)(found)
        return get_command(alone)

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


class _Group(TyperGroup):
    """The group of all sub-commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast("Any", _Commands())

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as click calls it
        """Name the sub-commands, in the order of their table."""
        return [*MODULES]


app = typer.Typer(name="rocketmq-py", cls=_Group, no_args_is_help=True, **SETTINGS)


@app.callback()
def begin(
    _version: bool = typer.Option(
        False, "--version", is_eager=True, callback=tell_version, help="Print the version."
    ),
) -> None:
    """RocketMQ for tests: run a broker as a program, look into stores and mend them."""

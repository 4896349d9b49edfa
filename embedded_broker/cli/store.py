"""`rocketmq-py store repair`: write a store that its broker can open, without what is damaged.

Turns options into one call and its report into lines. Exit status: 0 when the new store is there,
whether or not anything was wrong; 1 when it cannot be made or a broker has the old one; 130 after
Ctrl-C. Without status 0 there is no new store.
"""

from pathlib import Path
from typing import Annotated

import typer

from embedded_broker.cli.commands import SETTINGS
from embedded_broker.cli.opening_log import opening_log
from embedded_broker.cli.paths import given_folder, given_path
from embedded_broker.cli.secrets import warn_of_shown
from embedded_broker.cli.serve import report_lines, settings_of
from embedded_broker.lifecycle.repair import repair_store
from embedded_broker.store.damaged_folder import DAMAGED_FOLDER
from rocketmq_py.errors import RocketMQError

FAILED = 1
INTERRUPTED = 130

store = typer.Typer(no_args_is_help=True, help="Look after a store directory.", **SETTINGS)
store.callback()(lambda: None)


@store.command()
def repair(
    directory: Annotated[
        Path, typer.Argument(help="The store directory.", parser=given_folder, metavar="DIRECTORY")
    ],
    new: Annotated[
        Path,
        typer.Argument(
            help="Where the repaired store is written: a directory that is new or empty.",
            parser=given_path,
            metavar="NEW",
        ),
    ],
    conf: Annotated[
        Path | None,
        typer.Option("-c", "--conf", exists=True, dir_okay=False, help="The store's broker.conf."),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", help="An option that the store's broker has, name=value."),
    ] = None,
) -> None:
    """Write a store without what is damaged, which a broker can open, to a new directory.

    Everything is read; the store itself stays as it is. What is left out is kept in the folder
    damaged/ of the new one, too. A store that a broker has open is refused.
    """
    warn_of_shown(assignments or ())
    try:
        with opening_log() as log:
            report = repair_store(
                directory, new, config=settings_of(conf, assignments or []).options
            )
    except (RocketMQError, OSError) as error:
        typer.secho(f"rocketmq-py: {error}", err=True, fg="red")
        raise typer.Exit(FAILED) from error
    except KeyboardInterrupt as error:
        typer.secho(
            f"rocketmq-py: interrupted: {directory} is as it was, and {new} was not written",
            err=True,
            fg="red",
        )
        raise typer.Exit(INTERRUPTED) from error
    lines = list(report_lines(report))
    for line in [*lines, *log.left("\n".join(lines))]:
        typer.echo(line)
    if not report.problems:
        typer.echo(f"{directory}: nothing was wrong; {new} holds the same")
        return
    kept = new / DAMAGED_FOLDER
    copies = f"; what was left out lies in {kept}" if kept.is_dir() else ""
    typer.echo(f"{new}: a broker can open it{copies}")

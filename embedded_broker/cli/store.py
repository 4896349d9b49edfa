"""`rocketmq-py store repair`: mend a store that its broker refuses to open.

Turns options into one call and its report into lines. Exit status: 0 when the store can be opened
now, whether or not anything was wrong; 1 when it cannot be mended or a broker has it; 130 after
Ctrl-C, and then a second run mends the rest.
"""

from pathlib import Path
from typing import Annotated

import typer

from embedded_broker.cli.opening_log import opening_log
from embedded_broker.cli.paths import given_folder
from embedded_broker.cli.secrets import warn_of_shown
from embedded_broker.cli.serve import report_lines, settings_of
from embedded_broker.lifecycle.repair import repair_store
from embedded_broker.store.side_files import DAMAGED_FOLDER
from rocketmq_py.errors import RocketMQError

FAILED = 1
INTERRUPTED = 130


def repair(
    directory: Annotated[
        Path, typer.Argument(help="The store directory.", parser=given_folder, metavar="DIRECTORY")
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
    """Leave out what is damaged, so that a broker can open the store again.

    Everything is read. What is cut is kept in the folder damaged/ of the store, and is never read
    or overwritten by a broker. A store that a broker has open is refused. When this is interrupted
    or killed, run it again.
    """
    kept = directory / DAMAGED_FOLDER
    warn_of_shown(assignments or ())
    try:
        with opening_log() as log:
            report = repair_store(directory, config=settings_of(conf, assignments or []).options)
    except (RocketMQError, OSError) as error:
        typer.secho(f"rocketmq-py: {error}", err=True, fg="red")
        raise typer.Exit(FAILED) from error
    except KeyboardInterrupt as error:
        # Copies are durable before anything is cut, and what is mended stays so.
        copies = f": what was cut so far lies in {kept}" if kept.is_dir() else ""
        typer.secho(
            f"rocketmq-py: interrupted: {directory} is mended in part. Nothing is lost{copies}. "
            "Run the command again to mend the rest",
            err=True,
            fg="red",
        )
        raise typer.Exit(INTERRUPTED) from error
    lines = list(report_lines(report))
    for line in [*lines, *log.left("\n".join(lines))]:
        typer.echo(line)
    if not report.problems:
        typer.echo(f"{directory}: nothing was wrong")
        return
    copies = f"; what was cut lies in {kept}" if kept.is_dir() else ""
    typer.echo(f"{directory}: mended, a broker can open it{copies}")

"""`rocketmq-py version` and `rocketmq-py --version`: the version of this package."""

import typer

from rocketmq_py import __version__


def version() -> None:
    """Print the version of this package."""
    typer.echo(__version__)


def tell_version(wanted: bool) -> None:
    """Print the version and end, if `--version` was given."""
    if wanted:
        version()
        raise typer.Exit

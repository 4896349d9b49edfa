"""Secrets of a command: where they come from, and a warning for those among its arguments.

Answers: what a file holds that an option names, and which arguments everybody on this machine can
read in the list of processes. Must not know: what a secret opens. Read on: `access.py` for the
secrets of a client, which are taken from the environment only.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import typer

from embedded_broker.settings.options import OPTIONS
from rocketmq_py.errors import ConfigError

CONTROL_TOKEN_VARIABLE: Final = "ROCKETMQ_CONTROL_TOKEN"  # noqa: S105 - where it is
_FILE_CHARACTERS_MAX: Final = 4096


def is_argument(context: typer.Context, name: str) -> bool:
    """Whether an option stands among the arguments, and is not from the environment."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def token_of(token: str | None, path: Path | None, *, is_argument: bool) -> str | None:
    """Give the control token: that of the file, else the one that is given; None without both.

    Raises ``ConfigError`` for an argument beside a file, and for a file that cannot be read or does
    not hold one line.
    """
    option = "--control-token-file"
    if path is None:
        return token
    if is_argument:
        raise ConfigError(option, str(path), "left out: --control-token gives the token, too")
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_FILE_CHARACTERS_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(option, str(path), f"a file that can be read: {error}") from error
    lines = text.splitlines()
    if len(lines) != 1 or not lines[0] or len(text) > _FILE_CHARACTERS_MAX:
        limit = f"a file of one line, of at most {_FILE_CHARACTERS_MAX} characters"
        raise ConfigError(option, str(path), limit)
    return lines[0]


def warn_of_shown(assignments: Iterable[str], *, token: bool = False) -> None:
    """Say once on stderr which arguments hold secrets, and where these belong instead."""
    names = (assignment.partition("=")[0].strip() for assignment in assignments)
    secrets = dict.fromkeys(name for name in names if name in OPTIONS and OPTIONS[name].secret)
    places = {f"--set {name}": "a file for --conf" for name in secrets}
    if token:
        places["--control-token"] = f"{CONTROL_TOKEN_VARIABLE} or --control-token-file"
    if places:
        instead = ", ".join(dict.fromkeys(places.values()))
        text = (
            f"rocketmq-py: everybody on this machine can read the arguments of a process, and so "
            f"the secret of {', '.join(places)}: use {instead}"
        )
        typer.secho(text, err=True, fg="yellow")

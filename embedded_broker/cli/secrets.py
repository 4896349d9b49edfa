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
_FILE_BYTES_MAX: Final = 4096


def secret_of(option: str, path: Path | None) -> str | None:
    """Read the file that an option names: one line, its line end left out; None without a file.

    Raises ``ConfigError`` for a file that holds no line, more than one, or cannot be read.
    """
    if path is None:
        return None
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_FILE_BYTES_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(option, str(path), f"a file that can be read: {error}") from error
    lines = text.splitlines()
    if len(lines) != 1 or not lines[0] or len(text) > _FILE_BYTES_MAX:
        limit = f"a file of one line, of at most {_FILE_BYTES_MAX} characters"
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

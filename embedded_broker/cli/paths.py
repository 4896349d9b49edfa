"""Paths that are given on the command line.

Answers: which texts are a path. An empty one is none: it comes from a variable that is not set, and
Python would take it for the current directory. Must not know: what a path is for.
"""

from pathlib import Path

import typer


def given_path(text: str) -> Path:
    """Read a path of what may be there or not; raises `BadParameter` for none at all."""
    if not text:
        raise typer.BadParameter("the path is empty: is the variable set that it comes from?")
    return Path(text)


def given_folder(text: str) -> Path:
    """Read the path of a directory that is there; raises `BadParameter` for anything else."""
    path = given_path(text)
    if not path.is_dir():
        problem = "is no directory" if path.exists() else "does not exist"
        raise typer.BadParameter(f"{text} {problem}")
    return path


def given_output(text: str) -> Path:
    """Read the path of a file that is to be written; raises `BadParameter` for a directory."""
    path = given_path(text)
    if path.is_dir():
        raise typer.BadParameter(f"{text} is a directory")
    return path

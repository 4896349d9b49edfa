"""An empty path is none, and what is there is what it should be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from embedded_broker.cli.paths import given_folder, given_output, given_path


@pytest.mark.parametrize("read", [given_path, given_folder, given_output])
def test_an_empty_path_is_not_the_current_directory(read: Callable[[str], Path]) -> None:
    with pytest.raises(typer.BadParameter, match="the path is empty"):
        read("")


def test_a_folder_must_be_there_and_a_file_that_is_written_is_none(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with pytest.raises(typer.BadParameter, match="does not exist"):
        given_folder(str(file))
    assert given_output(str(file)) == file
    file.touch()
    with pytest.raises(typer.BadParameter, match="is no directory"):
        given_folder(str(file))
    with pytest.raises(typer.BadParameter, match="is a directory"):
        given_output(str(tmp_path))
    assert given_folder(str(tmp_path)) == given_path(str(tmp_path)) == tmp_path

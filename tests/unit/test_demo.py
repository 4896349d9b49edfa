"""The demonstration prints readable lines also where its output is a file."""

from __future__ import annotations

import io
import runpy
from pathlib import Path

import pytest
from rich.console import Console

DEMO = Path(__file__).resolve().parents[2] / "examples" / "delayed_messages.py"


def test_what_follows_the_board_stands_on_a_line_of_its_own_in_a_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(DEMO.parent)  # as where a program of that folder is started
    demo = runpy.run_path(str(DEMO))
    file = io.StringIO()
    console = Console(file=file, force_terminal=False)
    with demo["shown"](demo["Board"](), console):
        pass
    console.print("every message on time")
    (*board, last, end) = file.getvalue().split("\n")
    assert (last, end) == ("every message on time", "")
    assert "how it was asked" in "".join(board)

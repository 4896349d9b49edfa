"""Programs that stand in for java and mvn, so that the kit's tests need neither."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

FakeProgram = Callable[[str, str], Path]


@pytest.fixture
def fake_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeProgram:
    """Put a shell script on PATH under a name, before everything else."""
    folder = tmp_path / "programs"

    def put(name: str, script: str) -> Path:
        folder.mkdir(exist_ok=True)
        program = folder / name
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o755)
        return program

    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return put

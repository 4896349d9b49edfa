"""The order service of examples/order_service passes its own tests, in a folder of its own."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest

from tests.needs import needs_of
from tests.pages import ROOT, pytest_options, python

FOLDER = ROOT / "examples" / "order_service"
MODULES = [path for path in FOLDER.glob("*.py") if not path.name.startswith("test_")]
BRIDGES = re.compile(
    r"threading|concurrent\.futures|run_in_executor|to_thread|call_soon_threadsafe|"
    r"run_coroutine_threadsafe|asyncio\.run\b"
)


def commands() -> list[list[str]]:
    """The commands that the docstring of the package shows."""
    told = ast.get_docstring(ast.parse((FOLDER / "__init__.py").read_text(encoding="utf-8"))) or ""
    return [line.split() for line in re.findall(r"^    (.+)$", told, re.MULTILINE)]


def test_the_commands_install_what_the_service_needs_and_run_its_tests() -> None:
    install, _serve, uvicorn, install_for_tests, test = commands()
    assert install_for_tests == ["pip", "install", *needs_of(Path(__file__))]
    assert install == ["pip", "install", "fastapi", "uvicorn", "tzdata"]
    assert uvicorn == ["uvicorn", "--factory", "order_service.app:create_app"]
    assert test == ["pytest", "order_service"]


@pytest.mark.timeout(300)
def test_its_tests_pass(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "order_service")
    blocked = ["-p", "no:asyncio", "-p", "no:cacheprovider", "-p", "no:randomly"]
    options = [*pytest_options(), *blocked, "-W", "error"]
    done = python("-m", *commands()[-1], "-q", *options, folder=tmp_path)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_it_needs_no_bridge_between_threads_and_its_event_loop(path: Path) -> None:
    assert BRIDGES.findall(path.read_text(encoding="utf-8")) == []

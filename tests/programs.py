"""Programs of ``examples``, loaded as they stand there and pointed at the broker of a test."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import pytest

from tests.pages import ROOT

FOLDER = ROOT / "examples"
ADDRESSES = ("DEFAULT_NAMESRVADDR", "NAMESRV_ADDR")
"""Where a program has the address of its name server, if it is not told by the environment."""
T = TypeVar("T")


def programs_in(folder: str) -> set[str]:
    """The names of a folder's programs."""
    return {path.stem for path in (FOLDER / folder).glob("*.py") if not path.stem.startswith("_")}


def load(name: str, namesrv_addr: str, patch: pytest.MonkeyPatch) -> ModuleType:
    """Load ``examples/NAME.py`` anew, for the name server that `patch` makes it find."""
    patch.setenv("NAMESRV_ADDR", namesrv_addr)
    path = FOLDER / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"program_{Path(name).stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    patch.setitem(sys.modules, spec.name, module)  # attrs looks its classes up there
    spec.loader.exec_module(module)
    for address in ADDRESSES:
        if hasattr(module, address):
            patch.setattr(module, address, namesrv_addr)
    return module


def begin(act: Callable[[], T], name: str) -> Future[T]:
    """Do something beside the test that may never end."""
    ended: Future[T] = Future()

    def run() -> None:
        try:
            ended.set_result(act())
        except BaseException as error:  # noqa: BLE001 - it is the outcome
            ended.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return ended

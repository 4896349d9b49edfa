"""The wheel of this checkout, built once, and one environment for each extra that holds it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.packaging.built import ROOT, Built, build
from tests.packaging.environment import Environment, make


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(ROOT, tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="session")
def with_extra(
    built: Built, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Environment]:
    """Give the environment with one extra alone; the empty name is the package alone."""
    made: dict[str, Environment] = {}

    def give(extra: str) -> Environment:
        if extra not in made:
            folder: Path = tmp_path_factory.mktemp(f"with-{extra}")
            made[extra] = make(folder, f"{built.wheel}[{extra}]" if extra else str(built.wheel))
        return made[extra]

    return give


@pytest.fixture(scope="session")
def alone(with_extra: Callable[[str], Environment]) -> Environment:
    return with_extra("")

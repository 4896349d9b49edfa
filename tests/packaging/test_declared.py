"""What pyproject.toml asks for is what the packages import: nothing more, nothing less."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.source_tree import PACKAGES, ROOT, imported_modules, python_files

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
NAMED_ONLY = frozenset({"typing_extensions"})
"""`spark_connector/bundle.py` packs it for workers; nothing imports it today."""


OTHER_NAMES = {
    "grpcio": "grpc",
    "opentelemetry_api": "opentelemetry",
    "protobuf": "google",
    "pyyaml": "yaml",
}
"""Package to its module, where that is not called like the package."""


def module_of(requirement: str) -> str:
    """Give the module that a requirement brings."""
    name = re.split(r"[^\w-]", requirement)[0].replace("-", "_").lower()
    return OTHER_NAMES.get(name, name)


@cache
def imported(*packages: str) -> set[str]:
    """Give the top names of all foreign modules that the packages import, late ones included."""
    known = {*PACKAGES, *sys.stdlib_module_names}
    names = {
        name.partition(".")[0]
        for path in python_files(*packages)
        for name in (*(name for _, name in imported_modules(path)), *late_modules(path))
    }
    return names - known


def late_modules(path: Path) -> set[str]:
    """Give what a file asks `import_module`, or a function of its own around it, for."""
    source = path.read_text(encoding="utf-8")
    if "import_module" not in source:
        return set()
    texts = {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return texts & {module_of(one) for one in every_requirement()} | texts & {"lz4.frame"}


def every_requirement() -> list[str]:
    return [*PROJECT["dependencies"], *(one for extra in EXTRAS.values() for one in extra)]


def test_every_foreign_module_that_is_imported_is_asked_for() -> None:
    assert imported(*PACKAGES) - {module_of(one) for one in every_requirement()} == set()


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_what_is_imported_and_nothing_else(extra: str) -> None:
    modules = {module_of(one) for one in EXTRAS[extra]}
    assert modules
    assert modules - imported(*PACKAGES) == set()


def test_the_package_alone_installs_what_is_imported() -> None:
    modules = {module_of(one) for one in PROJECT["dependencies"]}
    assert modules - imported(*PACKAGES) - NAMED_ONLY == set()


def test_only_an_extra_brings_what_is_not_always_needed() -> None:
    always = {module_of(one) for one in PROJECT["dependencies"]}
    assert {module_of(one) for extra in EXTRAS.values() for one in extra} & always == set()


def test_the_page_for_users_names_every_extra() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    install = readme.partition("## Install")[2].partition("\n## ")[0]
    assert {one for one in EXTRAS if not re.search(rf"\b{one}\b", install)} == set()

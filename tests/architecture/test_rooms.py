"""Imports go down the table of rooms, and nowhere in a circle; TYPE_CHECKING imports count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

import pytest

from tests.architecture.rooms import LAYERS
from tests.architecture.source_tree import PACKAGES, imported_modules, module_name, python_files

Graph = Mapping[str, Mapping[str, int]]
"""Module to the modules that it imports, each with a line that says so."""


def resolved(target: str, modules: Iterable[str]) -> str | None:
    """Give the module that holds an imported name, if it is one of ours."""
    name = target
    while name not in modules:
        name, _, _ = name.rpartition(".")
        if not name:
            return None
    return name


@cache
def graph(package: str) -> Graph:
    """Read what each module of a package imports of its own package."""
    paths = {module_name(path): path for path in python_files(package)}
    found: dict[str, dict[str, int]] = {name: {} for name in paths}
    for name, path in paths.items():
        lines: dict[int, list[str]] = {}
        for line, target in imported_modules(path):
            holder = resolved(target, paths)
            if holder is not None:
                lines.setdefault(line, []).append(holder)
        for line, holders in lines.items():
            # `from a import b` names a and a.b: where b is a module, only b is meant.
            deepest = [
                one
                for one in holders
                if not any(other != one and other.startswith(f"{one}.") for other in holders)
            ]
            for holder in deepest:
                if holder != name:
                    found[name].setdefault(holder, line)
    return found


def room_of(module: str) -> str:
    """Give the folder or module directly below the package; the package itself is `__init__`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def upward(imports: Graph, layers: tuple[tuple[str, ...], ...]) -> list[str]:
    """Give each import that does not go down."""
    height = {room: number for number, layer in enumerate(layers) for room in layer}
    height["__init__"] = -1
    return [
        f"{name}:{line} imports {target}"
        for name, targets in imports.items()
        for target, line in targets.items()
        if room_of(name) != room_of(target) and height[room_of(target)] <= height[room_of(name)]
    ]


def circles(imports: Graph) -> list[list[str]]:
    """Give the groups of modules that import each other (Tarjan), each sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in imports[name]:
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            group = []
            while True:
                group.append(stack.pop())
                if group[-1] == name:
                    break
            if len(group) > 1:
                found.append(sorted(group))

    for name in imports:
        if name not in index:
            visit(name)
    return found


@pytest.mark.parametrize("package", LAYERS)
def test_every_room_stands_once_in_the_table(package: str) -> None:
    there = {room_of(name) for name in graph(package)} - {"__init__"}
    listed = [room for layer in LAYERS[package] for room in layer]
    assert sorted(listed) == sorted(there)


@pytest.mark.parametrize("package", LAYERS)
def test_imports_between_rooms_go_down(package: str) -> None:
    assert upward(graph(package), LAYERS[package]) == []


@pytest.mark.parametrize("package", LAYERS)
def test_no_modules_import_each_other_in_a_circle(package: str) -> None:
    assert circles(graph(package)) == []


def test_an_upward_arrow_and_a_circle_would_be_seen() -> None:
    imports = {
        "p": {"p.top": 1},
        "p.top": {"p.low.a": 3},
        "p.low.a": {"p.low.b": 4},
        "p.low.b": {"p.low.a": 5, "p.top": 6},
        "p.beside": {"p.top": 7},
    }
    layers = (("top", "beside"), ("low",))
    assert upward(imports, layers) == ["p.low.b:6 imports p.top", "p.beside:7 imports p.top"]
    assert circles(imports) == [["p.low.a", "p.low.b", "p.top"]]


def test_every_package_has_its_table() -> None:
    assert set(LAYERS) == set(PACKAGES)

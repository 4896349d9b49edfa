"""What a type checker of a user sees: the public names are exported and fully annotated."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import typing

import pytest

import rocketmq_py
from rocketmq_py import admin, raw, trace

PUBLIC = {name: module for module in (admin, raw, trace, rocketmq_py) for name in module.__all__}


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_resolves_and_has_a_docstring(name: str) -> None:
    thing = getattr(PUBLIC[name], name)
    if inspect.isclass(thing) or inspect.isfunction(thing):
        assert inspect.getdoc(thing)


def methods() -> list[tuple[str, typing.Any]]:
    """Give the public methods of public classes, their bases' of ours included, each once."""
    things = [getattr(module, name) for name, module in PUBLIC.items()]
    owners = dict.fromkeys(
        owner
        for thing in things
        if inspect.isclass(thing)
        for owner in thing.__mro__
        if owner.__module__.startswith("rocketmq_py")
    )
    return [
        (f"{owner.__name__}.{member}", function)
        for owner in owners
        for member, function in vars(owner).items()
        if inspect.isfunction(function) and not member.startswith("_")
    ]


@pytest.mark.parametrize(("name", "function"), methods(), ids=[name for name, _ in methods()])
def test_every_public_method_is_fully_annotated(name: str, function: typing.Any) -> None:
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty, name
    missing = [
        parameter.name
        for parameter in list(signature.parameters.values())[1:]
        if parameter.annotation is inspect.Parameter.empty
    ]
    assert missing == []


RAW = ("rocketmq_py.client.queue_", "rocketmq_py.client.raw_messages")
"""Modules of bulk tools, whose types are public beside them."""
HOMES = {
    "rocketmq_py.administration.": admin,
    "rocketmq_py.admin.": admin,
    "rocketmq_py.trace.": trace,
}
"""Modules whose types are public beside them, and not in `rocketmq_py`."""
INNER = {"Frame", "Lane", "Plan", "Settle", "Settlement"}
"""What only the SDK passes: a `RemotingCommand`, which hooks see, is decoded from a frame, and a
`Delivery` is made by a consumer."""


def members(kind: type) -> typing.Iterator[tuple[str, typing.Any]]:
    """Give what a program may call or read of a class, its bases' of ours included."""
    for owner in kind.__mro__:
        if not owner.__module__.startswith("rocketmq_py"):
            continue
        for name, member in vars(owner).items():
            if isinstance(member, property):
                yield f"{owner.__name__}.{name}", member.fget
            elif isinstance(member, (classmethod, staticmethod)):
                yield f"{owner.__name__}.{name}", member.__func__
            elif inspect.isfunction(member):
                yield f"{owner.__name__}.{name}", member
        yield owner.__name__, owner


def names_in(annotation: object) -> set[str]:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    tree = ast.parse(text, mode="eval") if text else ast.Constant(None)
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


@functools.cache
def known_in(module: str) -> dict[str, tuple[str, str]]:
    """Give the names of ours that a module knows, also those that only checkers import."""
    source = importlib.import_module(module)
    known = {name: (module, name) for name, it in vars(source).items() if not inspect.ismodule(it)}
    for node in ast.walk(ast.parse(inspect.getsource(source))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                known[one.asname or one.name] = (node.module, one.name)
    return known


def named_types() -> dict[tuple[str, str], str]:
    """Give each type of ours that a public signature or attribute names, and who names it."""
    found: dict[tuple[str, str], str] = {}
    for public, home in PUBLIC.items():
        thing = getattr(home, public)
        if not getattr(thing, "__module__", "").startswith("rocketmq_py"):
            continue
        if home is raw or thing.__module__.startswith(RAW):
            continue
        for where, member in members(thing) if inspect.isclass(thing) else [(public, thing)]:
            name = where.rpartition(".")[2]
            if name.startswith("_") and name != "__init__":
                continue
            for attribute, annotation in inspect.get_annotations(member).items():
                for one in () if attribute.startswith("_") else names_in(annotation):
                    module, known = known_in(member.__module__).get(one, ("", "_"))
                    is_ours = module.startswith("rocketmq_py") and not known.startswith("_")
                    if is_ours and known not in INNER:
                        found.setdefault((module, known), where)
    return found


@pytest.mark.parametrize("origin", sorted(named_types()), ids=lambda origin: origin[1])
def test_every_type_of_a_public_signature_can_be_imported(origin: tuple[str, str]) -> None:
    module, name = origin
    home = next((HOMES[begin] for begin in HOMES if module.startswith(begin)), rocketmq_py)
    assert name in home.__all__, f"{named_types()[origin]} names {module}.{name}"
    assert getattr(home, name) is getattr(importlib.import_module(module), name)

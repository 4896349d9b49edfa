"""What a type checker of a user sees: the public names are exported and fully annotated."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import typing
from types import ModuleType

import pytest

import rocketmq_py
from compat import java, ons, v5
from rocketmq_py import admin, aio, raw, trace

OURS = ("rocketmq_py.", "compat.")
FACES = (admin, aio, java, ons, raw, trace, v5, rocketmq_py)
PUBLIC = [(home, name) for home in FACES for name in home.__all__]


@pytest.mark.parametrize(
    ("home", "name"), PUBLIC, ids=[f"{home.__name__}.{name}" for home, name in PUBLIC]
)
def test_every_public_name_resolves_and_has_a_docstring(home: ModuleType, name: str) -> None:
    thing = getattr(home, name)
    if inspect.isclass(thing) or inspect.isfunction(thing):
        assert inspect.getdoc(thing)


def methods() -> list[tuple[str, typing.Any]]:
    """Give the public methods of public classes, their bases' of ours included, each once."""
    things = [getattr(home, name) for home, name in PUBLIC]
    owners = dict.fromkeys(
        owner
        for thing in things
        if inspect.isclass(thing)
        for owner in thing.__mro__
        if owner.__module__.startswith(OURS)
    )
    return [
        (f"{owner.__module__}.{owner.__name__}.{member}", function)
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
    "rocketmq_py.aio.": aio,
    "compat.java.": java,
    "compat.ons.": ons,
    "compat.v5.": v5,
    "rocketmq_py.producer.halves.BegunHalf": aio,
    "rocketmq_py.errors.ONSClientException": ons,
    "rocketmq_py.trace.": trace,
}
"""Types, or modules of them, that are public elsewhere than in `rocketmq_py`."""
INNER = {
    *("Buffer", "Frame"),
    *("Lane", "Outcomes", "Plan", "Settle", "Settlement"),
    *("LoopCalls", "EndTransactionRequestHeader", "Halves", "ThreadedProducer"),
    *("Engine", "SubscribingEngine"),
}
"""What only the SDK passes: a `RemotingCommand`, which hooks see, is decoded from a frame, a
`Delivery` is made by a consumer, a `Transaction` and its half message by a producer. A client of
`compat.v5` makes the client of the SDK that it passes to its base."""


SPECIAL = {"__init__", "__call__", "__enter__", "__aenter__", "__iter__", "__aiter__", "__anext__"}
"""Special methods whose types a program meets: it calls them, by name or by syntax."""


def members(kind: type) -> typing.Iterator[tuple[str, typing.Any]]:
    """Give what a program may call or read of a class, its bases' of ours included."""
    for owner in kind.__mro__:
        if not owner.__module__.startswith(OURS):
            continue
        for name, member in vars(owner).items():
            if isinstance(member, property):
                yield f"{owner.__name__}.{name}", member.fget
            elif isinstance(member, (classmethod, staticmethod)):
                yield f"{owner.__name__}.{name}", member.__func__
            elif inspect.isfunction(member):
                yield f"{owner.__name__}.{name}", member
        yield owner.__name__, owner


def parts_of(annotation: object) -> typing.Iterator[object]:
    """Give an annotation, and everything that stands inside it."""
    yield annotation
    inside = annotation if isinstance(annotation, list) else typing.get_args(annotation)
    for one in inside:
        yield from parts_of(one)


def names_in(annotation: object, module: str) -> set[str]:
    """Give the names that an annotation of a module has, be it a text or what the text means."""
    found: set[str] = set()
    known = vars(importlib.import_module(module))
    for part in parts_of(annotation):
        if isinstance(part, str):
            nodes = ast.walk(ast.parse(part, mode="eval"))
            found |= {node.id for node in nodes if isinstance(node, ast.Name)}
        else:
            found |= {name for name, thing in known.items() if thing is part or thing == part}
    return found


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


def is_variable(module: str, name: str) -> bool:
    """Whether it stands for a type that is found where it is used."""
    thing = getattr(importlib.import_module(module), name)
    return isinstance(thing, (typing.TypeVar, typing.ParamSpec))


def named_types() -> dict[tuple[str, str], str]:
    """Give each type of ours that a public signature or attribute names, and who names it."""
    found: dict[tuple[str, str], str] = {}
    for home, public in PUBLIC:
        thing = getattr(home, public)
        if not getattr(thing, "__module__", "").startswith(OURS):
            continue
        if home is raw or thing.__module__.startswith(RAW):
            continue
        for where, member in members(thing) if inspect.isclass(thing) else [(public, thing)]:
            name = where.rpartition(".")[2]
            if name.startswith("_") and name not in SPECIAL:
                continue
            for attribute, annotation in inspect.get_annotations(member).items():
                if attribute.startswith("_"):
                    continue
                for one in names_in(annotation, member.__module__):
                    module, known = known_in(member.__module__).get(one, ("", "_"))
                    is_ours = module.startswith(OURS) and not known.startswith("_")
                    if is_ours and known not in INNER and not is_variable(module, known):
                        found.setdefault((module, known), where)
    return found


@pytest.mark.parametrize("origin", sorted(named_types()), ids=lambda origin: origin[1])
def test_every_type_of_a_public_signature_can_be_imported(origin: tuple[str, str]) -> None:
    module, name = origin
    whole = f"{module}.{name}"
    home = next((HOMES[begin] for begin in HOMES if whole.startswith(begin)), rocketmq_py)
    assert name in home.__all__, f"{named_types()[origin]} names {module}.{name}"
    assert getattr(home, name) is getattr(importlib.import_module(module), name)

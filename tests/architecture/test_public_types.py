"""What a type checker of a user sees: the public names are exported and fully annotated."""

from __future__ import annotations

import inspect
import typing

import pytest

import rocketmq_py
from rocketmq_py import raw

PUBLIC = dict.fromkeys(rocketmq_py.__all__, rocketmq_py) | dict.fromkeys(raw.__all__, raw)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_resolves_and_has_a_docstring(name: str) -> None:
    thing = getattr(PUBLIC[name], name)
    if inspect.isclass(thing) or inspect.isfunction(thing):
        assert inspect.getdoc(thing)


def methods() -> list[tuple[str, typing.Any]]:
    found: list[tuple[str, typing.Any]] = []
    for name, module in PUBLIC.items():
        thing = getattr(module, name)
        if inspect.isclass(thing) and thing.__module__.startswith("rocketmq_py"):
            found += [
                (f"{name}.{member}", function)
                for member, function in vars(thing).items()
                if inspect.isfunction(function) and not member.startswith("_")
            ]
    return found


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

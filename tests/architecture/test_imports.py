"""Which room may import which: the arrows of the design, read from the code."""

from __future__ import annotations

from pathlib import Path

import pytest

import rocketmq_py
from rocketmq_py import admin, aio
from tests.architecture.source_tree import (
    PACKAGES,
    ROOT,
    imported_modules,
    module_name,
    python_files,
)

PUBLIC = {
    "rocketmq_py",
    *(f"rocketmq_py.{name}" for name in rocketmq_py.__all__),
    "rocketmq_py.admin",
    *(f"rocketmq_py.admin.{name}" for name in admin.__all__),
    "rocketmq_py.aio",
    *(f"rocketmq_py.aio.{name}" for name in aio.__all__),
    *(f"rocketmq_py.admin.{name}" for name in admin.__all__),
}
PUBLIC_MODULES = (
    "rocketmq_py.errors",
    "rocketmq_py.clock",
    "rocketmq_py.config",
    "rocketmq_py.raw",
    "rocketmq_py.admin",
    "rocketmq_py.spelling",
)
BROKER_MAY = (
    "rocketmq_py.protocol",
    "rocketmq_py.errors",
    "rocketmq_py.clock",
    "rocketmq_py.logs",
    "rocketmq_py.signals",
)


def below(name: str, roots: tuple[str, ...]) -> bool:
    return any(name == root or name.startswith(f"{root}.") for root in roots)


def public(name: str) -> bool:
    return name in PUBLIC or below(name, PUBLIC_MODULES)


def allowed(importer: str, target: str) -> bool:
    """Whether the module `importer` may name `target`, a module or member of our packages."""
    room = importer.split(".", maxsplit=1)[0]
    if target.split(".", maxsplit=1)[0] == room:
        return True
    match room:
        case "spark_connector":
            # Stores are read by who can read them; the module imports it when a store is read.
            is_reader = importer == "spark_connector.reading.store_timers"
            return public(target) or (is_reader and below(target, ("embedded_broker.inspector",)))
        case "compat":
            return public(target)
        case "embedded_broker":
            if importer == "embedded_broker.remoting.inproc" and below(
                target, ("rocketmq_py.transport.inproc",)
            ):
                return True
            face = importer.startswith(("embedded_broker.cli", "embedded_broker.kit")) or (
                importer == "embedded_broker.pytest_plugin"
            )
            # `from rocketmq_py import errors` also yields the bare package: harmless.
            return below(target, BROKER_MAY) or target == "rocketmq_py" or (face and public(target))
        case _:
            return False


def forbidden(path: Path) -> list[str]:
    importer = module_name(path)
    return [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for line, target in imported_modules(path)
        if target.split(".")[0] in PACKAGES
        and not allowed(importer, target)
        # `from rocketmq_py.transport import inproc` names the package on the way
        and not (
            importer == "embedded_broker.remoting.inproc" and target == "rocketmq_py.transport"
        )
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_arrow_between_rooms_is_one_the_design_draws(package: str) -> None:
    assert [line for path in python_files(package) for line in forbidden(path)] == []


def test_a_forbidden_arrow_would_be_seen() -> None:
    assert not allowed("embedded_broker.lifecycle.parts", "rocketmq_py.client.instance")
    assert not allowed("embedded_broker.remoting.server", "rocketmq_py.transport.inproc")
    assert not allowed("rocketmq_py.client.instance", "embedded_broker")
    assert not allowed("compat.ons", "rocketmq_py.protocol.frame")
    assert not allowed("spark_connector.source", "embedded_broker.inspector.pages")
    assert not allowed("spark_connector.reading.store_timers", "embedded_broker.api")


def test_examples_use_public_names_only() -> None:
    bad = [
        f"{path.name}:{line} imports {target}"
        for path in python_files("examples")
        for line, target in imported_modules(path)
        if target.startswith("rocketmq_py.") and not public(target)
    ]
    assert bad == []

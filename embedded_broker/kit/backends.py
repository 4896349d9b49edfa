"""Table of the backends: which class stands behind each value of ``--rocketmq``.

Answers: how a value of the option becomes a ``Backend`` that is not started yet. Must not know: how
any of them starts. Nothing is imported before its kind is asked for: a container needs
testcontainers, the others do not. Read on: ``embedded_broker/kit/backend.py``.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Final, cast

from embedded_broker.kit.backend import Backend, BackendKind, BackendSpec

CLASSES: Final[dict[BackendKind, str]] = {
    "process": "embedded_broker.kit.process:ProcessBackend",
    "container": "embedded_broker.kit.container:ContainerBackend",
    "address": "embedded_broker.kit.address:AddressBackend",
}
"""Kind to module and class; the class takes the target. An embedded broker needs no backend."""


def make_backend(spec: BackendSpec) -> Backend:
    """Give the backend that a spec asks for; ``start()`` starts it."""
    module, _, name = CLASSES[spec.kind].partition(":")
    make = cast("Callable[[str], Backend]", getattr(import_module(module), name))
    return make(spec.target)

"""From the arguments of Java's constructors to the settings of the SDK's clients.

Must not know the clients: ``forms.py`` has the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compat.java import forms
from compat.java.overloads import Form, read
from compat.java.signing import AclClientRPCHook


def settings_of(
    kind: str, known: Sequence[Form], given: Sequence[object], settings: dict[str, Any]
) -> dict[str, Any]:
    """Give the settings that a constructor's arguments mean; `TypeError` when they mean none."""
    meant = read(kind, known, given)
    hook = meant.pop("hook", None)
    if isinstance(hook, AclClientRPCHook):
        meant["credentials"] = hook.credentials
    elif hook is not None:
        meant["rpc_hooks"] = (hook,)
    chosen = {name: value for name, value in meant.items() if value is not None}
    return {**settings, **chosen}  # `of` gives the settings that a value has


def producer_settings(
    kind: str, given: Sequence[object], settings: dict[str, Any]
) -> dict[str, Any]:
    """Give the settings of a producer: defaults of Java that differ from the SDK's go here."""
    return {"delay_policy": "as_java", **settings_of(kind, forms.PRODUCER, given, settings)}

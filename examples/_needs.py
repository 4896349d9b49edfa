"""What an example says where something is missing that it needs: one line, with the remedy.

An example that cannot run ends with the status 77, by which test runners know a skipped program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec

SKIPPED = 77


def missing_packages(*names: str) -> list[str]:
    """Give those of some packages that are not installed: ``rich``, ``google.protobuf``."""
    return [name for name in names if not _is_there(name)]


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ModuleNotFoundError, ValueError):  # no parent package; a module that is blocked
        return False


def run_unless(missing: Sequence[str], remedy: str, program: Callable[[], int]) -> int:
    """Run an example if nothing is missing, and return its exit status."""
    if not missing:
        return program()
    print(f"SKIPPED {', '.join(missing)} not found: {remedy}")
    return SKIPPED

"""Stores below a directory that is none itself, such as the one of a cluster.

Answers: what an error names beside "no store". Must not know: what is in a store. Read on:
``embedded_broker/lifecycle/repair.py``, ``embedded_broker/inspector/reader.py``.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

SHOWN_MAX: Final = 16


def stores_below(root: Path, signs: Iterable[str]) -> str:
    """Name the folders of a directory that have one of the signs, as the end of a sentence.

    Empty when there is none, or when the directory may not be read.
    """
    wanted = tuple(signs)
    try:
        found = sorted(
            one.name for one in root.iterdir() if any((one / name).exists() for name in wanted)
        )
    except OSError:  # one that may not be entered is none that could be read
        return ""
    if not found:
        return ""
    more = f" and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
    return f". There are stores below it: {', '.join(found[:SHOWN_MAX])}{more}"

"""Unpack the archives that tests use: stores of real brokers, source distributions."""

from __future__ import annotations

import tarfile
from pathlib import Path

STORES = Path(__file__).parent / "golden" / "stores"


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive into a folder.

    Python 3.11.4 brought the argument ``filter``, and later versions warn without it.
    """
    with tarfile.open(archive) as opened:
        if hasattr(tarfile, "data_filter"):
            opened.extractall(folder, filter="data")
        else:
            opened.extractall(folder)  # noqa: S202  the archives are the project's own


def unpack_store(name: str, folder: Path) -> Path:
    """Unpack a store of a real broker into a folder, with its list of messages beside it.

    Give the store's directory; ``NAME.tsv`` beside it lists the messages that were sent.
    """
    unpack(STORES / f"{name}.tar.gz", folder)
    return folder / f"{name}.store"

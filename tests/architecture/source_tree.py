"""The source files of the four packages and what they import: input of the structure tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("rocketmq_py", "compat", "embedded_broker", "spark_connector")


def python_files(*tops: str) -> list[Path]:
    """Every Python file below the given top-level folders, sorted."""
    return sorted(path for top in tops for path in (ROOT / top).rglob("*.py"))


def module_name(path: Path) -> str:
    """Dotted import name of a file of the project."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def imported_modules(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import of a file, those inside functions included.

    `from a.b import c` yields both `a.b` and `a.b.c`: c may be a module.
    """
    package = module_name(path) if path.name == "__init__.py" else module_name(path.parent / "x")
    package = package.removesuffix(".x")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                anchor = package.split(".")
                anchor = anchor[: len(anchor) - node.level + 1]
                base = ".".join([*anchor, base] if base else anchor)
            yield node.lineno, base
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"

"""A file answers one question, a function fits a screen: the limits that keep it so."""

from __future__ import annotations

import ast

from tests.architecture.source_tree import PACKAGES, ROOT, python_files

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70


def test_no_file_is_longer_than_the_limit() -> None:
    long_files = {
        str(path.relative_to(ROOT)): lines
        for path in python_files(*PACKAGES, "tests", "examples")
        if (lines := path.read_text(encoding="utf-8").count("\n")) > FILE_LINES_MAX
    }
    assert long_files == {}


def test_no_function_is_longer_than_a_screen() -> None:
    long_functions = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in python_files(*PACKAGES, "examples")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert long_functions == []

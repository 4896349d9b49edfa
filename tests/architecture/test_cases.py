"""Every numbered case of the specifications that is built has a test that carries its number."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.architecture.source_tree import ROOT, python_files


def expand(text: str) -> Iterator[str]:
    """`F1-3 A2` -> F1 F2 F3 A2."""
    for word in text.split():
        match = re.fullmatch(r"([A-Z])(\d+)(?:-(\d+))?", word)
        if match is None:
            raise ValueError(word)
        letter, first, last = match.groups()
        for number in range(int(first), int(last or first) + 1):
            yield f"{letter}{number}"


# F A P R C L: timer store.  W: wire protocol.  T: client API.  K: the broker's Python face.
REQUIRED = set(
    expand(
        "F1-4 F7-14 F16-17 A1-9 A11 A13-15 P2 P5 P8 P33 R1-4 C1 C3 C5 L1-2 L8 "
        "W1-11 W13-17 W20-22 W25 W29-39 W43-64 W71 W73 W77-88 W97 "
        "T1-12 T29-30 T32-41 T43-48 T52-53 T56 T69 T73 T76 T85-87 "
        "K1-3 K7 K13-16 K21 K28-29"
    )
)


def cases_in(source: str) -> Iterator[str]:
    """Numbers given to `pytest.mark.case(...)` anywhere in a test module."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "case"
        ):
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value


def proven() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in python_files("tests"):
        for case in cases_in(path.read_text(encoding="utf-8")):
            found[case].append(str(path.relative_to(ROOT)))
    return found


def test_every_required_case_has_a_test() -> None:
    assert sorted(REQUIRED - proven().keys()) == []

"""`python -m tests.cases [ID or letter ...]`: which numbered cases have a test, and which one.

The specifications, which are no part of the repository, number their cases; a test that proves one
carries `@pytest.mark.case("P12")`. So a number means what the names of its tests say. Where a table
of GAPS.md names it in its column `case` we differ, and that row is printed, too.
This table says which numbers there are, which of them a change may not lose, and which are left
out and why. `tests/architecture/test_cases.py` fails when a required one has no test.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).resolve().parent.parent

_WORD = re.compile(r"(S0-|[A-Z]+)(\d+)(?:-(\d+))?")


def expand(text: str) -> Iterator[str]:
    """`F1-3 A2 S0-6-7` -> F1 F2 F3 A2 S0-6 S0-7."""
    for word in text.split():
        match = _WORD.fullmatch(word)
        if match is None:
            raise ValueError(word)
        family, first, last = match.groups()
        for number in range(int(first), int(last or first) + 1):
            yield f"{family}{number}"


@frozen
class Family:
    """Cases of one letter: what they are about, how many there are, which must have a test."""

    letter: str
    title: str
    count: int
    required: str


FAMILIES = (
    Family("F", "timer store: formats", 18, "F1-18"),
    Family("A", "timer store: admission", 26, "A1-26"),
    Family("P", "timer store: pipeline", 35, "P1-35"),
    Family("R", "timer store: recall", 8, "R1-8"),
    Family("C", "timer store: recovery", 23, "C1-23"),
    Family("L", "timer store: delay levels", 10, "L1-10"),
    Family("E", "timer store: sliced engine", 7, "E1-7"),
    Family("S0-", "limits that the first document names", 7, "S0-1-7"),
    Family("K", "the broker's Python face", 33, "K1-33"),
    Family(
        "W",
        "wire protocol",
        110,
        "W1-110",
    ),
    Family(
        "T",
        "client API",
        103,
        "T1-63 T65-101 T103",
    ),
    Family("SP", "Spark connector", 78, "SP1-78"),
    Family("G", "gRPC endpoint", 79, "G1-79"),
)

EXCEPTIONS: dict[str, str] = {}
"""Required cases of the timer store without a test, each with its reason. Three at most, and none
of F, C and R: a format, a recovery or a recall that nobody checks is a lost message."""

ALL = [f"{family.letter}{number + 1}" for family in FAMILIES for number in range(family.count)]
REQUIRED = {case for family in FAMILIES for case in expand(family.required)} - EXCEPTIONS.keys()


# --- the tests that there are ----------------------------------------------------------------


def proofs(folder: Path = ROOT / "tests") -> dict[str, list[str]]:
    """Case to the tests that carry its number, as pytest names them: `path::function`."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder.parent).as_posix()
        for case, test in cases_in(path.read_text(encoding="utf-8")):
            node = f"{name}::{test}" if test else name
            if node not in found[case]:
                found[case].append(node)
    return found


def cases_in(source: str) -> Iterator[tuple[str, str]]:
    """Every number given to `pytest.mark.case(...)`, with the function it marks, "" for a module.

    A number on a parameter counts for the function.
    """
    if "mark.case(" not in source:
        return
    for top in ast.parse(source).body:
        name = ""
        if isinstance(top, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = top.name
        for node in ast.walk(top):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "case"
            ):
                for argument in node.args:
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                        yield argument.value, name


def differences(page: Path = ROOT / "GAPS.md") -> dict[str, list[str]]:
    """Case to the rows of GAPS.md that name it in their column `case`, each in one line."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in rows_in(page.read_text(encoding="utf-8")):
        cases = row.pop("case", "")
        what, *others = row.items()
        words = " | ".join([what[1], *(f"{name}: {cell}" for name, cell in others if cell)])
        for case in expand(cases):
            found[case].append(words)
    return found


def rows_in(text: str) -> Iterator[dict[str, str]]:
    """Every row of the tables of a Markdown page: heading to cell."""
    headings: list[str] = []
    for line in text.splitlines():
        if not line.startswith("|"):
            headings = []
            continue
        cells = [cell.strip() for cell in line.strip()[1:-1].split("|")]
        if not headings:
            headings = cells
        elif set("".join(cells)) != {"-"}:
            yield dict(zip(headings, cells, strict=True))


# --- the report ------------------------------------------------------------------------------


def report(wanted: list[str]) -> Iterator[str]:
    """Lines for each case that is asked for, and the sums by family."""
    found, differing = proofs(), differences()
    for family in FAMILIES:
        cases = [one for one in ALL if re.fullmatch(rf"{family.letter}\d+", one)]
        chosen = [one for one in cases if not wanted or one in wanted or family.letter in wanted]
        if not chosen:
            continue
        present = sum(one in found for one in cases)
        yield f"{family.title}: {present} of {len(cases)}"
        for case in chosen:
            yield _line(case, found.get(case, []))
            yield from (f"        GAPS.md: {text}" for text in differing.get(case, []))
    unknown = sorted((found.keys() | differing.keys()) - set(ALL))
    if unknown:
        yield f"numbers that no list has: {', '.join(unknown)}"


def _line(case: str, tests: list[str]) -> str:
    if tests:
        return f"  {case:<5} " + "\n        ".join(tests)
    if case in EXCEPTIONS:
        return f"  {case:<5} none: {EXCEPTIONS[case]}"
    return f"  {case:<5} {'MISSING' if case in REQUIRED else 'none'}"


def main(arguments: list[str]) -> int:
    """Print the report; exit status 1 when a required case has no test."""
    print("\n".join(report(arguments)))
    missing = sorted(REQUIRED - proofs().keys())
    if missing:
        print(f"required and missing: {', '.join(missing)}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m tests.golden.sql.make`: ask RocketMQ's filter again, and keep what it says.

Expressions are drawn from the grammar with odd values, and a part of them is damaged; others are
words in any order. Needs Java and Maven. The same seed draws the same pairs.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from tests.interop.java_tools import QUIET, jars

HERE: Final = Path(__file__).parent
PAIRS: Final = {"5.3.3": 15_000, "4.9.7": 3_000}
"""Releases, and how many pairs each is asked about."""
WORDS_EVERY: Final = 5

NAMES: Final = ["a", "b", "c", "A", "TAGS", "_x$1", "missing", "nota", "in1"]
VALUES: Final = [
    *("", "0", "1", "5", "-5", "+5", "5.0", "3.5", "abc", "ABC", "a'b", "true", "TRUE", "false"),
    *("2147483647", "2147483648", "-2147483648", "9223372036854775807", "9223372036854775808"),
    *(" 5", "5 ", "5L", "5f", "1e3", "1E400", "-0.0", "0.0", "NaN", "Infinity", "-Infinity", "inf"),
    *("0x10", "0x1p3", "1_000", "\u0665", "null", "x" * 300, "\t7\n", "7.", ".7", ".", "+", "-"),
]
NUMBERS: Final = [
    *("0", "1", "5", "05", "5L", "0L", "2147483647", "2147483648", "9223372036854775807"),
    *("9223372036854775808", "5.0", "0.0", ".5", "5.", "1e3", "1E400", "5E-400", "1e", "3.5"),
]
TEXTS: Final = ["''", "'a'", "'5'", "'a''b'", "'abc'", "'true'", "'--'", "'/*'", "'x y'"]
SEARCHES: Final = ["CONTAINS", "STARTSWITH", "ENDSWITH", "contains", "StartsWith"]
GAPS: Final = [" ", " ", " ", " ", "\t", "\n", " /* c */ ", " /**/ ", " -- c\n", "  "]
JUNK: Final = ["#", "'", "(", ")", "NOT", "AND", "IS", "=", "5", "x", "--", "/*", ",", "\u00e9", ""]

WORDS: Final = [
    *(*NAMES, *NUMBERS, *TEXTS, *SEARCHES, "NOT", "AND", "OR", "IS", "BETWEEN", "IN", "NULL"),
    *("(", ")", "(", ")", "=", "<>", "<", "<=", ">", ">=", ",", "+", "-", "TRUE", "false"),
    *("IS NULL", "IS NOT NULL", "NOT IN", "IN ('a', '5')", "a.b", "!=", "*", "/", "'", "''" * 2),
    *("\U0001f600", "'\U0001f600'", "\n", "\t", "-- x", "/* x */", "'\n\t\"'"),
]
CHARACTERS: Final = "ab5'() =<>.,\n\r\t-/*+eELNOTANDRIULSBWx$_%;\"\\\0\u00a0\u0130\u017f\U0001f600"


class Draw:
    """Draws expressions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self, depth: int = 0) -> str:
        """Give a condition."""
        draw = self.random
        kind = draw.random()
        if depth > 4 or kind < 0.55:
            return self.simple(depth)
        if kind < 0.75:
            return (
                f"{self.one(depth + 1)} {draw.choice(['AND', 'OR', 'and'])} {self.one(depth + 1)}"
            )
        if kind < 0.88:
            return f"({self.one(depth + 1)})"
        return f"NOT {self.one(depth + 1)}"

    def simple(self, depth: int) -> str:
        """Give a comparison, or less."""
        draw = self.random
        left, turn = self.operand(depth), draw.choice(["", "", "NOT "])
        kind = draw.randrange(9)
        if kind < 3:
            sign = draw.choice(["=", "<>", ">", ">=", "<", "<="])
            return f"{left} {sign} {self.operand(depth)}"
        if kind == 3:
            return f"{left} {turn}BETWEEN {self.operand(depth)} AND {self.operand(depth)}"
        if kind == 4:
            many = draw.randint(1, 6)
            return f"{left} {turn}IN ({', '.join(draw.choice(TEXTS) for _ in range(many))})"
        if kind == 5:
            return f"{left} {turn}{draw.choice(SEARCHES)} {draw.choice(TEXTS)}"
        if kind == 6:
            return f"{left} IS {turn}NULL"
        if kind == 7:
            return draw.choice(["TRUE", "FALSE", "NULL", left])
        return f"{left} {draw.choice(['=', '>', '<='])} {draw.choice(NUMBERS)}"

    def operand(self, depth: int) -> str:
        """Give one side of a comparison."""
        draw = self.random
        kind = draw.random()
        if kind < 0.5:
            return draw.choice(NAMES)
        if kind < 0.75:
            return draw.choice(NUMBERS)
        if kind < 0.85:
            return draw.choice(TEXTS)
        if kind < 0.92:
            return f"{draw.choice('+-')} {self.operand(depth + 1)}"
        if kind < 0.96:
            return draw.choice(["TRUE", "FALSE", "NULL"])
        return f"({self.simple(depth + 1) if depth < 3 else 'a'})"

    def written(self) -> str:
        """Give an expression as somebody may have written it."""
        draw = self.random
        text = self.one()
        if draw.random() < 0.3:
            text = "".join(draw.choice(GAPS) if char == " " else char for char in text)
        if draw.random() < 0.15:
            at = draw.randint(0, len(text))
            text = text[:at] + draw.choice(JUNK) + text[draw.choice((at, at + 1)) :]
        if draw.random() < 0.05:
            text += f" {draw.choice(JUNK)} {draw.choice(JUNK)}"
        return text

    def properties(self) -> dict[str, str]:
        """Give the properties of a message."""
        draw = self.random
        return {
            name: draw.choice(VALUES)
            for name in NAMES
            if name != "missing" and draw.random() < 0.75
        }

    def words(self) -> str:
        """Give words in any order, and seldom characters."""
        draw = self.random
        if draw.random() < 0.2:
            return "".join(draw.choices(CHARACTERS, k=draw.randint(0, 25)))
        return " ".join(draw.choices(WORDS, k=draw.randint(1, 10)))


def kept(version: str) -> Path:
    """Where the answers of a release are."""
    return HERE / f"answers-{version}.json.gz"


def drawn(count: int) -> list[tuple[str, dict[str, str]]]:
    """Give so many pairs."""
    draw = Draw(92)
    return [
        (draw.words() if number % WORDS_EVERY == 0 else draw.written(), draw.properties())
        for number in range(count)
    ]


def asked(pairs: list[tuple[str, dict[str, str]]], version: str) -> list[list[str]]:
    """Let a release's filter answer: a letter, and what clients are told of a C."""

    def coded(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    lines = [
        " ".join(map(coded, [expression, *(word for item in found.items() for word in item)]))
        for expression, found in pairs
    ]
    path = jars(version, "rocketmq-filter")
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(["javac", "-d", out, "-cp", path, str(HERE / "SqlOracle.java")], check=True)
        done = subprocess.run(
            ["java", *QUIET, "-cp", f"{out}:{path}", "SqlOracle"],
            input="\n".join(lines) + "\n",
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    answers = [line.split(" ") for line in done.stdout.splitlines()]
    return [[letter, *map(decoded, told)] for letter, *told in answers]


def decoded(word: str) -> str:
    """Read one of the program's texts."""
    return base64.b64decode(word).decode()


def main() -> None:
    for version, count in PAIRS.items():
        pairs = drawn(count)
        answers = asked(pairs, version)
        if len(answers) != len(pairs):
            raise RuntimeError(f"{len(answers)} answers to {len(pairs)} questions")
        document = {
            "note": f"rocketmq-filter {version}: T, F, N unknown, X not evaluated, C refused, why",
            "pairs": [[*pair, *answer] for pair, answer in zip(pairs, answers, strict=True)],
        }
        kept(version).write_bytes(gzip.compress(json.dumps(document, indent=0).encode(), mtime=0))
        print(version, Counter(answer[0] for answer in answers))


if __name__ == "__main__":
    main()

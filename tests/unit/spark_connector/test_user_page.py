"""The page for users of the connector names every option and column, as the code has them.

Run as a program (`python -m tests.unit.spark_connector.test_user_page`) it writes the table of
options into the page anew. Its programs are run in ``tests/spark/test_readme.py``.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from spark_connector.__main__ import USAGE, main
from spark_connector.options.table import OPTIONS, as_markdown, as_text

PAGE = Path(__file__).resolve().parents[3] / "spark_connector" / "README.md"
MARK = "<!-- the table: python -m tests.unit.spark_connector.test_user_page -->\n"


def with_table(page: str) -> str:
    """The page with the present options in the place of everything below the mark."""
    before, mark, _ = page.partition(MARK)
    return f"{before}{mark}\n{as_markdown()}"


def test_the_table_on_the_page_is_that_of_the_options() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.count(MARK) == 1
    assert with_table(page) == page, "python -m tests.unit.spark_connector.test_user_page"


def test_a_row_of_the_table_has_use_limits_default_and_meaning() -> None:
    rows = {line.split("`")[1]: line for line in as_markdown().splitlines()[2:]}
    assert rows.keys() == {option.name for option in OPTIONS.values()}
    assert rows["prefetch"].startswith("| `prefetch` | BST | 1 to 1024 | `4` | Requests in flight")
    assert rows["groupId"].startswith("| `groupId` | BST | text |  | Group whose")
    assert "| 1 or more |" in rows["minPartitions"]
    assert "| fail, skip, topic | `fail` |" in rows["onInvalidRow"]
    cells = [len(re.split(r"(?<!\\)\|", line)) for line in rows.values()]
    assert set(cells) == {7}  # no bar inside of a meaning cuts a row


def test_every_column_is_named_on_the_page() -> None:
    from spark_connector.decoding import read_columns, timer_columns
    from spark_connector.writing import write_columns

    words = set(re.findall(r"`([a-z_]+)`", PAGE.read_text(encoding="utf-8")))
    assert {
        *read_columns._TYPES,
        *write_columns._KINDS,
        *timer_columns.TIMER_COLUMNS,
    } - words == set()


def test_every_guarantee_on_the_page_names_tests_that_exist() -> None:
    page = PAGE.read_text(encoding="utf-8")
    table = page.partition("## What is guaranteed when\n")[2].partition("\n## ")[0]
    folder = Path(__file__).resolve().parents[2] / "spark"
    written = "".join(path.read_text(encoding="utf-8") for path in folder.glob("test_*.py"))
    lines = [line for line in table.splitlines() if re.match(r"\| \w", line)]
    rows = [line.strip("|").split("|")[1:] for line in lines]
    assert len(rows) > 8
    assert [one for row in rows for one in row if one.strip() and "[" not in one] == []
    named = set(re.findall(r"`(test_\w+)`", table))
    assert {name for name in named if f"def {name}(" not in written} == set()
    cells = {int(number) for number in re.findall(r"\[(\d+)\]", table)}
    notes = {int(number) for number in re.findall(r"^(\d+)\. `", table, flags=re.MULTILINE)}
    assert cells == notes == set(range(1, max(cells) + 1))


def test_the_page_names_no_option_that_does_not_exist() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    given = [
        word.arg
        for block in blocks
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", "") in {"options", "send", "recall"}
        for word in node.keywords
    ]
    assert "subscribe" in given
    assert {str(name).lower() for name in given} - OPTIONS.keys() == set()


def test_the_command_shows_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["options"]) == 0
    text = capsys.readouterr().out
    assert text == as_text()
    assert "delayMs (W; 0 or more) = unset\n    Delay in ms" in text
    assert all(f"\n{option.name} (" in text for option in OPTIONS.values())
    assert main(["options", "--markdown"]) == 0
    assert capsys.readouterr().out == as_markdown()


def test_other_arguments_show_how_to_call_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["options", "--html"]) == 2
    assert capsys.readouterr().err == USAGE


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

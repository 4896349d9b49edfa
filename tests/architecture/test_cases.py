"""Every numbered case of the specifications that is built has a test that carries its number."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import cases
from tests.cases import (
    ALL,
    EXCEPTIONS,
    REQUIRED,
    cases_in,
    differences,
    expand,
    proofs,
    report,
    rows_in,
)

EXCEPTIONS_MOST = 3
NO_EXCEPTIONS_IN = ("F", "C", "R")


def test_every_required_case_has_a_test() -> None:
    assert sorted(REQUIRED - proofs().keys()) == []


def test_every_number_on_a_test_or_in_gaps_is_one_of_a_list() -> None:
    assert sorted((proofs().keys() | differences().keys()) - set(ALL)) == []


def test_few_cases_are_left_out_each_with_a_reason_and_none_that_guards_messages() -> None:
    assert len(EXCEPTIONS) <= EXCEPTIONS_MOST
    assert EXCEPTIONS.keys() <= set(ALL)
    for case, reason in EXCEPTIONS.items():
        assert not case.startswith(NO_EXCEPTIONS_IN)
        assert len(reason) > len("not built")


def test_numbers_are_written_as_ranges() -> None:
    assert list(expand("F1-3 A2 S0-6-7")) == ["F1", "F2", "F3", "A2", "S0-6", "S0-7"]
    with pytest.raises(ValueError, match="F1,2"):
        list(expand("F1,2"))


def test_a_number_is_found_on_functions_on_parameters_and_on_modules() -> None:
    source = """
pytestmark = pytest.mark.case("K1")
@pytest.mark.case("A1", "A2")
def test_one(): ...
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.case("A3"))])
async def test_two(): ...
"""
    expected = [("K1", ""), ("A1", "test_one"), ("A2", "test_one"), ("A3", "test_two")]
    assert list(cases_in(source)) == expected


def test_the_report_names_the_tests_of_a_case() -> None:
    lines = list(report(["F1"]))
    assert lines[0].startswith("timer store: formats: ")
    assert "test_timer_log.py::test_" in lines[1]
    assert len(lines) == 2


def test_a_row_of_a_table_is_told_by_its_headings_and_empty_cells_are_left_out(
    tmp_path: Path,
) -> None:
    page = tmp_path / "GAPS.md"
    page.write_text(
        """# Words before | that are no table

| what | here | real broker | case |
|---|---|---|---|
| Red | Green. | | A1 |
| Blue | Blue. | White. | A1 W2-3 |
| Black | Black. | White. | |

| what | state |
|---|---|
| Grey | Not run. |
""",
        encoding="utf-8",
    )
    assert [row["what"] for row in rows_in(page.read_text(encoding="utf-8"))] == [
        "Red",
        "Blue",
        "Black",
        "Grey",
    ]
    red, blue = "Red | here: Green.", "Blue | here: Blue. | real broker: White."
    assert differences(page) == {"A1": [red, blue], "W2": [blue], "W3": [blue]}


@pytest.mark.parametrize("row", ["| Red | Green. |", "| Red | Green. | see A1 |"])
def test_a_row_of_another_width_and_a_case_that_is_no_number_are_errors(
    row: str, tmp_path: Path
) -> None:
    page = tmp_path / "GAPS.md"
    page.write_text(f"| what | here | case |\n|---|---|---|\n{row}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"zip|see"):
        differences(page)


def test_the_report_has_the_tests_of_a_case_and_the_words_of_gaps_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (_, proven, words) = report(["A11"])
    assert "::test_" in proven
    assert words.startswith("        GAPS.md: A delay property with an empty value | here: ")
    assert words.endswith("The written case says 13.")
    monkeypatch.setattr(cases, "proofs", dict)
    (_, bare) = report(["T92"])
    assert bare.split() == ["T92", "MISSING"]

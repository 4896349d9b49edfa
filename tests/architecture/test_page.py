"""The lists of files in ARCHITECTURE.md are those of the tree, so that a reader finds each room."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.source_tree import PACKAGES, ROOT

PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
LISTED_WHOLE = ("rocketmq_py", "rocketmq_py/protocol", "embedded_broker", "spark_connector")
"""Folders of which the page names every file; of others it names what to begin with."""


def listed(page: str) -> dict[str, set[str]]:
    """Folder to the names that the page's map has for it, without endings.

    A line begins with names; three blanks or more divide them from what is said about them. A
    folder that has a line of its own holds what is indented below it.
    """
    (block,) = re.findall(r"```\n(rocketmq_py/\n.*?)```", page, flags=re.DOTALL)
    found: dict[str, set[str]] = {}
    above: list[tuple[int, str]] = []
    for line in block.splitlines():
        indent = len(line) - len(line.lstrip())
        names = re.split(r"\s{3,}", line.strip())[0].split()
        above = [one for one in above if one[0] < indent]
        if above:
            found[above[-1][1]] |= {name.removesuffix("/").removesuffix(".py") for name in names}
        if names[0].endswith("/"):
            folder = "/".join([*(name for _, name in above[-1:]), names[0].rstrip("/")])
            above.append((indent, folder))
            found.setdefault(folder, set())
    return found


def in_tree(folder: Path) -> set[str]:
    """Names of the modules and packages of a folder, without those that every package has."""
    modules = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    return modules | {path.parent.name for path in folder.glob("*/__init__.py")}


def test_the_page_is_read_in_one_sitting() -> None:
    assert len(PAGE.splitlines()) <= 210


def test_every_name_of_the_map_is_there() -> None:
    wrong = {folder: names - in_tree(ROOT / folder) for folder, names in listed(PAGE).items()}
    assert {folder: names for folder, names in wrong.items() if names} == {}


@pytest.mark.parametrize("folder", LISTED_WHOLE)
def test_no_file_of_a_folder_that_is_listed_whole_is_left_out(folder: str) -> None:
    assert in_tree(ROOT / folder) - listed(PAGE)[folder] == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_a_row_in_the_table_of_rooms(package: str) -> None:
    assert f"| `{package}/` |" in PAGE


def test_names_are_read_by_their_indentation() -> None:
    page = (
        "```\nrocketmq_py/\n  a.py  b    what\n  c/   room\n    d  e    more\n  f/  g/    two\n```"
    )
    assert listed(page) == {
        "rocketmq_py": {"a", "b", "c", "f", "g"},
        "rocketmq_py/c": {"d", "e"},
        "rocketmq_py/f": set(),
    }


MENTION = re.compile(r"(?<![\w/.])((?:[a-z_]+/)*[a-z_]+\.py)\b")


def named(path: Path) -> set[str]:
    """Python files that a source file or page names by path, those of other projects left out."""
    return set(MENTION.findall(path.read_text(encoding="utf-8")))


def is_there(mention: str, where: Path) -> bool:
    """Whether a path names a file: from its own folder up to the root, or by a bare name."""
    folders = [folder for folder in where.parents if folder.is_relative_to(ROOT)]
    return any((folder / mention).exists() for folder in folders)


@pytest.mark.parametrize("package", PACKAGES)
def test_files_that_docstrings_name_are_there(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} names {mention}"
        for path in (ROOT / package).rglob("*.py")
        for mention in sorted(named(path))
        if not is_there(mention, path)
    ]
    assert wrong == []


PLACE = re.compile(rf"`((?:{'|'.join((*PACKAGES, 'tests', 'examples'))})/[\w./*]*)`")


@pytest.mark.parametrize(
    "page", ["README.md", "TUTORIAL.md", "CONTRIBUTING.md", "GAPS.md", "MIGRATION.md"]
)
def test_files_and_folders_that_a_page_names_are_there(page: str) -> None:
    places = PLACE.findall((ROOT / page).read_text(encoding="utf-8"))
    assert places != []
    assert [place for place in places if not any(ROOT.glob(place.rstrip("/")))] == []

"""What a wheel and a source distribution hold and say, and that both can be made again."""

from __future__ import annotations

import re
import tomllib
from configparser import ConfigParser
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from tests.architecture.source_tree import PACKAGES
from tests.archives import unpack
from tests.packaging.built import ROOT, Built, build, copy_of_sources

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGES = ("README", "ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "GAPS", "MIGRATION", "SECURITY")
ANOTHER_TIME = "1893456000"


# -- what they say --------------------------------------------------------------------------------


def test_the_metadata_is_complete(built: Built) -> None:
    metadata = built.metadata()
    for field in ("Summary", "Author", "Keywords", "License-Expression", "Requires-Python"):
        assert metadata[field], field
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_all("Project-URL")
    classifiers = set(metadata.get_all("Classifier", ()))
    wanted = {"Framework :: Pytest", "Intended Audience :: Developers", "Typing :: Typed"}
    assert wanted <= classifiers
    least = metadata["Requires-Python"].removeprefix(">=")
    pythons = {one.rpartition(" ")[2] for one in classifiers if re.search(r":: 3\.\d+$", one)}
    assert min(pythons, key=_as_numbers) == least


def _as_numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_the_readme_renders_without_raw_html(built: Built) -> None:
    readme = str(built.metadata().get_payload())
    assert readme.strip() == (ROOT / "README.md").read_text(encoding="utf-8").strip()
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(readme)
    kinds = {token.type for token in _with_children(tokens)}
    assert {"table_open", "fence", "image"} <= kinds
    assert not {"html_block", "html_inline"} & kinds


def test_what_the_readme_links_to_comes_with_the_sources(built: Built) -> None:
    readme = str(built.metadata().get_payload())
    tokens = _with_children(MarkdownIt("gfm-like", {"linkify": False}).parse(readme))
    links = {str(token.attrs.get("href") or token.attrs.get("src") or "") for token in tokens}
    files = {link for link in links if link and not link.startswith("https://")}
    assert {"GAPS.md", "examples/images/timers.png"} <= files
    assert {file.partition("#")[0] for file in files} - built.sdist_names() == set()
    for page, _, heading in (file.partition("#") for file in files if "#" in file):
        assert heading in headings_of(ROOT / page)


def headings_of(page: Path) -> set[str]:
    """The names by which links reach the headings of a page."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in found}


def _with_children(tokens: Any) -> list[Any]:  # Any: the parser's own tokens
    return [one for token in tokens for one in (token, *(token.children or ()))]


def test_the_wheel_brings_the_command_and_the_pytest_plugin(built: Built) -> None:
    entries = ConfigParser()
    entries.read_string(built.in_wheel(".dist-info/entry_points.txt").decode())
    assert {name: dict(entries[name]) for name in entries.sections()} == {
        "console_scripts": {"rocketmq-py": "embedded_broker.cli:main"},
        "pytest11": {"rocketmq": "embedded_broker.pytest_plugin"},
    }


def test_the_wheel_has_type_markers_and_no_tests(built: Built) -> None:
    names = built.wheel_names()
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    assert [name for name in names if re.search(r"(^|/)(tests?|examples|conftest)\b", name)] == []
    assert [name for name in names if not name.endswith((".py", "py.typed"))] == [
        name for name in names if ".dist-info/" in name
    ]


def test_the_sources_come_with_their_tests_and_pages(built: Built) -> None:
    names = built.sdist_names()
    assert {f"{page}.md" for page in PAGES} | {"LICENSE", "Makefile", ".ci/parts.py"} <= names
    assert "tests/packaging/test_built.py" in names
    assert [name for name in names if re.search(r"\.py[cod]$|\.venv|\.git/", name)] == []


# -- the same again -------------------------------------------------------------------------------


def test_two_builds_of_the_same_sources_are_equal_byte_for_byte(
    built: Built, tmp_path: Path
) -> None:
    sources = copy_of_sources(tmp_path / "elsewhere")
    for path in sources.rglob("*"):
        path.chmod(path.stat().st_mode & ~0o077)
    again = build(
        sources, tmp_path / "again", umask=0o077, PYTHONHASHSEED="7", TZ="Asia/Tokyo", LC_ALL="C"
    )
    assert again.wheel.name == built.wheel.name
    assert again.wheel.read_bytes() == built.wheel.read_bytes()
    assert again.sdist.name == built.sdist.name
    assert again.sdist.read_bytes() == built.sdist.read_bytes()


def test_the_time_of_a_build_is_the_one_that_the_environment_names(
    built: Built, tmp_path: Path
) -> None:
    once = build(ROOT, tmp_path / "once", SOURCE_DATE_EPOCH=ANOTHER_TIME)
    twice = build(ROOT, tmp_path / "twice", SOURCE_DATE_EPOCH=ANOTHER_TIME)
    assert once.wheel.read_bytes() == twice.wheel.read_bytes()
    assert once.sdist.read_bytes() == twice.sdist.read_bytes()
    assert once.wheel.read_bytes() != built.wheel.read_bytes()
    assert once.in_wheel("/RECORD") == built.in_wheel("/RECORD")


def test_the_source_distribution_builds_the_same_wheel(built: Built, tmp_path: Path) -> None:
    unpack(built.sdist, tmp_path)
    (sources,) = tmp_path.iterdir()
    again = build(sources, tmp_path / "again", "wheel")
    assert again.wheel.read_bytes() == built.wheel.read_bytes()

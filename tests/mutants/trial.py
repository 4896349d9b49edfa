"""One mutant in a private copy of the tree: broken, tested, put back.

Answers: was the wrong line noticed, and by which test. Must not know: which mutants there are.
The copy shares the virtual environment; its packages come first on the path of its tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from attrs import frozen

from tests.cases import ROOT
from tests.mutants.mutant import Mutant

PAGES = ("README.md", "TUTORIAL.md")
COPIED = ("rocketmq_py", "compat", "embedded_broker", "tests", "pyproject.toml", *PAGES)
TEST_TIMEOUT_S = 20
TRIAL_TIMEOUT_S = 150
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_TESTS_FAILED = 1


@frozen
class Verdict:
    """What came of a mutant: `caught_by` is a test, or empty when none noticed."""

    mutant: Mutant
    caught_by: str
    trouble: str = ""
    """Why it could not be tried at all."""

    @property
    def caught(self) -> bool:
        return bool(self.caught_by) and not self.trouble


class Copy:
    """A private copy of the tree in which one mutant at a time lives."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        ignored = shutil.ignore_patterns("__pycache__", "results", "*.png", "java")
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=ignored)
            else:
                shutil.copy(source, folder / name)

    def try_out(self, mutant: Mutant, tests: list[str]) -> Verdict:
        """Break the line, run the tests, mend it."""
        path = self.root / mutant.file
        if not tests:
            return Verdict(mutant, "", f"no test for {mutant.title}")
        whole = path.read_text(encoding="utf-8") if path.exists() else ""
        found = whole.count(mutant.old)
        if found != 1:
            return Verdict(mutant, "", f"the old line is there {found} times, not once")
        path.write_text(whole.replace(mutant.old, mutant.new), encoding="utf-8")
        try:
            return self._judge(mutant, self.run(tests))
        except subprocess.TimeoutExpired:
            return Verdict(mutant, f"no end within {TRIAL_TIMEOUT_S} s")
        finally:
            path.write_text(whole, encoding="utf-8")

    def run(
        self, tests: list[str], timeout_s: float = TRIAL_TIMEOUT_S
    ) -> subprocess.CompletedProcess[str]:
        """Run tests of the copy up to the first failure."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "--tb=no", "-rfE"]
        command += ["-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist"]
        command += [f"--timeout={TEST_TIMEOUT_S}", *tests]
        # A mutant may have the size and the second of the line before: no byte code is kept.
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(self.root)}
        return subprocess.run(
            command,
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )

    def uses_itself(self) -> bool:
        """Say whether the copy's own packages are the ones that its tests import."""
        program = "import embedded_broker as e, rocketmq_py as r; print(e.__file__, r.__file__)"
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        return all(name.startswith(str(self.root)) for name in done.stdout.split())

    @staticmethod
    def _judge(mutant: Mutant, done: subprocess.CompletedProcess[str]) -> Verdict:
        if done.returncode == 0:
            return Verdict(mutant, "")
        match = _FAILED.search(done.stdout)
        if done.returncode == _TESTS_FAILED and match is not None:
            return Verdict(mutant, match[1])
        if done.returncode == _TESTS_FAILED and "Timeout" in done.stdout + done.stderr:
            return Verdict(mutant, "a test that did not end")
        last = (done.stdout + done.stderr).strip().splitlines()[-1:]
        return Verdict(mutant, "", f"pytest ended with {done.returncode}: {''.join(last)}")

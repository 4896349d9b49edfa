"""What a mutant is: one wrong line, and the tests that must notice.

`old` stands exactly once in its file. A change of that line makes the run fail until the mutant is
written anew, so that none silently tests nothing. Must not know: how a mutant is run.
"""

from __future__ import annotations

from attrs import frozen


@frozen
class Mutant:
    """A line of `file` and what it becomes.

    `cases` are numbered cases, whose tests are run; `tests` names files of tests. One of the two.
    """

    file: str
    old: str
    new: str
    cases: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """The letter of its cases, or the room of the broker in which its file lies."""
        if self.cases:
            return self.cases[0].rstrip("0123456789")
        return self.file.split("/")[1]

    @property
    def title(self) -> str:
        where = f"{' '.join(self.cases)}: {self.file}" if self.cases else self.file
        return f"{where}: {self.old.strip()} -> {self.new.strip()}"

"""The file `plain_acl.yml` of ACL 1, read and written by PyYAML (the extra `acl`).

Answers: which document the file holds, and how a document becomes the file. A scalar is text as it
is written, but for null: a secret of digits stays what it is. What gives a value a second place or
meaning (aliases, tags, directives, a key twice, several documents) is refused with its line. No
error shows what stands there: it may be a secret. Must not know: accounts. Import this module only
where there is such a file: PyYAML may be missing.
"""

import re
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final, NoReturn

import yaml

from rocketmq_py.errors import ConfigError

FILE_MAX: Final = 1024 * 1024
"""Some 5,000 accounts. PyYAML reads half of that in a second."""
DEPTH_MAX: Final = 16


def read_document(path: Path) -> dict[str, Any]:  # Any: nobody has looked at the document yet
    """Read the file; raises ``ConfigError`` that names it, and the line of what is wrong."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_MAX + 1)
        if len(content) > FILE_MAX:
            raise ConfigError("acl", str(path), f"a file of at most {FILE_MAX} bytes")
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("acl", str(path), f"a file that can be read: {error}") from error
    document = _read(text, str(path))
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError("acl", str(path), "a file with accounts and globalWhiteRemoteAddresses")
    return document


def write_document(path: Path, document: dict[str, Any]) -> None:  # Any: as above
    """Write the file, whole or not at all; nobody but its owner may read the new one.

    Raises ``ConfigError`` for a document that ``read_document`` would find too large.
    """
    # Other letters are escaped and long texts are not folded: any reader takes that.
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=False, width=FILE_MAX)
    if len(text) > FILE_MAX:
        raise ConfigError("acl", str(path), f"a file of at most {FILE_MAX} bytes")
    with NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        file.write(text)
    Path(file.name).replace(path)


def _read(text: str, source: str) -> object:
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _error(source, line, "a character that YAML does not allow") from None
    try:
        return loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line if mark is not None else loader.line
        within = error.context or ""
        if error.context_mark is not None and error.context_mark.line != line:
            within += f" that begins in line {error.context_mark.line + 1}"
        problem = f"{within}, {error.problem}" if within else f"{error.problem}"
        raise _error(source, line + 1, problem) from None
    except (ValueError, OverflowError):  # PyYAML's, of an escape such as \UFFFFFFFF
        raise _error(source, loader.line + 1, "an escape that is no character") from None


def _error(source: str, line: int, problem: str) -> ConfigError:
    return ConfigError("acl", f"{source} line {line}", f"it cannot be read: {problem}")


class _Loader(yaml.SafeLoader):
    """Gives mappings, lists and texts, and refuses what they do not need."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    # -- what the scanner meets: refused before it reads on, for behind the mark may be a secret ---

    def fetch_alias(self) -> None:
        self._refuse_mark("an alias", "*")

    def fetch_anchor(self) -> None:
        self._refuse_mark("an anchor", "&")

    def fetch_tag(self) -> None:
        self._refuse_mark("a tag", "!")

    def fetch_directive(self) -> None:
        self._refuse_mark("a directive", "%")

    def _refuse_mark(self, name: str, mark: str) -> NoReturn:
        problem = f"{mark} begins {name}, which is not taken: put the value into quotes"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=self.get_mark())

    # -- what becomes of it -----------------------------------------------------------------------

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Count the levels, and stop before Python does."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            problem = f"it is deeper than {DEPTH_MAX} levels"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key that stands twice; PyYAML would take the last one."""
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                problem = "a list or mapping is no key"
            elif key.value in seen:
                problem = "a key stands here a second time"
            else:
                seen.add(key.value)
                continue
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
        return super().construct_mapping(node, deep)

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> str:
        """Join an escaped pair of surrogates, as JSON and Java write such characters."""
        text = super().construct_scalar(node)
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


# Of what has no quotes only null is no text: digits, dates and words for yes and no are.
_NULL: Final = ("tag:yaml.org,2002:null", re.compile(r"(?:~|null|Null|NULL)?$"))
_Loader.yaml_implicit_resolvers = {first: [_NULL] for first in ("", "~", "n", "N")}
